// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// cluster is a set of four nodes in this process, each with its own stores. They are connected over the loopback
// device.
type cluster struct {
	tb    testing.TB
	nodes []*member
}

type member struct {
	id     raftgroup.NodeID
	log    *raftlog.Store
	store  *ledger.Store
	runner *raftgroup.Runner
	groups []*raftgroup.Group
	wire   *wire
	quiet  atomic.Int64
}

// quietCounter counts the quiescent groups of a member.
type quietCounter struct {
	raftgroup.Observer
	m *member
}

func (c quietCounter) Quiesced(_ uint64, quiet bool) {
	if quiet {
		c.m.quiet.Add(1)
	} else {
		c.m.quiet.Add(-1)
	}
}

// observer calls the functions that are set.
type observer struct {
	raftgroup.NoObserver
	leaderChanged func(group uint64, leader raftgroup.Member)
	peerDown      func(node raftgroup.NodeID, down bool)
	unknownGroup  func(group, replica uint64, from raftgroup.NodeID)
	dropped       func()
	failed        func(err error)
}

func (o *observer) LeaderChanged(group uint64, leader raftgroup.Member, _ uint64) {
	if o.leaderChanged != nil {
		o.leaderChanged(group, leader)
	}
}

func (o *observer) PeerDown(node raftgroup.NodeID, down bool) {
	if o.peerDown != nil {
		o.peerDown(node, down)
	}
}

func (o *observer) UnknownGroup(group, replica uint64, from raftgroup.NodeID) {
	if o.unknownGroup != nil {
		o.unknownGroup(group, replica, from)
	}
}

func (o *observer) Dropped(string, int) {
	if o.dropped != nil {
		o.dropped()
	}
}

func (o *observer) Failed(err error) {
	if o.failed != nil {
		o.failed(err)
	}
}

func nodeID(i int) (id raftgroup.NodeID) { id[0] = byte(i + 1); return id }

// newCluster starts four nodes with groups 1..n. The leader of group g is on node g%4.
func newCluster(tb testing.TB, fs vfs.FS, dir string, groups int, o raftgroup.Options) *cluster {
	tb.Helper()
	c := &cluster{tb: tb}
	for i := range 4 {
		m := &member{id: nodeID(i), wire: newWire(tb, nodeID(i))}
		c.nodes = append(c.nodes, m)
	}
	for i, m := range c.nodes {
		var err error
		if m.log, err = raftlog.Open(filepath.Join(dir, fmt.Sprint(i), "log"), raftlog.Options{FS: fs}); err != nil {
			tb.Fatal(err)
		}
		if m.store, err = ledger.Open(filepath.Join(dir, fmt.Sprint(i), "rows"), fs, 32<<20); err != nil {
			tb.Fatal(err)
		}
		o := o
		o.Node = m.id
		o.Observer = quietCounter{cmp.Or[raftgroup.Observer](o.Observer, raftgroup.NoObserver{}), m}
		host := raftgroup.NewHost(m.log, m.log.NewBatch(), o)
		var configs []raftgroup.GroupConfig
		for g := 1; g <= groups; g++ {
			configs = append(configs, c.config(uint64(g), i))
			k := configs[g-1]
			meta := ledger.Meta{Replica: k.Replica, Applied: k.Applied, Term: k.Term, Conf: k.Conf,
				Where: raftgroup.EncodeMembers(nil, k.Where)}
			if err := m.store.Create(k.ID, meta); err != nil {
				tb.Fatal(err)
			}
		}
		if m.groups, err = host.Open(configs...); err != nil {
			tb.Fatal(err)
		}
		m.runner = raftgroup.NewRunner(host, raftgroup.NewLogWriter(m.log.NewBatch()), raftgroup.NewApplier(m.store),
			m.store, m.wire, raftgroup.BootClock{})
	}
	for _, m := range c.nodes {
		m.wire.connect(c.nodes, m.runner.Receive)
		for _, to := range c.nodes {
			m.wire.snapshot[to.id] = to.runner.ReceiveSnapshot
		}
		m.runner.Start()
	}
	return c
}

func (c *cluster) config(group uint64, node int) raftgroup.GroupConfig {
	k := raftgroup.GroupConfig{ID: group, Applied: 10, Term: 5, Conf: &pb.ConfState{}, Initial: true, Fresh: true}
	for i := range c.nodes {
		replica := group*10 + uint64(i)
		k.Conf.Voters = append(k.Conf.Voters, replica)
		k.Where = append(k.Where, raftgroup.Member{Replica: replica, Node: nodeID(i)})
		if i == node {
			k.Replica = replica
		}
	}
	return k
}

// elect makes node g%4 the leader of group g and waits until it may evaluate.
func (c *cluster) elect() {
	c.tb.Helper()
	eventually.None(c.tb, "a leader of each group", eventually.Limit, func() string {
		left := 0
		for n, m := range c.nodes {
			err := m.runner.Do(func(h *raftgroup.Host) {
				for g := range m.groups {
					wanted := c.leader(g)
					if _, ok := wanted.groups[g].Evaluating(); ok {
						continue
					}
					left++
					if s, _ := h.Status(m.groups[g].ID()); g%4 == n && s.Leader == 0 {
						h.Campaign(s.Group)
					} else if s.Leading && g%4 != n {
						_ = h.Transfer(s.Group, wanted.groups[g].Replica())
					}
				}
			})
			if err != nil {
				c.tb.Fatal(err)
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d have none", left/4)
		}
		return ""
	})
}

func (c *cluster) leader(g int) *member { return c.nodes[g%4] }

func (c *cluster) close() {
	for _, m := range c.nodes {
		if err := m.runner.Close(); err != nil {
			c.tb.Error(err)
		}
	}
	for _, m := range c.nodes {
		m.wire.close()
		if err := errors.Join(m.log.Close(), m.store.Close()); err != nil {
			c.tb.Error(err)
		}
	}
}

// wire is a transport over TCP. It has one connection and one buffer for each peer, and the writer sends the complete
// buffer.
type wire struct {
	id       raftgroup.NodeID
	listener net.Listener
	peers    map[raftgroup.NodeID]*link
	stop     chan struct{}
	done     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	snapshot map[raftgroup.NodeID]func(raftgroup.NodeID, io.Reader) error
	cut      atomic.Bool
}

type link struct {
	mu   sync.Mutex
	buf  []byte
	wake chan struct{}
}

const linkMax = 16 << 20

func newWire(tb testing.TB, id raftgroup.NodeID) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return &wire{id: id, listener: l, peers: map[raftgroup.NodeID]*link{},
		snapshot: map[raftgroup.NodeID]func(raftgroup.NodeID, io.Reader) error{}, stop: make(chan struct{})}
}

func (w *wire) connect(nodes []*member, receive func(raftgroup.NodeID, []byte) error) {
	for _, m := range nodes {
		if m.id != w.id {
			w.peers[m.id] = &link{wake: make(chan struct{}, 1)}
		}
	}
	w.goRun(func() {
		for {
			conn, err := w.listener.Accept()
			if err != nil {
				return
			}
			w.track(conn)
			w.goRun(func() { w.read(conn, receive) })
		}
	})
	for _, m := range nodes {
		if m.id != w.id {
			w.goRun(func() { w.write(w.peers[m.id], m.wire.listener.Addr().String()) })
		}
	}
}

func (w *wire) goRun(f func()) {
	w.done.Add(1)
	go func() { defer w.done.Done(); f() }()
}

func (w *wire) track(c net.Conn) {
	w.mu.Lock()
	w.conns = append(w.conns, c)
	w.mu.Unlock()
}

func (w *wire) read(conn net.Conn, receive func(raftgroup.NodeID, []byte) error) {
	r := bufio.NewReaderSize(conn, 256<<10)
	var head [20]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		frame := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, frame); err != nil {
			return
		}
		if w.cut.Load() {
			continue
		}
		if err := receive(raftgroup.NodeID(head[4:]), frame); err != nil {
			return
		}
	}
}

func (w *wire) write(l *link, addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	w.track(conn)
	var spare []byte
	for {
		select {
		case <-w.stop:
			return
		case <-l.wake:
		}
		l.mu.Lock()
		out := l.buf
		l.buf = spare[:0]
		l.mu.Unlock()
		if _, err := conn.Write(out); err != nil {
			return
		}
		spare = out
	}
}

// Send implements raftgroup.Transport.
func (w *wire) Send(to raftgroup.NodeID, frame []byte) bool {
	if w.cut.Load() {
		return true
	}
	l := w.peers[to]
	l.mu.Lock()
	ok := len(l.buf)+len(frame) <= linkMax
	if ok {
		l.buf = binary.LittleEndian.AppendUint32(l.buf, uint32(len(frame)))
		l.buf = append(append(l.buf, w.id[:]...), frame...)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return ok
}

// SendSnapshot implements raftgroup.Transport.
func (w *wire) SendSnapshot(to raftgroup.NodeID, head []byte, data io.ReaderAt, size int64) error {
	if w.cut.Load() {
		return errors.New("not sent")
	}
	return w.snapshot[to](w.id, io.MultiReader(bytes.NewReader(head), io.NewSectionReader(data, 0, size)))
}

func (w *wire) close() {
	close(w.stop)
	_ = w.listener.Close()
	w.mu.Lock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.done.Wait()
}
