// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Options of a Host. The zero value is ready for use.
type Options struct {
	// Durability says when writes are acknowledged.
	Durability Durability
	// SyncInterval is the time between syncs in Periodic mode; 10 ms if 0.
	SyncInterval time.Duration
	// GroupMax bounds the writes of a node that are applied and not yet durable; 65536 if 0.
	GroupMax int
	// LatchQueueMax bounds the writes that wait for one partition key; 1024 if 0.
	LatchQueueMax int
	// LatchWait bounds how long a write waits for a partition key; 2 s if 0.
	LatchWait time.Duration
	// Now is the clock of stamps; time.Now if nil.
	Now func() time.Time
	// Cluster makes the replicas members of replica sets; nil stands alone. Durability and SyncInterval do not matter then: a write is
	// acknowledged when a quorum has it on disk.
	Cluster *Cluster
}

func (o Options) withDefaults() Options {
	if o.SyncInterval == 0 {
		o.SyncInterval = 10 * time.Millisecond
	}
	if o.GroupMax == 0 {
		o.GroupMax = 1 << 16
	}
	if o.LatchQueueMax == 0 {
		o.LatchQueueMax = 1024
	}
	if o.LatchWait == 0 {
		o.LatchWait = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Host holds the replicas of a node on one store.
type Host struct {
	store   Store
	opts    Options
	latches *latches
	// committer is nil in a cluster, cluster stand-alone.
	committer *committer
	cluster   *cluster
	// unsettled is nil in Periodic mode, where readers see what a crash may take back.
	unsettled *unsettled
	batches   sync.Pool // *Batch
	readers   sync.Pool // *meter
	decisions sync.Pool // *decision

	// mu orders changes of replicas; the map itself is never changed, only replaced.
	mu       sync.Mutex
	closed   bool
	replicas atomic.Pointer[map[topology.PartitionID]*Replica]
}

// Open opens every replica whose meta is in the store; in a cluster those of the node's registry, with their groups. The caller closes
// the host before the store.
func Open(s Store, o Options) (*Host, error) {
	o = o.withDefaults()
	h := &Host{store: s, opts: o, latches: newLatches(o.LatchQueueMax, o.LatchWait)}
	h.batches.New = func() any { return new(Batch) }
	h.readers.New = func() any { return new(meter) }
	h.decisions.New = func() any { return new(decision) }
	if o.Cluster != nil {
		if err := h.openCluster(s); err != nil {
			return nil, err
		}
		return h, nil
	}
	metas, err := s.Metas()
	if err != nil {
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	replicas := make(map[topology.PartitionID]*Replica, len(metas))
	h.committer = newCommitter(s, &o)
	if o.Durability == Synced {
		h.unsettled = newUnsettled(h.committer)
	}
	for i := range metas {
		r, err := newReplica(h, &metas[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open partition %d: %w", metas[i].Partition, err), h.committer.close())
		}
		replicas[r.id] = r
	}
	if err := checkSpans(slices.Collect(maps.Values(replicas))); err != nil {
		return nil, errors.Join(err, h.committer.close())
	}
	h.replicas.Store(&replicas)
	return h, nil
}

// checkSpans enforces the invariant that spans of a node's replicas never overlap: they share one key space.
func checkSpans(all []*Replica) error {
	slices.SortFunc(all, func(a, b *Replica) int {
		return cmp.Or(cmp.Compare(a.Table(), b.Table()), a.state.Load().span.Begin.Compare(b.state.Load().span.Begin))
	})
	for i, r := range all[min(1, len(all)):] {
		before := all[i]
		if r.Table() == 0 {
			continue // it waits for its first snapshot
		}
		if span := before.state.Load().span; before.Table() == r.Table() && span.Overlaps(r.state.Load().span) {
			return fmt.Errorf("partition %d, %s, overlaps partition %d, %s", r.id, r.state.Load().span, before.id, span)
		}
	}
	return nil
}

func ofTables(replicas map[topology.PartitionID]*Replica, tables map[uint32]bool) []*Replica {
	var out []*Replica
	for _, r := range replicas {
		if tables[r.Table()] {
			out = append(out, r)
		}
	}
	return out
}

// Replica returns a replica by its partition's id, nil if it is not here.
func (h *Host) Replica(id topology.PartitionID) *Replica { return (*h.replicas.Load())[id] }

// Replicas returns all replicas, by id.
func (h *Host) Replicas() []*Replica {
	m := *h.replicas.Load()
	out := make([]*Replica, 0, len(m))
	for _, r := range m {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Replica) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Len is the number of replicas.
func (h *Host) Len() int { return len(*h.replicas.Load()) }

// Create gives birth to the replicas of new partitions, durably and all at once. Those that are here already are left alone, so it can
// be repeated after a crash. voters of the stored meta are the partition's members in its first region. In a cluster it makes those
// that are voters on this node.
func (h *Host) Create(ps ...*topology.Partition) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	if h.cluster != nil {
		return h.cluster.create(ps)
	}
	replicas := h.copyReplicas(len(ps))
	tables := map[uint32]bool{}
	var b Batch
	for _, p := range ps {
		if replicas[p.ID] != nil {
			continue
		}
		meta := birth(p)
		r, err := newReplica(h, &meta)
		if err != nil {
			return fmt.Errorf("create partition %d: %w", p.ID, err)
		}
		replicas[p.ID], tables[r.Table()] = r, true
		b.Metas = append(b.Metas, meta)
	}
	if len(b.Metas) == 0 {
		return nil
	}
	if err := checkSpans(ofTables(replicas, tables)); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	if err := h.committer.failed(); err != nil {
		return err
	}
	if err := h.committer.order(&b); err != nil {
		return err
	}
	if err := h.committer.sync(); err != nil {
		return err
	}
	h.replicas.Store(&replicas)
	return nil
}

// birth is the first meta of a partition.
func birth(p *topology.Partition) keys.Meta {
	m := keys.NewMeta(uint64(p.ID), p.Span.Keys(p.Table))
	m.Epoch = p.Epoch
	if len(p.Sets) > 0 {
		for _, r := range p.Sets[0].Replicas {
			member := keys.Member{Replica: uint64(r.ID), Node: r.Node}
			if r.State == topology.Joining {
				m.Learners = append(m.Learners, member)
			} else {
				m.Voters = append(m.Voters, member)
			}
		}
	}
	return m
}

func (h *Host) copyReplicas(more int) map[topology.PartitionID]*Replica {
	old := *h.replicas.Load()
	out := make(map[topology.PartitionID]*Replica, len(old)+more)
	for id, r := range old {
		out[id] = r
	}
	return out
}

// Drop removes replicas with all they hold, but for index entries: the indexes of a table are dropped with it. Requests under way end
// first; later ones get ErrClosed.
func (h *Host) Drop(ids ...topology.PartitionID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	if h.cluster != nil {
		return h.cluster.drop(ids)
	}
	replicas := h.copyReplicas(0)
	var gone []*Replica
	for _, id := range ids {
		if r := replicas[id]; r != nil {
			gone = append(gone, r)
			delete(replicas, id)
		}
	}
	h.replicas.Store(&replicas)
	for _, r := range gone {
		r.close()
	}
	if err := h.clear(gone, replicas); err != nil {
		return h.committer.fail(fmt.Errorf("drop partitions: %w", err))
	}
	return h.committer.sync()
}

// clear removes what replicas hold, and then their metas.
func (h *Host) clear(gone []*Replica, stay map[topology.PartitionID]*Replica) error {
	for _, span := range spansOf(gone, stay) {
		if err := h.store.Truncate(span, nil); err != nil {
			return err
		}
	}
	ids := make([]topology.PartitionID, 0, len(gone))
	for _, r := range gone {
		ids = append(ids, r.id)
	}
	return h.store.Forget(ids...)
}

// spansOf are the spans to remove with replicas. A table of which no replica stays goes as a whole, in one stroke; but not while a replica
// waits for its first snapshot: it may be of any table, and its rows may come in this moment, before it says so.
func spansOf(gone []*Replica, stay map[topology.PartitionID]*Replica) []keys.Span {
	kept, whole := map[uint32]bool{}, map[uint32]bool{}
	for _, r := range stay {
		kept[r.Table()] = true
	}
	waiting := kept[0]
	var out []keys.Span
	for _, r := range gone {
		switch table := r.Table(); {
		case table == 0: // it never had a state
		case kept[table], waiting:
			out = append(out, r.state.Load().keys)
		case !whole[table]:
			whole[table] = true
			out = append(out, keys.Span{Table: table})
		}
	}
	return out
}

// Close waits for the requests under way, writes the exact stamps, syncs and ends the host's goroutine. It leaves the store open.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.cluster != nil {
		for _, r := range h.Replicas() {
			r.close()
		}
		return h.cluster.close()
	}
	var b Batch
	for _, r := range h.Replicas() {
		r.close()
		if last := r.stamps.last.Load(); last != r.stamps.ceiling.Load() {
			b.Metas = append(b.Metas, r.metaWith(last))
		}
	}
	var err error
	if len(b.Metas) > 0 && h.committer.failed() == nil {
		err = h.committer.order(&b)
		h.committer.touch()
	}
	return errors.Join(err, h.committer.close())
}

// Failed returns why the node accepts no more writes, nil if all is well.
func (h *Host) Failed() error {
	if h.cluster == nil {
		return h.committer.failed()
	}
	if err := h.cluster.runner.Failed(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil
}

// Syncs counts the syncs of the store, a measure of how well groups form. In a cluster logs are synced instead: 0.
func (h *Host) Syncs() uint64 {
	if h.committer == nil {
		return 0
	}
	return h.committer.syncs.Load()
}

// ReadWaits counts the reads that waited for a sync, because they had met what was not durable yet: in a cluster none do.
func (h *Host) ReadWaits() uint64 {
	if h.committer == nil {
		return 0
	}
	return h.committer.waits.Load()
}

// Waiting is the number of writes that are applied and not yet durable: in a cluster there are none.
func (h *Host) Waiting() int64 {
	if h.committer == nil {
		return 0
	}
	return h.committer.waiting.Load()
}

func (h *Host) micros() int64 { return h.opts.Now().UnixMicro() }

// Spans are the parts of tables that the node's replicas hold and may sweep, by partition id: in a cluster those that they lead.
func (h *Host) Spans() []keys.Span {
	rs := h.Replicas()
	out := make([]keys.Span, 0, len(rs))
	for _, r := range rs {
		if r.member == nil || r.Leading() && !r.member.isMeta() {
			out = append(out, r.state.Load().keys)
		}
	}
	return out
}

// Sweep has the replica that holds the sweep's keys carry it out, and waits for it. The keys belong to one replica, as those that
// were found in one of Spans do.
func (h *Host) Sweep(sw *command.Sweep) error {
	if len(sw.Keys) == 0 {
		return nil
	}
	tok, key, ok := positionOf(sw.Keys[0])
	if !ok {
		return fmt.Errorf("sweep of key %x: %w", sw.Keys[0], command.ErrMalformed)
	}
	for _, r := range *h.replicas.Load() {
		if r.Table() != sw.Table || !r.state.Load().keys.Contains(tok, key) {
			continue
		}
		done := make(signal, 1)
		if err := r.Sweep(sw, done); err != nil {
			return err
		}
		var d *Drive
		if h.cluster != nil {
			d = h.cluster.opts.Drive
		}
		ended, err := await(d, patience{ctx: context.Background()}, done)
		return errors.Join(err, ended)
	}
	return ErrClosed
}

// signal is a completion that somebody waits for.
type signal chan error

func (s signal) Done(err error) { s <- err }
