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
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/internal/replica/remote"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Bugs selects faults that the product does not have and that the simulator must find. The simulator injects each
// fault into the product's disk, clock, or incoming commands.
type Bugs struct {
	// NoSync skips the syncs of the log.
	NoSync bool
	// EarlyTruncation truncates logs although the store has not been synced.
	EarlyTruncation bool
	// WrongSnapshotIndex labels a snapshot with an index that is one entry lower than its state.
	WrongSnapshotIndex bool
	// LongLease removes the safety margin of leases. A lease ends 700 ms after the voters may vote again, as if the
	// leader measured the lease from a late response.
	LongLease bool
	// DoubleCounter sends an addition to a counter twice, with different request IDs.
	DoubleCounter bool
	// ClockSweep lets a replica remove expired data by its own clock instead of the log's horizon.
	ClockSweep bool
	// Overlap extends a replica's stored token range into the range of its neighbor.
	Overlap bool
	// StaleTerm lets the leader of a later term propose the result that a previous leader evaluated.
	StaleTerm bool
	// AnyFollower serves reads at ONE from all rows on the node, including the rows of removed replicas.
	AnyFollower bool
	// UnappliedRead lets a follower read at QUORUM before it has applied the index that its leader sent.
	UnappliedRead bool
	// LostSwap makes the meta partition ignore the expected version.
	LostSwap bool
	// LowStamp prevents replicas from learning assigned timestamps from the log. A new leader may then assign
	// timestamps below the highest timestamp.
	LowStamp bool
	// HastyFate makes a client treat an unknown outcome as a definite failure.
	HastyFate bool
	// EarlyStamp stamps the parts of a logged batch with the coordinator's clock instead of the leaders' clocks.
	EarlyStamp bool
	// LowCondition assigns timestamps to conditional writes without regard to the timestamps of the rows that the
	// condition read.
	LowCondition bool
	// StaleEntries marks outdated batch parts as current without adding the new index entries.
	StaleEntries bool
	// NoRequire lets an index build start although the partitions still accept writes that were planned before the
	// build.
	NoRequire bool
	// RefusalIsDeath treats a refused connection as the end of the remote process.
	RefusalIsDeath bool
	// FarStamp lets leaders assign timestamps from their own clocks. EarlySweep lets the node that requests a sweep use
	// its own clock. SkewedLeader lets a node lead regardless of its clock.
	FarStamp, EarlySweep, SkewedLeader bool
	// NoReturn keeps a node from taking the new member ID that the meta partition assigned to it while it was offline.
	NoReturn bool
	// AnyLog accepts a log that does not match the rows, or creates a new log. AnyCopy skips the check for copied data
	// directories.
	AnyLog, AnyCopy bool
	// ChildByMap creates the child of a split from the partition map. ChildIsOrphan removes a child at startup if the
	// metadata is older than the parent's log. MapFirst records a split in the partition map before any log contains
	// the split.
	ChildByMap, ChildIsOrphan, MapFirst bool
	// Undivided lets each partition use the whole throughput of a table. LateBound lets a starting node leave its
	// partitions unlimited until the metadata changes.
	Undivided, LateBound bool
	// EarlyReady reports all replicas as frozen when the first replica of a merging partition is frozen.
	// FrozenIsOrphan removes a frozen replica that the partition map no longer contains. MergeMapFirst records a merge
	// in the partition map before any log contains the merge.
	EarlyReady, FrozenIsOrphan, MergeMapFirst bool
	// RightByMap recreates a merged partition from a partition map that does not contain the merge yet.
	RightByMap bool
	// ForgottenID drops the dedupe IDs, so a repeated write is applied twice.
	ForgottenID bool
	// DoubleItems sends an item request twice, with different request IDs.
	DoubleItems bool
}

// plantAnswers changes the messages that a follower receives.
func (w *simulation) plantAnswers(f *raftgroup.Received) {
	for _, m := range f.Messages {
		if m.Raft.GetType() != raftgroup.MsgIndexReply || m.Raft.GetReject() {
			continue
		}
		w.counts.IndexResponses++
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

// machineOther is a state machine that changes entries before it applies them.
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
	m = &exactlyOnce{StateMachine: m, w: n.w, n: n, stamps: map[string]int64{}}
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

// Holds implements the host of reconcile.Local. With RightByMap, it ignores a partition that has absorbed its neighbor
// if the partition map still shows the merge as pending.
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

// orphans removes the replicas that remained after a crash. It must run before the node applies metadata.
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

// plantAdmission changes the verdict on another node's data directory.
func (n *node) plantAdmission(err error) error {
	if n.w.plan.Bugs.AnyCopy {
		return nil
	}
	return err
}

// plantLineage changes how a rejected log is handled.
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

// plantNow returns the clock that leaders use for timestamps.
func (n *node) plantNow() sched.Clock {
	if n.w.plan.Bugs.FarStamp {
		return n
	}
	return n.peers
}

// plantPast returns the time that sweeps use.
func (n *node) plantPast() time.Time {
	if n.w.plan.Bugs.EarlySweep {
		return n.Wall()
	}
	return n.peers.EarliestNow()
}

// plantLease shifts the clock that measures the start of leases.
func (n *node) plantLease() raftgroup.Instant {
	if n.w.plan.Bugs.LongLease {
		return raftgroup.Instant(elections*tick - (elections-2)*tick*9/10 + 700*time.Millisecond)
	}
	return 0
}

// plantTerm takes over a proposal and submits it in a later term. It reports whether it has taken over the proposal.
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

// plantMember returns the coordinator's access to a replica on another node.
func (n *node) plantMember(m *remote.Replica) coordinator.Member {
	if b := n.w.plan.Bugs; b.DoubleCounter || b.DoubleItems || b.EarlyStamp || b.ForgottenID {
		return memberOther{m, n}
	}
	return m
}

// memberOther is a member that changes the IDs of the commands that it sends.
type memberOther struct {
	*remote.Replica
	n *node
}

// ConditionalWrite implements coordinator.Member.
func (m memberOther) ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error {
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

// plantBatches changes how batch parts are planned again.
func (n *node) plantBatches(b *write.BatchLog) coordinator.BatchLog {
	if n.w.plan.Bugs.StaleEntries {
		return staleEntries{b, n}
	}
	return b
}

// staleEntries is a batchlog that does not derive the index entries of batch parts.
type staleEntries struct {
	*write.BatchLog
	n *node
}

// Replan implements coordinator.BatchLog.
func (b staleEntries) Replan(part *command.Conditional) error {
	t := b.n.cat.Snapshot().TableByID(part.Mutation.Table)
	if t == nil {
		return coordinator.ErrUnknownTable
	}
	part.Mutation.SchemaVersion = t.Revision
	return nil
}

// plantTable changes the requests of index builds.
func (n *node) plantTable(t write.BackfillTable) backfill.Table {
	if n.w.plan.Bugs.NoRequire {
		return tableWithoutRequire{t}
	}
	return t
}

type tableWithoutRequire struct{ backfill.Table }

// Require implements backfill.Table.
func (tableWithoutRequire) Require(context.Context, uint32, uint64) error { return nil }

// plantMetas changes stored metadata before a node opens it.
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
