// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Manager runs a MembershipReconciler, LeaderBalancer, and PlacementReconciler for the replicas of one node. Set its
// fields before use.
type Manager struct {
	Node   topology.NodeID
	Keeper *meta.Keeper
	Host   *partition.Host
	// View returns this node's view of the others. LeadsMeta reports whether it leads the meta partition.
	View      func() placement.View
	LeadsMeta func() bool
	Log       *slog.Logger
	// Size returns the size of a partition on this node's disk in bytes. It may be nil.
	Size func(p *topology.Partition) uint64
	// Local is called periodically to check for effects of logs.
	Local interface{ CheckPending() error }
	// Wrap wraps replicas; it may be nil.
	Wrap func(Replica) Replica
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler

	members MembershipReconciler
}

// Enqueue schedules partitions for reconciliation, for example because this node has become their leader.
func (l *Manager) Enqueue(ids ...topology.PartitionID) { l.members.Enqueue(ids...) }

// MetadataChanged schedules partitions that have changed in the metadata.
func (l *Manager) MetadataChanged(old, next *meta.State) { l.members.MetadataChanged(old, next) }

// Start starts the loops, which end with ctx. run must call each function on a new goroutine.
func (l *Manager) Start(ctx context.Context, run func(f func())) {
	m := &l.members
	m.Keeper, m.Sched, m.Replica, m.Size = l.Keeper, l.Sched, l.replica, l.Size
	m.Failed = func(id topology.PartitionID, err error) {
		l.Log.LogAttrs(ctx, slog.LevelDebug, "membership change failed", slog.Uint64("partition", uint64(id)),
			slog.String("error", err.Error()))
	}
	m.SplitDone = func(p *topology.Partition, recalled bool) { LogSplit(l.Log, p, recalled) }
	m.MergeDone = func(left, right topology.PartitionID, recalled bool) { LogMerge(l.Log, left, right, recalled) }
	balance := &LeaderBalancer{Node: l.Node, Keeper: l.Keeper, Led: l.led, View: l.View, Sched: l.Sched}
	placer := &PlacementReconciler{
		Keeper: l.Keeper, IsLeader: l.LeadsMeta, View: l.View, Sched: l.Sched,
		Done: func(action string) { l.Log.LogAttrs(ctx, slog.LevelInfo, "placement", slog.String("action", action)) },
		Failed: func(err error) {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "placement failed; retrying",
				slog.String("error", err.Error()))
		},
	}
	for _, r := range l.Host.Replicas() {
		m.Enqueue(r.ID())
	}
	run(func() { m.Run(ctx) })
	run(func() { balance.Run(ctx) })
	run(func() { placer.Run(ctx) })
	run(func() { runEvery(ctx, l.Sched, checkInterval, l.check) })
}

// checkInterval is the time between two calls of CheckPending.
const checkInterval = time.Second

func (l *Manager) check() {
	if err := l.Local.CheckPending(); err != nil {
		l.Log.LogAttrs(context.Background(), slog.LevelWarn, "replicas do not match the topology",
			slog.String("error", err.Error()))
	}
}

// LogSplit logs a completed or canceled split.
func LogSplit(log *slog.Logger, p *topology.Partition, canceled bool) {
	text := "partition split"
	if canceled {
		text = "split canceled"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(p.ID)),
		slog.Uint64("child", uint64(p.Split.Child)), slog.String("at", p.Split.At.String()),
		slog.String("cause", reasonOf(p, time.Time{}).Cause.String()))
}

// LogMerge logs a completed or canceled merge.
func LogMerge(log *slog.Logger, left, right topology.PartitionID, canceled bool) {
	text := "partitions merged"
	if canceled {
		text = "merge canceled"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(left)),
		slog.Uint64("right", uint64(right)))
}

// localReplica implements Replica.
type localReplica struct {
	*partition.Replica
	partition.Control
	partition.Membership
}

func newLocalReplica(r *partition.Replica) Replica {
	return localReplica{r, r.Control(), r.Membership()}
}

// replica returns the local replica of a partition, or nil.
func (l *Manager) replica(id topology.PartitionID) Replica {
	r := l.Host.Replica(id)
	switch {
	case r == nil:
		return nil
	case l.Wrap != nil:
		return l.Wrap(newLocalReplica(r))
	}
	return newLocalReplica(r)
}

// led returns the local replicas that lead.
func (l *Manager) led() (out []Replica) {
	for _, r := range l.Host.Replicas() {
		if r.Leading() {
			out = append(out, newLocalReplica(r))
		}
	}
	return out
}
