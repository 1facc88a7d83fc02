// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// doing is the request that a connection carries out, for goroutines that look at the connection.
type doing struct {
	// began is when the request began, in Unix nanoseconds, or 0 if there is no request.
	began     atomic.Int64
	requests  atomic.Int64
	operation atomic.Pointer[operation]
	target    atomic.Pointer[target]
}

func (d *doing) begin(now time.Time) {
	d.requests.Add(1)
	d.began.Store(now.UnixNano())
}

func (d *doing) end() {
	d.began.Store(0)
	d.operation.Store(nil)
	d.target.Store(nil)
}

// SessionInfo describes a connection to operators.
type SessionInfo struct {
	// Number identifies the connection among all of the node, also across restarts; Since is when it began.
	Number uint64
	Since  time.Time
	Remote netip.AddrPort
	// Encrypted reports whether the connection speaks TLS.
	Encrypted bool
	// Key is the name of the key that the first request was signed with, empty as long as there is none. Agent is the
	// User-Agent header of that request.
	Key, Agent string
	// Requests is the number of requests so far.
	Requests int64
	// Request is the operation of the request under way and the database and container it is about, without ids of
	// items and texts of queries, and Began when it began; empty and zero if there is no request.
	Request string
	Began   time.Time
}

// Sessions returns the connections that have most to do, at most so many, and how many connections there are. The
// connection with the oldest request comes first; connections without a request follow by the number of their requests.
func (s *Server) Sessions(most int) (list []SessionInfo, all int) {
	s.mu.Lock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	list = make([]SessionInfo, len(conns))
	for i, c := range conns {
		list[i] = c.inspect()
	}
	began := func(i *SessionInfo) int64 {
		if i.Began.IsZero() {
			return math.MaxInt64
		}
		return i.Began.UnixNano()
	}
	slices.SortFunc(list, func(a, b SessionInfo) int {
		return cmp.Or(cmp.Compare(began(&a), began(&b)), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Number, b.Number))
	})
	return list[:min(len(list), max(most, 0))], len(conns)
}

// inspect describes the connection.
func (c *conn) inspect() SessionInfo {
	i := SessionInfo{Number: c.number, Since: c.since, Remote: c.guest.remote, Encrypted: c.server.opts.TLS != nil,
		Requests: c.doing.requests.Load()}
	c.mu.Lock()
	i.Key, i.Agent = c.key, c.agent
	c.mu.Unlock()
	began := c.doing.began.Load()
	if began == 0 {
		return i
	}
	i.Began = time.Unix(0, began)
	op, t := c.doing.operation.Load(), c.doing.target.Load()
	if op == nil || t == nil {
		return i
	}
	i.Request = op.name
	if db := t.database(); db != "" {
		i.Request += " dbs/" + db
		if coll := t.container(); coll != "" {
			i.Request += "/colls/" + coll
		}
	}
	return i
}

// introduced notes the key of the first request, and the name that the client gives itself.
func (c *conn) introduced(key, agent string) {
	c.mu.Lock()
	c.key, c.agent = key, strings.Clone(agent) // the header is a part of the whole head
	c.mu.Unlock()
}

// Cancel ends the connection of a number and the request under way; false if there is no such connection. A write that
// is in a log already takes effect.
func (s *Server) Cancel(number uint64) (SessionInfo, bool) {
	s.mu.Lock()
	var found *conn
	for c := range s.conns {
		if c.number == number {
			found = c
		}
	}
	s.mu.Unlock()
	if found == nil {
		return SessionInfo{}, false
	}
	i := found.inspect()
	found.cancel()
	_ = found.guest.Conn.Close() // its goroutine gives the place up
	return i, true
}
