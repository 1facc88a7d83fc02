// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Replica is one replica of one physical partition.
type Replica struct {
	host *Host
	id   topology.PartitionID
	// member is the ID of this replica among the replicas of its partition, or 0 if the topology does not contain it.
	member topology.ReplicaID
	seq    sequencer
	state  atomic.Pointer[state]
	stamps stamps
	// stamping is held from the assignment of a timestamp until its entry is proposed: the log is in the order of
	// timestamps.
	stamping sync.Mutex
	// horizon is the highest timestamp visible to readers: all lower ones in the log are applied (P12).
	horizon atomic.Int64
	dedupe  dedupeWindow
	budget  budget.Budget
	slice   budget.Slice
	usage   usage.Partition
	// samples exists while request positions are being sampled; see SetSampling.
	samples atomic.Pointer[samples]
	// hot is the readable name of the logical partition with the highest load, or nil.
	hot atomic.Pointer[string]
	// writeSamples holds sampled positions of writes. sizeTrackers holds the logical partitions that are close to their
	// size limit.
	writeSamples atomic.Pointer[writeSamples]
	sizeTrackers atomic.Pointer[[]*SizeTracker]
	// schema is the minimum schema version of mutations; see Require.
	schema atomic.Uint64
	// level is the feature level installed by the log, a feature.Level.
	level atomic.Uint32
	// visible is the index of the last entry committed by the machine. acknowledged is the highest index acknowledged
	// to this node.
	visible, acknowledged atomic.Uint64
	// since is the raftgroup.Instant at which the node began to use the replica. Indexes acknowledged to the node
	// before are not included in acknowledged, so a replica that serves local reads must be fresh as of then.
	since atomic.Int64
	// rejectFrom is the position from which a split or merge in progress moves the span away. Writes at or after it are
	// rejected. It is nil otherwise.
	rejectFrom atomic.Pointer[topology.Position]
	// wholeBatch is the last batch that changed all keys together; see unsynced.
	wholeBatch atomic.Uint64

	// quorumLowDisk is true while too few of the other voters have disk space; see SetFullDisks.
	quorumLowDisk atomic.Bool

	// active counts requests in progress, plus closing once the replica is closed. drained is closed when only closing
	// is left.
	active  atomic.Int64
	drained chan struct{}
	once    sync.Once
	closed  atomic.Bool
	// dead is set when another partition has taken over the span. installing is held while a snapshot replaces the
	// state, and while the state is merged into another partition.
	dead       atomic.Bool
	installing sync.Mutex

	// ahead belongs to the machine: the applied state, even if readers do not see it yet.
	ahead appliedState
}

// closing is larger than the possible number of requests.
const closing = int64(1) << 40

// state describes what a replica is responsible for. It is immutable and replaced as a whole. Its keys are of table 0
// while the replica waits for its first snapshot.
type state struct {
	span  topology.Span
	keys  keys.Span
	epoch uint64
	// frozen is keys.Meta.Frozen.
	frozen uint64
}

// serves reports whether the replica serves requests for a position.
func (s *state) serves(p topology.Position) bool { return s.frozen == 0 && s.span.Holds(p) }

// newReplica creates a replica from its meta. A replica without a meta waits for its first snapshot.
func newReplica(h *Host, n *replicaInit) (*Replica, error) {
	meta := n.meta
	if meta == nil {
		meta = &keys.Meta{Partition: uint64(n.id)}
	}
	s, err := stateOf(meta)
	if err != nil {
		return nil, err
	}
	r := &Replica{host: h, id: n.id, member: n.replica, drained: make(chan struct{})}
	r.since.Store(math.MaxInt64)
	r.budget.Set(h.throughputOf(r.id), h.budgetClock())
	r.seq = h.seqs.sequencer(r, meta)
	r.state.Store(s)
	r.stamps.last.Store(meta.MaxTimestamp)
	r.dedupe.epoch = &h.dedupeEpoch
	if n.meta == nil {
		r.dedupe.reset(h.clock.Now())
		return r, nil
	}
	if r.isMeta() {
		version, err := recordsVersion(h.store)
		if err != nil {
			return nil, err
		}
		r.ahead.notifiedVersion = version // the caller that opens the host reads the records then
	}
	return r, r.refresh(meta)
}

func stateOf(m *keys.Meta) (*state, error) {
	span, err := topology.SpanOf(m.Span)
	if err != nil {
		return nil, err
	}
	return &state{span: span, keys: m.Span, epoch: m.Epoch, frozen: m.Frozen}, nil
}

// refresh updates the replica from its stored meta.
func (r *Replica) refresh(meta *keys.Meta) error {
	var version uint64
	if r.isMeta() {
		var err error
		if version, err = recordsVersion(r.host.store); err != nil {
			return err
		}
	}
	s, err := stateOf(meta)
	if err != nil {
		return err
	}
	r.ahead.load(meta, version)
	r.state.Store(s)
	now := r.host.clock.Now()
	r.dedupe.reset(now)
	if meta.Applied == keys.InitialApplied && len(meta.Parents) == 0 {
		r.dedupe.markComplete()
	}
	r.show(now)
	return nil
}

// markFound records that the node uses the replica from now on.
func (r *Replica) markFound() { r.since.Store(int64(r.host.clock.Now())) }

// freshEnough returns the maximum time since a follower that serves local reads has heard from its leader.
func (r *Replica) freshEnough(now raftgroup.Instant, most time.Duration) time.Duration {
	return min(most, time.Duration(int64(now)-r.since.Load()))
}

// ID returns the ID of the physical partition.
func (r *Replica) ID() topology.PartitionID { return r.id }

// Table returns the table whose rows the replica holds.
func (r *Replica) Table() uint32 { return r.state.Load().keys.Table }

// Member returns the ID of this replica among the replicas of its partition.
func (r *Replica) Member() topology.ReplicaID { return r.member }

// Span returns the current span and epoch of the replica.
func (r *Replica) Span() (topology.Span, uint64) {
	s := r.state.Load()
	return s.span, s.epoch
}

func (r *Replica) epoch() uint64 { return r.state.Load().epoch }

// begin registers a request. Every successful call must be followed by end.
func (r *Replica) begin() error {
	if r.active.Add(1) > closing {
		r.end()
		return ErrClosed
	}
	return nil
}

func (r *Replica) end() {
	if r.active.Add(-1) == closing {
		r.once.Do(func() { close(r.drained) })
	}
}

// close rejects new requests and waits for requests in progress.
func (r *Replica) close() {
	r.refuseNew()
	_, _ = await(r.host.sim, waitLimit{ctx: context.Background()}, r.drained)
}

// refuseNew rejects new requests.
func (r *Replica) refuseNew() {
	if !r.closed.Swap(true) && r.active.Add(closing) == closing {
		r.once.Do(func() { close(r.drained) })
	}
}

// accepts checks that a mutation belongs here and was planned for a sufficiently new schema. The caller must hold the
// mutex of its stripe until it has proposed it; see Require.
func (r *Replica) accepts(m *command.Mutation) error {
	s := r.state.Load()
	if r.isMeta() || m.Table != s.keys.Table || !s.serves(m.Position()) {
		return r.wrongRange()
	}
	if at := r.rejectFrom.Load(); at != nil && m.Position().Compare(*at) >= 0 {
		return r.wrongRange()
	}
	if m.SchemaVersion != 0 && m.SchemaVersion < r.schema.Load() {
		return ErrStaleSchema
	}
	return nil
}

func (r *Replica) raiseSchema(revision uint64) {
	for {
		old := r.schema.Load()
		if old >= revision || r.schema.CompareAndSwap(old, revision) {
			return
		}
	}
}

// admits rejects a mutation that must not be proposed. Every replica applies what the log has accepted, regardless of
// its disk space.
func (r *Replica) admits(m *command.Mutation) error {
	if err := r.accepts(m); err != nil {
		return err
	}
	if err := r.checkSize(m); err != nil {
		return err
	}
	return r.host.store.Admit(m, r.quorumLowDisk.Load())
}

func (r *Replica) wrongRange() error {
	s := r.state.Load()
	return &WrongRange{Partition: r.id, Have: s.span, Epoch: s.epoch}
}

func (r *Replica) notLeader() error {
	node, _ := r.Leader()
	return &NotLeader{Partition: r.id, Leader: node}
}

// evaluating returns the term in which this replica leads and has applied all older entries, or *NotLeader.
func (r *Replica) evaluating() (term uint64, err error) {
	if term = r.seq.evaluating(); term == 0 {
		return 0, r.notLeader()
	}
	return term, nil
}

// ended returns the error of a proposal. If the log has rejected it, the error is in the result.
func (r *Replica) ended(o raftgroup.Outcome) error {
	switch {
	case o.Err == nil:
		err, _ := o.Result.(error)
		return err
	case errors.Is(o.Err, raftgroup.ErrUnknown):
		return ErrUncertain
	}
	return r.refused(o.Err)
}

// refused converts an error of the sequencer after which nothing was done.
func (r *Replica) refused(err error) error {
	var bound *raftgroup.LimitError
	switch {
	case errors.As(err, &bound) && bound.Bound == "ProposalBytes":
		return &dberr.Invalid{Message: "The mutation exceeds the maximum size of a log entry"}
	case errors.As(err, &bound):
		return &dberr.Overloaded{Message: "Too many requests are waiting for the partition's log"}
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrStaleTerm),
		errors.Is(err, raftgroup.ErrReadTimeout):
		return r.notLeader()
	case errors.Is(err, raftgroup.ErrClosed):
		return ErrClosed
	}
	return err
}

// Leading reports whether this replica leads and may evaluate commands. It is a hint that may already be outdated.
func (r *Replica) Leading() bool { return r.seq.evaluating() != 0 }

// Leader returns the node that leads, as far as this replica knows. ok is false if it knows none.
func (r *Replica) Leader() (node topology.NodeID, ok bool) {
	m, ok := r.seq.leader()
	return m.Node, ok
}

// NoteAcknowledged records that index was acknowledged to this node. Reads that a follower serves here must have
// applied at least that index.
func (r *Replica) NoteAcknowledged(index uint64) {
	for {
		old := r.acknowledged.Load()
		if old >= index || r.acknowledged.CompareAndSwap(old, index) {
			return
		}
	}
}

// Applied returns the index of the last entry visible to readers, or 0 for a replica that waits for its first snapshot.
func (r *Replica) Applied() uint64 { return r.seq.applied() }
