// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ilion-db/ilion/test/memnet"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var home = ClusterID{0xc1}

func id(i int) NodeID { return NodeID{byte(i)} }

func host(i int) string { return fmt.Sprintf("host%d", i) }

// start starts node i on host(i) of the network, and closes it at the end of the test.
func start(t *testing.T, n *memnet.Network, i int, h handlers, o Options) *Transport {
	t.Helper()
	return startAt(t, n, i, host(i), h, o)
}

func startAt(t *testing.T, n *memnet.Network, i int, at string, h handlers, o Options) *Transport {
	t.Helper()
	tr, err := New(Self{Cluster: home, Node: id(i), Address: at}, n.Dialler(at), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := n.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Start(l, h, h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

// sendWhole sends bytes to node 1 as the head and the data of a snapshot.
func sendWhole(t *Transport, data []byte) error {
	n := len(data) / 3
	return t.SendSnapshot(id(1), data[:n], bytes.NewReader(data[n:]), int64(len(data)-n))
}

// handlers implements RaftHandler and CommandHandler with functions. A nil function rejects the data.
type handlers struct {
	frame    func(from NodeID, frame []byte) error
	snapshot func(from NodeID, r io.Reader) error
	command  func(ctx context.Context, from NodeID, request []byte, r Responder)
}

func (h handlers) Receive(from NodeID, frame []byte) error {
	if h.frame == nil {
		return ErrFrame
	}
	return h.frame(from, frame)
}

func (h handlers) ReceiveSnapshot(from NodeID, r io.Reader, _ int64) error {
	if h.snapshot == nil {
		return ErrBusy
	}
	return h.snapshot(from, r)
}

func (h handlers) Serve(ctx context.Context, from NodeID, request []byte, r Responder) {
	if h.command == nil {
		r.Fail(ErrBusy)
		return
	}
	h.command(ctx, from, request, r)
}

func (handlers) ServeInline([]byte, Responder) bool { return false }

// events implements Observer with functions, each of which may be nil.
type events struct {
	accepted         func()
	dialFailed       func(err error)
	refused          func(p Peer)
	departed         func(p Peer)
	handshakeRefused func(err error)
}

func (e events) Accepted(Peer)                            { call0(e.accepted) }
func (e events) DialFailed(_ NodeID, _ string, err error) { call1(e.dialFailed, err) }
func (e events) Refused(p Peer)                           { call1(e.refused, p) }
func (e events) Departed(p Peer)                          { call1(e.departed, p) }
func (e events) HandshakeRefused(_ string, err error)     { call1(e.handshakeRefused, err) }

func call0(f func()) {
	if f != nil {
		f()
	}
}

func call1[T any](f func(T), v T) {
	if f != nil {
		f(v)
	}
}

// ledger records the received frames.
type ledger struct {
	mu     sync.Mutex
	frames []string
}

func (l *ledger) take(from NodeID, frame []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, fmt.Sprintf("%d:%s", from[0], frame))
	return nil
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.frames...)
}

// numbers checks that frames contain ascending uint32 values, and counts the frames.
type numbers struct {
	mu    sync.Mutex
	last  uint32
	count int
	wrong string
}

func (c *numbers) take(_ NodeID, frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := binary.LittleEndian.Uint32(frame)
	if n <= c.last && c.wrong == "" {
		c.wrong = fmt.Sprintf("%d behind %d", n, c.last)
	}
	c.last = n
	c.count++
	return nil
}

func (c *numbers) state() (last uint32, count int, wrong string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.count, c.wrong
}

func number(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// bubble runs a test in virtual time. Because of keep-alives, a blocked test would never end. A time limit ends such a
// test.
func bubble(t *testing.T, f func(t *testing.T, n *memnet.Network)) {
	synctest.Test(t, func(t *testing.T) {
		stuck := time.AfterFunc(3*time.Hour, func() { panic(t.Name() + " is stuck") })
		defer stuck.Stop()
		f(t, memnet.New())
	})
}

// admission implements Admission with two functions.
type admission struct {
	admit  func(Peer) error
	former func(ClusterID, NodeID) string
}

func (a admission) Admit(p Peer) error { return a.admit(p) }

func (a admission) FormerCluster(cluster ClusterID, node NodeID) string {
	if a.former == nil {
		return ""
	}
	return a.former(cluster, node)
}
