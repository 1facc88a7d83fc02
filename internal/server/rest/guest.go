// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// guests are the connections of a server. Those that have not asked anything with a valid signature are strangers:
// where all places are taken the stranger who is there for longest goes, so that nobody who has no key can keep the
// others out by opening connections and saying little.
type guests struct {
	max, perAddress int
	stats           *Stats

	mu sync.Mutex
	// open counts the connections that have places, told those that have none and are to be told so.
	open, told int
	number     uint32
	byAddress  map[netip.Addr]int
	strangers  list.List // of *guest, who came first in front
}

// guest is one connection.
type guest struct {
	net.Conn
	of *guests
	// number tells connections apart.
	number uint32
	remote netip.AddrPort
	// stranger is its place among the strangers, nil if it is none; of.mu guards it.
	stranger *list.Element
	// left says that it has given up its place.
	left bool
	// refusal is what its first request is answered, empty where it has a place.
	refusal string
}

// known says that somebody with a key is at the other end.
func (g *guest) known() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.isStranger(false)
}

// isStranger takes the connection into the strangers, or out of them. Its caller holds mu.
func (g *guest) isStranger(yes bool) {
	switch l := &g.of.strangers; {
	case yes:
		g.stranger = l.PushBack(g)
	case g.stranger != nil:
		l.Remove(g.stranger)
		g.stranger = nil
	}
}

// Close closes the connection and gives up its place.
func (g *guest) Close() error {
	g.of.mu.Lock()
	g.isStranger(false)
	g.of.leave(g)
	g.of.mu.Unlock()
	return g.Conn.Close()
}

// leave gives up a place, once. Its caller holds mu.
func (w *guests) leave(g *guest) {
	if g.left {
		return
	}
	if g.left = true; g.refusal != "" {
		w.told--
		return
	}
	w.open--
	w.stats.Connections.Add(-1)
	if w.byAddress[g.remote.Addr()]--; w.byAddress[g.remote.Addr()] == 0 {
		delete(w.byAddress, g.remote.Addr())
	}
}

// oldest is the stranger who is there for longest among those that fit, nil if there is none. Its caller holds mu.
func (w *guests) oldest(fits func(*guest) bool) *guest {
	for e := w.strangers.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*guest); fits(s) {
			return s
		}
	}
	return nil
}

// toldMax is how many connections at once are told that there is no place for them; further ones are closed.
const toldMax = 32

// admit takes a connection in, or returns nil. out is a stranger that has to go for it.
func (w *guests) admit(c net.Conn) (g, out *guest) {
	g = &guest{Conn: c, of: w}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		g.remote = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	address := g.remote.Addr()
	w.mu.Lock()
	defer w.mu.Unlock()
	why := ""
	switch {
	case w.perAddress < w.max && w.byAddress[address] >= w.perAddress:
		out = w.oldest(func(s *guest) bool { return s.remote.Addr() == address })
		why = "Too many connections come from this address: close some, or raise limits.connections_per_address."
	case w.open >= w.max:
		out = w.oldest(func(*guest) bool { return true })
		why = "This node has as many connections over HTTP as it may have: close some, or ask another node."
	}
	if why != "" && out == nil {
		if w.told == toldMax {
			return nil, nil
		}
		w.told++
		g.refusal = why
		return g, nil
	}
	if out != nil {
		out.isStranger(false)
		w.leave(out)
	}
	if w.byAddress == nil {
		w.byAddress = map[netip.Addr]int{}
	}
	w.byAddress[address]++
	w.open++
	w.stats.Connections.Add(1)
	w.number++
	g.number = w.number
	g.isStranger(true)
	return g, out
}
