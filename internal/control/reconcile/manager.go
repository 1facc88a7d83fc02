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

// Manager are Members, Balance and Placer over the replicas of one node. The fields are set before it is used.
type Manager struct {
	Node   topology.NodeID
	Keeper *meta.Keeper
	Host   *partition.Host
	// View is what this node sees of the others, LeadsMeta reports whether it leads the meta partition.
	View      func() placement.View
	LeadsMeta func() bool
	Log       *slog.Logger
	// Size, if not nil, is how large a partition is on the disk of this node, in bytes.
	Size func(p *topology.Partition) uint64
	// Local is asked every now and then to look again at what logs bring and not the map.
	Local interface{ CheckPending() error }
	// Around, if not nil, makes what is asked in the place of a replica.
	Wrap func(Replica) Replica
	// Sched is what the loops wait by, nil outside simulations.
	Sched *sched.Scheduler

	members MembershipReconciler
}

// Enqueue has partitions looked at soon: because they are led from here now, say.
func (l *Manager) Enqueue(ids ...topology.PartitionID) { l.members.Enqueue(ids...) }

// MetadataChanged has those partitions looked at that have changed in the records.
func (l *Manager) MetadataChanged(old, next *meta.State) { l.members.MetadataChanged(old, next) }

// Start begins the loops by run, which has to call each function on a goroutine. They end with ctx.
func (l *Manager) Start(ctx context.Context, run func(f func())) {
	m := &l.members
	m.Keeper, m.Sched, m.Replica, m.Size = l.Keeper, l.Sched, l.replica, l.Size
	m.Failed = func(id topology.PartitionID, err error) {
		l.Log.LogAttrs(ctx, slog.LevelDebug, "change of members not made", slog.Uint64("partition", uint64(id)),
			slog.String("error", err.Error()))
	}
	m.SplitDone = func(p *topology.Partition, recalled bool) { LogSplit(l.Log, p, recalled) }
	m.MergeDone = func(left, right topology.PartitionID, recalled bool) { LogMerge(l.Log, left, right, recalled) }
	balance := &LeaderBalancer{Node: l.Node, Keeper: l.Keeper, Led: l.led, View: l.View, Sched: l.Sched}
	placer := &PlacementReconciler{
		Keeper: l.Keeper, IsLeader: l.LeadsMeta, View: l.View, Sched: l.Sched,
		Done: func(action string) { l.Log.LogAttrs(ctx, slog.LevelInfo, "placement", slog.String("action", action)) },
		Failed: func(err error) {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "placement failed and is tried again",
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

// checkInterval is the pause between two looks at what came, or did not come, of splits.
const checkInterval = time.Second

func (l *Manager) check() {
	if err := l.Local.CheckPending(); err != nil {
		l.Log.LogAttrs(context.Background(), slog.LevelWarn, "replicas not as the map has them",
			slog.String("error", err.Error()))
	}
}

// LogSplit notes a split that the map has now, or one that was taken back.
func LogSplit(log *slog.Logger, p *topology.Partition, canceled bool) {
	text := "partition split"
	if canceled {
		text = "split taken back"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(p.ID)),
		slog.Uint64("child", uint64(p.Split.Child)), slog.String("at", p.Split.At.String()),
		slog.String("cause", reasonOf(p, time.Time{}).Cause.String()))
}

// LogMerge notes a merge that the map has now, or one that was taken back.
func LogMerge(log *slog.Logger, left, right topology.PartitionID, canceled bool) {
	text := "partitions merged"
	if canceled {
		text = "merge taken back"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(left)),
		slog.Uint64("right", uint64(right)))
}

// replica returns the replica of a partition on this node, nil if there is none.
func (l *Manager) replica(id topology.PartitionID) Replica {
	r := l.Host.Replica(id)
	switch {
	case r == nil:
		return nil
	case l.Wrap != nil:
		return l.Wrap(r)
	}
	return r
}

// led lists the replicas on this node that lead.
func (l *Manager) led() (out []Replica) {
	for _, r := range l.Host.Replicas() {
		if r.Leading() {
			out = append(out, r)
		}
	}
	return out
}
