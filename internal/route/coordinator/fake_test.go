// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// batchTable is the ID of the fleet's batch log table.
const batchTable = keys.FirstTable + 100

// fleet simulates the replica sets that a coordinator on node 1 uses. Each replica set consists of one set of rows,
// which the leader serves. Scripts control the behavior of the nodes.
type fleet struct {
	mu     sync.Mutex
	leader map[topology.PartitionID]topology.NodeID
	here   map[topology.PartitionID]bool // a replica exists on node 1
	asks   map[topology.PartitionID]bool // the local replica contacts the leader and serves reads at any level
	down   map[topology.NodeID]bool      // the node refuses connections, and Alive returns false
	// script runs before a node processes a request. A non-nil result ends the attempt.
	script func(a *asked) *verdict
	log    []string
	rows   map[string]stored
	ids    map[command.DedupeID]bool
	seen   map[topology.PartitionID]uint64
	// sent holds the encoded mutations that the nodes have received.
	sent [][]byte
	last map[topology.PartitionID]int64
	next int64
	// epochs holds the epochs of partitions. The default is 1. required holds the revisions that Require has sent.
	epochs, required map[topology.PartitionID]uint64
	// revision is the revision of the test's table on the coordinator.
	revision uint64
}

type stored struct {
	stamp     int64
	value     []byte
	partition topology.PartitionID
	table     uint32
	key       []byte
	row       string
}

// asked describes one attempt.
type asked struct {
	node topology.NodeID
	id   topology.PartitionID
	what string
	n    int // number of earlier attempts
	m    *command.Mutation
}

// verdict is the result of an attempt. The attempt returns err, or passes err to the completion later if async is set.
// If applied is set, the write is applied despite the error. If hang is set, the attempt never ends.
type verdict struct {
	err         error
	async, hang bool
	applied     bool
	// slow is the delay of an asynchronous failure.
	slow time.Duration
}

func node(i int) topology.NodeID { return topology.NodeID{byte(i)} }

func newFleet() *fleet {
	return &fleet{leader: map[topology.PartitionID]topology.NodeID{}, down: map[topology.NodeID]bool{},
		here: map[topology.PartitionID]bool{}, asks: map[topology.PartitionID]bool{},
		rows: map[string]stored{}, ids: map[command.DedupeID]bool{}, seen: map[topology.PartitionID]uint64{},
		last:   map[topology.PartitionID]int64{},
		epochs: map[topology.PartitionID]uint64{}, required: map[topology.PartitionID]uint64{}}
}

// mapOf returns a topology of nodes 1 to 4 that contains the partitions of a table and one partition of the batch log.
func mapOf(t testingT, n int) *topology.Snapshot {
	places := []topology.Place{{Region: "here", Nodes: []topology.NodeID{node(1), node(2), node(3), node(4)}}}
	s, err := topology.New().AddTable(table, n, places)
	if err == nil {
		s, err = s.AddTable(batchTable, 1, places)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// join creates the coordinator of node 1.
func (f *fleet) join(t testingT, s *topology.Snapshot, o Options) *Coordinator {
	o.Cluster = &Cluster{Node: node(1), Network: f, Peers: fleetPeers{f, 0}, Sequence: 1000, Batches: f.batches()}
	o.Tables = tableNames{}
	c := New(nil, s, o)
	c.cluster.local = localReplicas(func(id topology.PartitionID) Local {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.here[id] {
			return &fake{f, node(1), id}
		}
		return nil
	})
	return c
}

// tableNames returns the name ks.t for all tables.
type tableNames struct{}

func (tableNames) TableName(uint32) string { return "ks.t" }

// localReplicas implements localHost for a node with the dedupe epoch 1.
type localReplicas func(id topology.PartitionID) Local

func (l localReplicas) Replica(id topology.PartitionID) Local { return l(id) }
func (localReplicas) DedupeEpoch() uint64                     { return 1 }

// Replica and Address implement Network.
func (f *fleet) Replica(n topology.NodeID, id topology.PartitionID) Member { return &fake{f, n, id} }
func (f *fleet) Address(n topology.NodeID) string                          { return fmt.Sprintf("10.0.0.%d", n[0]) }

// sameMember is a network that returns the same replica for every node.
type sameMember struct{ Member }

func (m sameMember) Replica(topology.NodeID, topology.PartitionID) Member { return m.Member }
func (sameMember) Address(topology.NodeID) string                         { return "" }

// fleetPeers implements Peers for a fleet. The dedupe epoch of every node is epoch. If epoch is 0, the dedupe epoch of
// a node is the node's number.
type fleetPeers struct {
	f     *fleet
	epoch uint64
}

func (p fleetPeers) Alive(n topology.NodeID) bool {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return !p.f.down[n]
}

func (p fleetPeers) Memory(n topology.NodeID, _ time.Time) uint64 {
	return cmp.Or(p.epoch, uint64(n[0]))
}

func (fleetPeers) SendAcknowledged(context.Context, map[topology.PartitionID]uint64) {}

// fake is a node's replica in the fleet.
type fake struct {
	f    *fleet
	node topology.NodeID
	id   topology.PartitionID
}

// ask records an attempt and returns its verdict, or nil for success.
func (r *fake) ask(what string, m *command.Mutation) *verdict {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &asked{r.node, r.id, what, len(f.log), m}
	line := fmt.Sprintf("%s %d at %d", what, r.id, r.node[0])
	if m != nil && m.Retried {
		line += " again"
	}
	f.log = append(f.log, line)
	if m != nil {
		f.sent = append(f.sent, command.AppendMutation(nil, m))
	}
	if f.script != nil {
		if v := f.script(a); v != nil {
			return v
		}
	}
	if f.down[r.node] {
		return &verdict{err: fmt.Errorf("%w: %d", transport.ErrUnreachable, r.node[0])}
	}
	if l := f.leader[r.id]; l != r.node {
		return &verdict{err: &partition.NotLeader{Partition: r.id, Leader: l}}
	}
	return nil
}

// Change implements Member.
func (r *fake) Change(context.Context, command.Records) (uint64, error) { return 7, r.noted("change") }

// noted records an attempt without an effect.
func (r *fake) noted(what string) error {
	if v := r.ask(what, nil); v != nil {
		return v.err
	}
	return nil
}

// carry ends an attempt with the verdict v. If v is nil, carry calls work.
func (r *fake) carry(v *verdict, work func(), done func(error)) error {
	switch {
	case v == nil:
		r.f.mu.Lock()
		work()
		r.f.mu.Unlock()
		if i, ok := any(done).(interface{ At(uint64) }); ok {
			i.At(1)
		}
		done(nil)
		return nil
	case v.applied:
		r.f.mu.Lock()
		work()
		r.f.mu.Unlock()
	}
	switch {
	case v.hang:
		return nil
	case v.async:
		time.AfterFunc(v.slow, func() { done(v.err) })
		return nil
	}
	return v.err
}

// apply merges a mutation by timestamp, like a store. A mutation is not applied if its ID has already been applied.
func (f *fleet) apply(id topology.PartitionID, m *command.Mutation) {
	if m.Dedupe != (command.DedupeID{}) {
		if f.ids[m.Dedupe] {
			return
		}
		f.ids[m.Dedupe] = true
	}
	f.next++
	stamp := max(f.last[id]+1, f.next)
	f.last[id] = max(stamp, m.Timestamp)
	for i := range m.Ops {
		o := &m.Ops[i]
		row.Stamp(o.Operand, stamp)
		at := row.Timestamp(o.Operand)
		place := fmt.Sprintf("%d/%x/%x", m.Table, m.Key, o.Clustering)
		if old, ok := f.rows[place]; !ok || old.stamp < at {
			f.rows[place] = stored{at, bytes.Clone(o.Operand), id, m.Table, bytes.Clone(m.Key), string(o.Clustering)}
		}
	}
}

func (r *fake) Write(_ context.Context, m *command.Mutation, done command.Completion) error {
	v := r.ask("write", m)
	return r.carry(v, func() { r.f.apply(r.id, m) }, func(err error) {
		if err != nil {
			done.Done(command.Failed(err))
			return
		}
		done.Done(command.Outcome{Index: 7})
	})
}

func (r *fake) ConditionalWrite(_ context.Context, c *command.Conditional, done command.Completion) error {
	v := r.ask("decide", &c.Mutation)
	var refused error
	return r.carry(v, func() {
		m := c.Mutation
		if len(c.Updates) > 0 && c.Updates[0].Kind != command.CounterAdd {
			m.Ops, refused = command.Resolve(slices.Clip(m.Ops), c, make([]*row.Row, len(c.Rows)), row.Unstamped)
		}
		if refused == nil {
			r.f.apply(r.id, &m)
		}
	}, func(err error) {
		err = cmp.Or(err, refused)
		if err != nil {
			done.Done(command.Failed(err))
			return
		}
		done.Done(command.Decided(&command.CASResult{Applied: true}, 0))
	})
}

func (r *fake) WriteAll(_ context.Context, parts []partition.Part, done command.Completion) error {
	v := r.ask("write all", parts[0].Mutation)
	return r.carry(v, func() {
		id := parts[0].Mutation.Dedupe
		if r.f.ids[id] {
			return
		}
		r.f.ids[id] = true
		for i := range parts {
			parts[i].Mutation.Dedupe = command.DedupeID{}
			r.f.apply(r.id, parts[i].Mutation)
		}
	}, func(err error) { done.Done(command.Failed(err)) })
}

func (r *fake) Truncate(_ context.Context, x partition.Extent, _ partition.Truncation, done command.Completion) error {
	v := cmp.Or(r.ask("truncate", nil), r.whole(x))
	return r.carry(v, func() {
		for place, s := range r.f.rows {
			if s.partition == r.id {
				delete(r.f.rows, place)
			}
		}
	}, func(err error) { done.Done(command.Failed(err)) })
}

func (r *fake) Require(_ context.Context, x partition.Extent, revision uint64) error {
	if v := cmp.Or(r.ask("require", nil), r.whole(x)); v != nil {
		return v.err
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.required[r.id] = revision
	return nil
}

// whole rejects a command if the extent of the partition differs from the extent that the sender expects.
func (r *fake) whole(x partition.Extent) *verdict {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if epoch := cmp.Or(r.f.epochs[r.id], 1); x.Epoch != epoch {
		return &verdict{err: &partition.WrongRange{Partition: r.id, Epoch: epoch}}
	}
	return nil
}

func (r *fake) Last(_ context.Context, x partition.Extent, _ fairshare.Principal) (int64, error) {
	if v := cmp.Or(r.ask("last", nil), r.whole(x)); v != nil {
		return 0, v.err
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.last[r.id], nil
}

// Read delivers the rows of the partition in ring order. If applied is set, a verdict follows the rows. Otherwise, the
// verdict replaces the rows.
func (r *fake) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	what := fmt.Sprintf("read(%s)", c.Level)
	if c.Owed > 0 {
		what += fmt.Sprintf(", which pays %d,", c.Owed)
	}
	return r.pass(ctx, c, v, r.ask(what, nil))
}

// ReadHere serves the read like a follower that has contacted the leader, or rejects the read.
func (r *fake) ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error {
	if c.Level.OneReplica() {
		return r.Read(ctx, c, v)
	}
	f := r.f
	f.mu.Lock()
	a := &asked{r.node, r.id, "read here", len(f.log), nil}
	refused := &verdict{err: &partition.NotLeader{Partition: r.id, Leader: f.leader[r.id]}}
	var w *verdict
	switch {
	case !f.asks[r.id]:
		w = refused
	default:
		f.log = append(f.log, fmt.Sprintf("read here(%s) %d", c.Level, r.id))
		if f.down[f.leader[r.id]] {
			w = refused
		} else if f.script != nil {
			w = f.script(a)
		}
	}
	f.mu.Unlock()
	return r.pass(ctx, c, v, w)
}

// pass delivers rows, or acts according to a verdict.
func (r *fake) pass(ctx context.Context, c *command.Read, v command.Visitor, w *verdict) error {
	if w != nil && w.hang {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", partition.ErrUncertain, ctx.Err())
	}
	if w != nil && !w.applied {
		return w.err
	}
	r.f.mu.Lock()
	var all []stored
	for _, s := range r.f.rows {
		if s.partition == r.id && (c.Key == nil || bytes.Equal(c.Key, s.key)) {
			all = append(all, s)
		}
	}
	r.f.mu.Unlock()
	slices.SortFunc(all, func(a, b stored) int {
		return cmp.Or(cmp.Compare(token.Hash(a.key), token.Hash(b.key)), bytes.Compare(a.key, b.key),
			cmp.Compare(a.row, b.row))
	})
	var found row.Row
	for i, s := range all {
		if exists, err := found.Resolve(s.value, row.NotDeleted, c.Now, nil); err != nil || !exists {
			continue
		}
		if i == 0 || !bytes.Equal(all[i-1].key, s.key) {
			if step, err := v.Partition(token.Hash(s.key), s.key, nil); step == command.Stop || err != nil {
				break
			}
		}
		if step, err := v.Row([]byte(s.row), &found); step == command.Stop || err != nil {
			break
		}
	}
	if w != nil {
		return w.err
	}
	return nil
}

func (r *fake) Leader() (topology.NodeID, bool) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	l, ok := r.f.leader[r.id]
	return l, ok
}

// Throughput returns an unlimited throughput.
func (r *fake) Throughput() *partition.Throughput { return new(partition.Throughput) }

// Spend records the charge.
func (r *fake) Spend(_ fairshare.Principal, _ token.Token, _ []byte, u ru.Units) {
	r.f.change(func() { r.f.log = append(r.f.log, fmt.Sprintf("spend %d of %d here", u, r.id)) })
}

func (r *fake) Leading() bool {
	l, _ := r.Leader()
	return l == r.node
}

func (r *fake) NoteAcknowledged(index uint64) {
	r.f.change(func() { r.f.seen[r.id] = max(r.f.seen[r.id], index) })
}

// change calls do while it holds the fleet's lock, because requests may be in progress.
func (f *fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// batchRows implements a batch log. A row has one cell, which contains the batch. The row is deleted with a later
// timestamp.
type batchRows struct{ f *fleet }

func (f *fleet) batches() BatchLog { return batchRows{f} }

func (batchRows) mutation(id [16]byte, b *row.Builder) command.Mutation {
	return command.Mutation{Table: batchTable, Token: token.Hash(id[:]), Key: id[:],
		Ops: []command.Op{{Operand: b.Append(nil)}}}
}

func (batchRows) Table() uint32 { return batchTable }

func (r batchRows) Record(id [16]byte, stamp int64, encoded []byte) command.Mutation {
	var b row.Builder
	b.Reset(stamp)
	b.Cell(1, nil, encoded, 0, row.NoExpiry)
	return r.mutation(id, &b)
}

func (r batchRows) Remove(id [16]byte, stamp int64) command.Mutation {
	var b row.Builder
	b.Reset(stamp)
	b.DeleteRow(1)
	return r.mutation(id, &b)
}

func (r batchRows) Replan(part *command.Conditional) error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	part.Mutation.SchemaVersion = r.f.revision
	return nil
}

// take returns the requests that arrived after the last call.
func (f *fleet) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.log
	f.log, f.sent = nil, nil
	return l
}

func (f *fleet) is(t *testing.T, want ...string) {
	t.Helper()
	if got := f.take(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func writeNow(c *Coordinator, o WriteOptions, ms ...command.Mutation) error {
	done := make(result, 1)
	c.Write(context.Background(), ms, o, done)
	return <-done
}

func readNow(ctx context.Context, c *Coordinator, level dberr.Consistency, key string) ([]string, error) {
	q := command.Read{Table: table, Level: level, Now: 1}
	if key != "" {
		q.Key, q.Token = []byte(key), token.Hash([]byte(key))
	}
	l := &log{}
	err := c.Read(ctx, &q, l)
	return l.lines, err
}

func traced() (context.Context, *trace.Trace) {
	tr := trace.New([16]byte{1}, time.Now())
	return trace.With(context.Background(), tr), tr
}
