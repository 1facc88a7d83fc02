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
	// member is the id of this replica among those of its partition, 0 if the map does not say.
	member topology.ReplicaID
	seq    sequencer
	state  atomic.Pointer[state]
	stamps stamps
	// stamping is held from when a stamp is taken until its entry is proposed: the log is in the order of stamps.
	stamping sync.Mutex
	// horizon is the highest stamp that readers see: all lower ones of the log are applied (P12).
	horizon atomic.Int64
	recent  recent
	budget  budget.Budget
	slice   budget.Slice
	usage   usage.Partition
	// samples are there while somebody wants to know where requests go; see Sample.
	samples atomic.Pointer[samples]
	// hot is the logical partition that has most of what is asked for, in words, nil if there is none.
	hot atomic.Pointer[string]
	// heavy are places that much was written to, near the logical partitions that come near to what they may have.
	heavy atomic.Pointer[heavy]
	near  atomic.Pointer[[]*Near]
	// schema is the least schema version that mutations must have; see Require.
	schema atomic.Uint64
	// level is the feature level that the log has installed, a feature.Level.
	level atomic.Uint32
	// shown is the index of the last entry that the machine has committed, seen the one that this node has seen
	// acknowledged.
	shown, seen atomic.Uint64
	// since is when the node began to find the replica, a raftgroup.Instant: what was acknowledged to the node before
	// is not in seen, so a replica that serves reads alone has to be fresh as of then.
	since atomic.Int64
	// ceding is where a split begins that is on its way through the log, nil if none is.
	ceding atomic.Pointer[topology.Position]
	// wide is the batch that last changed all keys at once; see unsynced.
	wide atomic.Uint64

	// crowded is true while too few of the other voters have room on their disks; see DisksFull.
	crowded atomic.Bool

	// active counts requests under way, plus closing once the replica is closed; drained is told when only that is
	// left.
	active  atomic.Int64
	drained chan struct{}
	once    sync.Once
	closed  atomic.Bool
	// dead says that another partition has taken the span. installing is held while a snapshot takes the place of the
	// state, and while that is made part of another partition.
	dead       atomic.Bool
	installing sync.Mutex

	// ahead is the machine's: what was applied, also if readers do not see it yet.
	ahead applied
}

// closing is more than there can be requests.
const closing = int64(1) << 40

// state is what a replica is responsible for. It never changes; it is replaced. Its keys are of table 0 as long as the
// replica waits for its first snapshot.
type state struct {
	span  topology.Span
	keys  keys.Span
	epoch uint64
	// frozen is keys.Meta.Frozen.
	frozen uint64
}

// serves reports whether requests for a position are the replica's.
func (s *state) serves(p topology.Position) bool { return s.frozen == 0 && s.span.Holds(p) }

// newReplica makes a replica of its meta; one without waits for its first snapshot.
func newReplica(h *Host, n *born) (*Replica, error) {
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
	r.recent.memory = &h.memory
	if n.meta == nil {
		r.recent.reset(h.clock.Now())
		return r, nil
	}
	if r.isMeta() {
		version, err := recordsVersion(h.store)
		if err != nil {
			return nil, err
		}
		r.ahead.told = version // whoever opens a host reads the records then
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

// refresh makes the replica what its stored meta says.
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
	r.recent.reset(now)
	if meta.Applied == keys.InitialApplied && len(meta.Parents) == 0 {
		r.recent.complete()
	}
	r.show(now)
	return nil
}

// found notes that the node finds the replica from now on.
func (r *Replica) found() { r.since.Store(int64(r.host.clock.Now())) }

// freshEnough is how long ago a follower that serves reads alone may have heard from its leader.
func (r *Replica) freshEnough(now raftgroup.Instant, most time.Duration) time.Duration {
	return min(most, time.Duration(int64(now)-r.since.Load()))
}

// ID is the physical partition's id, Table its table.
func (r *Replica) ID() topology.PartitionID { return r.id }

// Table is the table whose rows the replica holds.
func (r *Replica) Table() uint32 { return r.state.Load().keys.Table }

// Member is the id of this replica among those of its partition.
func (r *Replica) Member() topology.ReplicaID { return r.member }

// Span is what the replica holds now, at which epoch.
func (r *Replica) Span() (topology.Span, uint64) {
	s := r.state.Load()
	return s.span, s.epoch
}

func (r *Replica) epoch() uint64 { return r.state.Load().epoch }

// begin counts a request in; each success is followed by end.
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

// close refuses new requests and waits for those under way.
func (r *Replica) close() {
	r.shut()
	_, _ = await(r.host.drive, patience{ctx: context.Background()}, r.drained)
}

// shut refuses new requests.
func (r *Replica) shut() {
	if !r.closed.Swap(true) && r.active.Add(closing) == closing {
		r.once.Do(func() { close(r.drained) })
	}
}

// accepts checks that a mutation belongs here and was planned for a schema that is new enough. Callers hold the
// mutex of its stripe until they have proposed it; see Require.
func (r *Replica) accepts(m *command.Mutation) error {
	s := r.state.Load()
	if r.isMeta() || m.Table != s.keys.Table || !s.serves(m.Position()) {
		return r.wrongRange()
	}
	if at := r.ceding.Load(); at != nil && m.Position().Compare(*at) >= 0 {
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

// admits refuses a mutation that must not be proposed: what a log has taken every replica applies, whatever its disk
// says.
func (r *Replica) admits(m *command.Mutation) error {
	if err := r.accepts(m); err != nil {
		return err
	}
	if err := r.fits(m); err != nil {
		return err
	}
	return r.host.store.Admit(m, r.crowded.Load())
}

func (r *Replica) wrongRange() error {
	s := r.state.Load()
	return &WrongRange{Partition: r.id, Have: s.span, Epoch: s.epoch}
}

func (r *Replica) notLeader() error {
	node, _ := r.Leader()
	return &NotLeader{Partition: r.id, Leader: node}
}

// evaluating returns the term in which this replica leads and knows everything older, or *NotLeader.
func (r *Replica) evaluating() (term uint64, err error) {
	if term = r.seq.evaluating(); term == 0 {
		return 0, r.notLeader()
	}
	return term, nil
}

// ended is the error of a proposal: what the log refused is in the result.
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

// refused translates an error of the sequencer after which nothing was done.
func (r *Replica) refused(err error) error {
	var bound *raftgroup.Refused
	switch {
	case errors.As(err, &bound) && bound.Bound == "ProposalBytes":
		return &dberr.Invalid{Message: "Mutation is larger than the log of a partition takes"}
	case errors.As(err, &bound):
		return &dberr.Overloaded{Message: "Too many requests are waiting for the log of the partition"}
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrStaleTerm),
		errors.Is(err, raftgroup.ErrReadTimeout):
		return r.notLeader()
	case errors.Is(err, raftgroup.ErrClosed):
		return ErrClosed
	}
	return err
}

// Leading reports whether this replica leads and may evaluate. It is a hint: it may have changed already.
func (r *Replica) Leading() bool { return r.seq.evaluating() != 0 }

// Leader returns the node that leads, as far as this replica knows; ok is false if it knows none.
func (r *Replica) Leader() (node topology.NodeID, ok bool) {
	m, ok := r.seq.leader()
	return topology.NodeID(m.Node), ok
}

// Seen says that this node has seen index acknowledged: a read that a follower serves here has applied at least that
// much.
func (r *Replica) Seen(index uint64) {
	for {
		old := r.seen.Load()
		if old >= index || r.seen.CompareAndSwap(old, index) {
			return
		}
	}
}

// Applied is the index of the last entry that readers here see; 0 for a replica that waits for its first snapshot.
func (r *Replica) Applied() uint64 { return r.seq.applied() }
