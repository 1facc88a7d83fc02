// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Bugs are mistakes that the product does not make and the simulator must find. Each is planted in what stands around
// the product: the disk it writes to, the clock it reads, the command it is given.
type Bugs struct {
	// NoSync: the log is not synced.
	NoSync bool
	// EarlyTruncation: logs are cut though the store was not synced.
	EarlyTruncation bool
	// WrongSnapshotIndex: a snapshot says that it is older by one entry than its state.
	WrongSnapshotIndex bool
	// LongLease: a lease has no margin, and ends 700 ms after voters are free again, as if it were counted from a slow
	// answer.
	LongLease bool
	// DoubleCounter: an addition is sent again under another id.
	DoubleCounter bool
	// ClockSweep: a replica sweeps by its own clock instead of the log's horizon.
	ClockSweep bool
	// Overlap: a replica's stored span reaches into that of its neighbour.
	Overlap bool
	// StaleTerm: what was evaluated in one term is proposed in whichever term there is, by whoever leads then.
	StaleTerm bool
	// AnyFollower: reads at ONE are served by whatever is on the node, a removed replica's rows, too.
	AnyFollower bool
	// UnappliedRead: a follower reads at QUORUM before it has applied the index that its leader told it.
	UnappliedRead bool
	// LostSwap: the meta partition does not look at the expected version.
	LostSwap bool
	// LowStamp: replicas do not learn from the log which stamps were given, so a leader may begin below the highest.
	LowStamp bool
	// HastyFate: a client takes an unknown outcome for the certainty that nothing was done.
	HastyFate bool
	// EarlyStamp: the parts of a logged batch carry the stamp of their coordinator's clock, not that of their leaders.
	EarlyStamp bool
	// LowCondition: what a condition writes is stamped as if it had not looked at the stamps of what it read.
	LowCondition bool
	// StaleEntries: a part of a batch that was planned for an older schema gets the revision of the new one, and not
	// its index entries.
	StaleEntries bool
	// NoRequire: the build of an index does not have the partitions refuse what was planned before.
	NoRequire bool
	// RefusalIsDeath: a connection that is refused is taken for the end of the process.
	RefusalIsDeath bool
	// FarStamp: leaders stamp by their own clocks. EarlySweep: sweeps go by the own clock of who has them made.
	// SkewedLeader: a node leads whatever its clock shows.
	FarStamp, EarlySweep, SkewedLeader bool
	// NoReturn: a node that was given another place in the meta partition while it was away does not take it.
	NoReturn bool
	// AnyLog: a log that does not go with the rows is used, or made anew. AnyCopy: directories of others are not
	// judged.
	AnyLog, AnyCopy bool
	// ChildByMap: what came of a split is born by the map. ChildIsOrphan: records that lag behind the log of a parent
	// remove its child at a start. MapFirst: the map is told of a split that no log has.
	ChildByMap, ChildIsOrphan, MapFirst bool
	// Undivided: each partition may take all of a throughput. LateBound: a node that starts does not bound its
	// partitions before the records change.
	Undivided, LateBound bool
	// EarlyReady: when a replica of a partition that is to be merged is frozen, others are said to be. FrozenIsOrphan:
	// a frozen replica that the map has no more is removed. MergeMapFirst: the map is told of a merge that no log has.
	EarlyReady, FrozenIsOrphan, MergeMapFirst bool
	// RightByMap: what was merged is born again by a map that does not know that yet.
	RightByMap bool
	// ForgottenID: nobody remembers the id of a write that is sent again.
	ForgottenID bool
	// DoubleItems: a request for items is sent again under another id.
	DoubleItems bool
}

// plantAnswers changes what a follower hears.
func (w *simulation) plantAnswers(f *raftgroup.Received) {
	for _, m := range f.Messages {
		if m.Raft.GetType() != raftgroup.MsgIndexReply || m.Raft.GetReject() {
			continue
		}
		w.counts.Told++
		if w.plan.Bugs.UnappliedRead {
			*m.Raft.Commit = 1
		}
	}
}

type logWithoutSync struct{ raftgroup.LogBatch }

func (l logWithoutSync) Commit(bool) error { return l.LogBatch.Commit(false) }

func (n *node) plantLog(b raftgroup.LogBatch) raftgroup.LogBatch {
	if n.w.plan.Bugs.NoSync {
		b = logWithoutSync{b}
	}
	return n.OnDisk(b)
}

type machineWithoutSync struct{ raftgroup.StateMachine }

func (machineWithoutSync) Sync() error { return nil }

// machineOther changes entries before they are applied.
type machineOther struct {
	raftgroup.StateMachine
	change func(e *command.Entry) bool
}

func (m machineOther) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	other := make([][]byte, len(commands))
	for i, c := range commands {
		var e command.Entry
		if err := command.DecodeEntry(&e, c); err != nil {
			return results, err
		}
		other[i] = c
		if m.change(&e) {
			other[i] = command.AppendEntry(nil, &e)
		}
	}
	return m.StateMachine.Apply(group, index, term, other, results)
}

func (n *node) plantMachine(m raftgroup.StateMachine) raftgroup.StateMachine {
	b := n.w.plan.Bugs
	m = &once{StateMachine: m, w: n.w, n: n, stamps: map[string]int64{}}
	if b.EarlyTruncation {
		m = machineWithoutSync{m}
	}
	if b.ClockSweep {
		m = machineOther{m, func(e *command.Entry) bool {
			e.Sweep.Horizon = n.Wall().Unix()
			return e.Kind == command.EntrySweep
		}}
	}
	if b.LostSwap {
		m = machineOther{m, func(e *command.Entry) bool {
			e.Records.Expect = 0
			return e.Kind == command.EntryRecords
		}}
	}
	if b.LowCondition {
		m = machineOther{m, func(e *command.Entry) bool {
			for i := range e.Mutations {
				c := &e.Mutations[i]
				if e.Result == nil || !slices.Contains(mixed, string(c.Key)) {
					return false
				}
				for _, o := range c.Ops {
					binary.BigEndian.PutUint64(o.Operand[1:], uint64(row.Timestamp(o.Operand)-600_000))
				}
			}
			return e.Kind == command.EntryWrite
		}}
	}
	if b.LowStamp {
		m = machineOther{m, func(e *command.Entry) bool {
			for i := range e.Mutations {
				e.Mutations[i].Timestamp = 1
			}
			return e.Kind == command.EntryWrite
		}}
	}
	return m
}

// Holds implements the host of reconcile.Local. RightByMap is blind to what has taken the span of a partition that is
// merged as far as the map knows, and to nothing else.
func (r replicas) Holds(table uint32, span topology.Span) bool {
	b := r.n.w.plan.Bugs
	merges := func(p *topology.Partition) bool {
		return p.Merge != nil && p.Merge.Stage == topology.Merging && p.Merge.Left != p.ID && p.Span.Overlaps(span)
	}
	if b.ChildByMap || b.RightByMap && slices.ContainsFunc(r.n.state().Topology.Partitions(table), merges) {
		return false
	}
	return r.Host.Holds(table, span)
}

// Absorber implements the host of reconcile.Local.
func (r replicas) Absorber(id topology.PartitionID) (topology.PartitionID, uint64) {
	if r.n.w.plan.Bugs.FrozenIsOrphan {
		return 0, 0
	}
	return r.Host.Absorber(id)
}

// Join implements the host of reconcile.Local.
func (r replicas) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	if p := r.n.state().Topology.Partition(id); r.n.w.plan.Bugs.ChildByMap && p != nil && p.Parent != 0 &&
		p.Moves == 0 {
		return r.Host.Create(p)
	}
	return r.Host.Join(id, replica)
}

// orphans removes what a crash has left, before the node follows the records.
func (n *node) orphans(m *topology.Snapshot) error {
	here := n.parts.IDs()
	if !n.w.plan.Bugs.ChildIsOrphan {
		return n.local().RemoveOrphans(m, here)
	}
	return n.parts.Drop(slices.DeleteFunc(here, func(id topology.PartitionID) bool {
		return id == topology.MetaPartition || m.Partition(id) != nil
	})...)
}

// Split implements reconcile.Replica.
func (r counted) Split(ctx context.Context, epoch uint64, s *command.Split) error {
	if r.n.w.plan.Bugs.MapFirst {
		return nil
	}
	return r.Replica.Split(ctx, epoch, s)
}

// Frozen implements reconcile.Replica.
func (r counted) Frozen() uint64 {
	own := r.Replica.Frozen()
	if own != 0 || !r.n.w.plan.Bugs.EarlyReady {
		return own
	}
	for _, n := range r.n.w.nodes {
		if n.parts != nil && n.parts.Replica(r.ID()) != nil {
			own = max(own, n.parts.Replica(r.ID()).Frozen())
		}
	}
	return own
}

// Member implements reconcile.Replica.
func (r counted) Member() topology.ReplicaID {
	p := r.n.state().Topology.Partition(r.ID())
	if !r.n.w.plan.Bugs.EarlyReady || p == nil || p.Merge == nil {
		return r.Replica.Member()
	}
	list := p.Sets[0].Replicas
	return list[r.n.w.Rand.IntN(len(list))].ID
}

// Merge implements reconcile.Replica.
func (r counted) Merge(ctx context.Context, epoch uint64, m *command.Merge) error {
	if r.n.w.plan.Bugs.MergeMapFirst {
		return nil
	}
	return r.Replica.Merge(ctx, epoch, m)
}

type snapshotsOffByOne struct{ raftgroup.SnapshotStore }

func (s snapshotsOffByOne) Snapshot(group uint64) (*pb.SnapshotMetadata, raftgroup.SnapshotData, error) {
	meta, data, err := s.SnapshotStore.Snapshot(group)
	if err != nil {
		return nil, nil, err
	}
	index := meta.GetIndex() - 1
	return &pb.SnapshotMetadata{Index: &index, Term: meta.Term, ConfState: meta.ConfState}, data, nil
}

func (n *node) plantSnapshots(s raftgroup.SnapshotStore) raftgroup.SnapshotStore {
	if n.w.plan.Bugs.WrongSnapshotIndex {
		return snapshotsOffByOne{s}
	}
	return s
}

// plantAdmission changes what is thought of another node's directory.
func (n *node) plantAdmission(err error) error {
	if n.w.plan.Bugs.AnyCopy {
		return nil
	}
	return err
}

// plantLineage changes what becomes of a log that was refused.
func (n *node) plantLineage(log *raftlog.Store, d *incarnation.Directory, err error) (*raftlog.Store,
	*incarnation.Directory,
	error) {
	if err == nil || !n.w.plan.Bugs.AnyLog {
		return log, d, err
	}
	if d, err = incarnation.Open(n.store); err == nil {
		log, err = raftlog.Open(logDir, logOptions(n))
	}
	return log, d, err
}

// plantNow is the clock that leaders stamp by.
func (n *node) plantNow() func() time.Time {
	if n.w.plan.Bugs.FarStamp {
		return n.Wall
	}
	return n.peers.Now
}

// plantPast is what sweeps go by.
func (n *node) plantPast() time.Time {
	if n.w.plan.Bugs.EarlySweep {
		return n.Wall()
	}
	return n.peers.EarliestNow()
}

// plantLease moves the clock by which leases begin.
func (n *node) plantLease() raftgroup.Instant {
	if n.w.plan.Bugs.LongLease {
		return raftgroup.Instant(elections*tick - (elections-2)*tick*9/10 + 700*time.Millisecond)
	}
	return 0
}

// plantTerm reports whether it takes a proposal away: to be made later, in whatever term there is then.
func (n *node) plantTerm(g *raftgroup.Group, data []byte, waiter raftgroup.Waiter) bool {
	w := n.w
	if !w.plan.Bugs.StaleTerm || topology.PartitionID(g.ID()) == topology.MetaPartition || !w.OneIn(2) {
		return false
	}
	began, id := w.Now, g.ID()
	var try func()
	try = func() {
		err := error(raftgroup.ErrNotLeader)
		if leader := w.leaderOf(topology.PartitionID(id)); leader != nil {
			var p raftgroup.Proposal
			if p, err = leader.Host.Group(id).NewProposal(0, data, waiter); err == nil {
				leader.Inbox.Proposals = append(leader.Inbox.Proposals, p)
				leader.Kick()
			}
		}
		switch {
		case err == nil:
		case w.Now-began < 8*time.Second:
			n.AfterLife(50*time.Millisecond, try)
		default:
			waiter.Done(raftgroup.Outcome{Err: raftgroup.ErrNotLeader})
		}
	}
	n.AfterLife(w.Between(0, 1500*time.Millisecond), try)
	return true
}

// plantMember is how a coordinator reaches a replica on another node.
func (n *node) plantMember(m *remote.Replica) coordinator.Member {
	if b := n.w.plan.Bugs; b.DoubleCounter || b.DoubleItems || b.EarlyStamp || b.ForgottenID {
		return memberOther{m, n}
	}
	return m
}

// memberOther changes the ids of what is sent.
type memberOther struct {
	*remote.Replica
	n *node
}

// ConditionalWrite implements coordinator.Member.
func (m memberOther) ConditionalWrite(ctx context.Context, c *command.Conditional, done command.CASCompletion) error {
	if m.n.w.plan.Bugs.DoubleCounter && c.Mutation.Retried && len(c.Updates) > 0 {
		c.Mutation.Dedupe.Sequence = m.n.w.hist.newValue()
	}
	if m.n.w.plan.Bugs.DoubleItems && c.Mutation.Retried && len(c.Program) > 0 {
		c.Mutation.Dedupe.Sequence = m.n.w.hist.newValue()
	}
	if m.n.w.plan.Bugs.EarlyStamp && len(c.Conditions)+len(c.Updates) == 0 {
		for i := range c.Mutation.Ops {
			row.Stamp(c.Mutation.Ops[i].Operand, m.n.Wall().UnixMicro())
		}
	}
	return m.Replica.ConditionalWrite(ctx, c, done)
}

// Write implements coordinator.Member.
func (m memberOther) Write(ctx context.Context, c *command.Mutation, done command.Completion) error {
	if m.n.w.plan.Bugs.ForgottenID && c.Retried {
		c.Dedupe = command.DedupeID{}
	}
	return m.Replica.Write(ctx, c, done)
}

// plantBatches changes how parts of batches are planned anew.
func (n *node) plantBatches(b *coordinator.BatchLog) *coordinator.BatchLog {
	if n.w.plan.Bugs.StaleEntries {
		b.Replan = func(part *command.Conditional) error {
			t := n.cat.Snapshot().TableByID(part.Mutation.Table)
			if t == nil {
				return coordinator.ErrUnknownTable
			}
			part.Mutation.SchemaVersion = t.Revision
			return nil
		}
	}
	return b
}

// plantTable changes what builds of indexes ask for.
func (n *node) plantTable(t write.BackfillTable) backfill.Table {
	if n.w.plan.Bugs.NoRequire {
		return tableWithoutRequire{t}
	}
	return t
}

type tableWithoutRequire struct{ backfill.Table }

// Require implements backfill.Table.
func (tableWithoutRequire) Require(context.Context, uint32, uint64) error { return nil }

// plantMetas changes what is stored before a node opens it.
func (n *node) plantMetas() error {
	if !n.w.plan.Bugs.Overlap {
		return nil
	}
	var metas []keys.Meta
	err := n.store.Metas(func(m keys.Meta) error {
		metas = append(metas, m)
		return nil
	})
	if err != nil {
		return err
	}
	b := n.store.NewBatch()
	defer b.Close()
	for i := range metas {
		m := &metas[i]
		if m.Span.Table == rowsTable {
			m.Span = keys.Span{Table: rowsTable}
		}
		b.PutMeta(m)
	}
	return b.Commit()
}
