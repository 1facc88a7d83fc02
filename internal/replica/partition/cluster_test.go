// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/test/eventually"
)

// testCluster is a cluster of hosts in this process. The hosts communicate by function calls, and a test can cut their
// connections.
type testCluster struct {
	t     testing.TB
	nodes []*node
	mu    sync.Mutex
	cut   map[[2]int]bool
	// sequence is the last sequence number of the cluster's only coordinator.
	sequence atomic.Uint64
}

type node struct {
	w     *testCluster
	index int
	fs    *vfs.MemFS
	log   *raftlog.Store
	store *storage.Store
	host  atomic.Pointer[Host] // nil while the node is down
	// crashed is true after a crash. The node then has no effect on other nodes.
	crashed atomic.Bool
	// levels holds the feature levels that the node's build supports. The zero value means feature.Known.
	levels feature.Range
	// around wraps the node's store, or is nil. staleness is the node's Cluster.StalenessMax.
	around    func(Store) Store
	staleness time.Duration
	// records holds the versions passed to RecordsChanged.
	mu      sync.Mutex
	records []uint64
	// puts holds the changes passed to RecordsPut.
	puts map[uint64][]command.Record
}

// recordsObserver records the changes of the meta partition's records for tests.
type recordsObserver struct {
	NoObserver
	n *node
}

func (o recordsObserver) RecordsPut(version uint64, put []command.Record) {
	o.n.mu.Lock()
	defer o.n.mu.Unlock()
	if o.n.puts == nil {
		o.n.puts = map[uint64][]command.Record{}
	}
	o.n.puts[version] = put
}

func (o recordsObserver) RecordsChanged(version uint64) {
	o.n.mu.Lock()
	defer o.n.mu.Unlock()
	o.n.records = append(o.n.records, version)
}

func nodeID(i int) topology.NodeID { return topology.NodeID{byte(i + 1)} }

func newTestCluster(t testing.TB, n int) *testCluster {
	t.Helper()
	w := &testCluster{t: t, cut: map[[2]int]bool{}}
	for i := range n {
		w.nodes = append(w.nodes, &node{w: w, index: i, fs: vfs.NewCrashableMem()})
		w.start(i)
	}
	t.Cleanup(func() {
		for i := range w.nodes {
			w.stop(i)
		}
	})
	return w
}

// start starts a node on its disk.
func (w *testCluster) start(i int) {
	w.t.Helper()
	n := w.nodes[i]
	var err error
	if n.log, err = raftlog.Open("log", raftlog.Options{FS: n.fs, MemtableBytes: 1 << 20}); err != nil {
		w.t.Fatal(err)
	}
	if n.store, err = storage.Open(n.fs, "rows", storage.Options{MemtableBytes: 1 << 20, CacheBytes: 1 << 20,
		Levels: n.levels}); err != nil {
		w.t.Fatal(err)
	}
	election := 10
	if _, measured := w.t.(*testing.B); measured {
		election = 100 // prevents leader changes, even on a slow machine
	}
	store := Store(Stored{n.store})
	if n.around != nil {
		store = n.around(store)
	}
	h, err := Open(store, Options{Cluster: &Cluster{
		Node: nodeID(i), Log: n.log, Transport: n, StalenessMax: n.staleness,
		Raft: raftgroup.Options{Tick: 20 * time.Millisecond, ElectionTicks: election, TruncateEntries: 200,
			TruncateKeep: 20},
		Observer: recordsObserver{n: n},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	n.host.Store(h)
}

// stop stops a running node.
func (w *testCluster) stop(i int) {
	n := w.nodes[i]
	h := n.host.Swap(nil)
	if h == nil {
		return
	}
	if err := errors.Join(h.Close(), n.store.Close(), n.log.Close()); err != nil {
		w.t.Errorf("node %d: %v", i, err)
	}
}

// crash stops a node and discards all unsynced data. Later syncs have no effect.
func (w *testCluster) crash(i int) {
	n := w.nodes[i]
	n.crashed.Store(true)
	left := n.fs.CrashClone(vfs.CrashCloneCfg{})
	w.stop(i)
	n.fs = left
	n.crashed.Store(false)
}

// isolate disconnects or reconnects a node.
func (w *testCluster) isolate(i int, cut bool) {
	w.mu.Lock()
	for o := range w.nodes {
		w.cut[[2]int{i, o}], w.cut[[2]int{o, i}] = cut, cut
	}
	w.mu.Unlock()
}

// to returns the host that receives a frame, or nil if the frame is lost.
func (n *node) to(id raftgroup.NodeID) *Host {
	if n.crashed.Load() {
		return nil
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	o := int(id[0]) - 1
	if n.w.cut[[2]int{n.index, o}] {
		return nil
	}
	return n.w.nodes[o].host.Load()
}

// Send implements raftgroup.Transport.
func (n *node) Send(to raftgroup.NodeID, frame []byte) bool {
	if h := n.to(to); h != nil {
		return h.ReplicaSets().Receive(nodeID(n.index), bytes.Clone(frame)) == nil
	}
	return true
}

// SendSnapshot implements raftgroup.Transport.
func (n *node) SendSnapshot(to raftgroup.NodeID, head []byte, data io.ReaderAt, size int64) error {
	h := n.to(to)
	if h == nil {
		return errors.New("unreachable")
	}
	snapshot := io.MultiReader(bytes.NewReader(head), io.NewSectionReader(data, 0, size))
	return h.ReplicaSets().ReceiveSnapshot(nodeID(n.index), snapshot,
		size)
}

// table returns the topology of a table with n partitions whose replicas are on the given nodes. The replica IDs are 1,
// 2, and so on. Each node has one replica of a partition.
func (w *testCluster) table(n int, on ...int) *topology.Snapshot {
	w.t.Helper()
	place := topology.Place{Region: "here"}
	for _, i := range on {
		place.Nodes = append(place.Nodes, nodeID(i))
	}
	s, err := topology.New().AddTable(testTable, n, []topology.Place{place})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// create creates partitions on all nodes.
func (w *testCluster) create(ps ...*topology.Partition) {
	w.t.Helper()
	for _, n := range w.nodes {
		if err := n.host.Load().Create(ps...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// newTable creates a table with one partition on the given nodes.
func (w *testCluster) newTable(on ...int) *topology.Partition {
	w.t.Helper()
	p := w.table(1, on...).Partitions(testTable)[0]
	w.create(p)
	return p
}

// until waits until a condition is true.
func (w *testCluster) until(what string, ok func() bool) {
	w.t.Helper()
	eventually.True(w.t, what, ok)
}

// replica returns a node's replica of a partition, or nil.
func (w *testCluster) replica(i int, id topology.PartitionID) *Replica {
	if h := w.nodes[i].host.Load(); h != nil {
		return h.Replica(id)
	}
	return nil
}

// leader waits for a leader of a partition on a connected node, and returns the node.
func (w *testCluster) leader(id topology.PartitionID) (i int) {
	w.t.Helper()
	w.until("a leader", func() bool {
		for n := range w.nodes {
			w.mu.Lock()
			lost := w.cut[[2]int{n, n}]
			w.mu.Unlock()
			if r := w.replica(n, id); !lost && r != nil && r.Leading() {
				i = n
				return true
			}
		}
		return false
	})
	return i
}

// attempts is a coordinator's state of a command during its attempts. The attempts may be sent to several partitions.
type attempts struct {
	began  time.Time
	unsure bool     // an attempt may have been applied
	known  []uint64 // epoch of each node before the first attempt
}

func (w *testCluster) newAttempts() *attempts {
	a := &attempts{began: time.Now(), known: make([]uint64, len(w.nodes))}
	for i, n := range w.nodes {
		if h := n.host.Load(); h != nil {
			a.known[i] = h.DedupeEpoch()
		}
	}
	return a
}

// request sends one command to the leader until its outcome is known, like a coordinator that knows the epochs of all
// nodes.
func (w *testCluster) request(id topology.PartitionID, send sender) error {
	return w.retry(w.newAttempts(), id, send)
}

// retry continues a request. send calls its second argument to address the command.
func (w *testCluster) retry(a *attempts, id topology.PartitionID, send sender) error {
	for try, missing := 0, 0; ; try++ {
		r := w.replica(try%len(w.nodes), id)
		if r == nil {
			if missing++; missing > len(w.nodes) {
				return &WrongRange{Partition: id}
			}
			continue
		}
		missing = 0
		err := send(r, func(m *command.Mutation) { m.Retried, m.Known = a.unsure, a.known[try%len(w.nodes)] })
		if n := w.nodes[try%len(w.nodes)]; n.crashed.Load() || n.host.Load() != r.host {
			err = ErrUncertain // the response is lost
		}
		a.unsure = a.unsure || errors.Is(err, ErrUncertain)
		var moved *NotLeader
		var busy *dberr.Overloaded
		switch {
		case errors.As(err, &moved), errors.Is(err, ErrInProgress), errors.Is(err, ErrClosed), errors.As(err, &busy):
		case errors.Is(err, ErrUncertain) && time.Since(a.began) < 3*time.Second:
		default:
			return err
		}
		if time.Since(a.began) > eventually.Limit {
			return fmt.Errorf("given up: %w", err)
		}
		if try%len(w.nodes) == len(w.nodes)-1 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (w *testCluster) dedupe() command.DedupeID {
	return command.DedupeID{Coordinator: [16]byte{9}, Sequence: w.sequence.Add(1)}
}

// write writes a value with a new ID until the outcome is known.
func (w *testCluster) write(id topology.PartitionID, key string, v int64) error {
	dedupe := w.dedupe()
	return w.request(id, func(r *Replica, try func(*command.Mutation)) error {
		m := put(key, v)
		m.Dedupe = dedupe
		try(m)
		return write(context.Background(), r, m)
	})
}

// add increments a counter until the outcome is known.
func (w *testCluster) add(id topology.PartitionID, key string) error {
	dedupe := w.dedupe()
	return w.request(id, func(r *Replica, try func(*command.Mutation)) error {
		c := add(key, 1)
		c.Mutation.Dedupe = dedupe
		try(&c.Mutation)
		_, err := decide(context.Background(), r, c)
		return err
	})
}

// get reads column 1 and its timestamp from one replica at ONE, like a coordinator on the replica's node.
func get(ctx context.Context, r *Replica, key string, level dberr.Consistency) (v, ts int64, err error) {
	if level.OneReplica() {
		return getBy(ctx, r.ReadHere, key, level)
	}
	return getBy(ctx, r.Read, key, level)
}

// getBy is like get, but uses a method of the replica.
func getBy(ctx context.Context, read func(context.Context, *command.Read, command.Visitor) error, key string,
	level dberr.Consistency) (v, ts int64, err error) {
	k := []byte(key)
	f := rowCollector{refs: []command.RowRef{{}}, found: make([]*row.Row, 1)}
	c := f.read(&command.Conditional{Mutation: command.Mutation{Table: testTable, Token: token.Hash(k), Key: k},
		Rows: f.refs})
	c.Level = level
	if err := read(ctx, c, &f); err != nil || f.found[0] == nil {
		return 0, 0, err
	}
	cell := f.found[0].Cell(1)
	return int64(binary.BigEndian.Uint64(cell.Value)), cell.Timestamp, nil
}

// read reads from the leader.
func (w *testCluster) read(id topology.PartitionID, key string) (v, ts int64) {
	w.t.Helper()
	err := w.request(id, func(r *Replica, _ func(*command.Mutation)) (err error) {
		v, ts, err = get(context.Background(), r, key, dberr.Quorum)
		if errors.Is(err, ErrUnconfirmed) {
			err = &NotLeader{}
		}
		return err
	})
	if err != nil {
		w.t.Errorf("read %s: %v", key, err)
	}
	return v, ts
}

// same waits until all replicas of a partition have applied the same entries, and then compares their contents.
func (w *testCluster) same(id topology.PartitionID, on ...int) {
	w.t.Helper()
	lead := w.leader(id)
	w.until("equal indexes", func() bool {
		want := w.replica(lead, id).Applied()
		for _, i := range on {
			if r := w.replica(i, id); r == nil || r.Applied() != want { // the child of the split may not exist yet
				return false
			}
		}
		return true
	})
	var first uint64
	for n, i := range on {
		_, hash, err := w.nodes[i].store.HashPartition(uint64(id))
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			first = hash
		} else if hash != first {
			w.t.Errorf("partition %d on node %d differs from node %d", id, i, on[0])
		}
	}
}
