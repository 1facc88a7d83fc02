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

// Loops are Members, Balance and Placer over the replicas of one node. The fields are set before it is used.
type Loops struct {
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
	Local interface{ Check() error }
	// Around, if not nil, makes what is asked in the place of a replica.
	Around func(Replica) Replica
	// Sched is what the loops wait by, nil outside simulations.
	Sched *sched.Scheduler

	members Members
}

// Look has partitions looked at soon: because they are led from here now, say.
func (l *Loops) Look(ids ...topology.PartitionID) { l.members.Look(ids...) }

// Changed has those partitions looked at that have changed in the records.
func (l *Loops) Changed(old, next *meta.State) { l.members.Changed(old, next) }

// Start begins the loops by run, which has to call each function on a goroutine. They end with ctx.
func (l *Loops) Start(ctx context.Context, run func(f func())) {
	m := &l.members
	m.Keeper, m.Sched, m.Replica, m.Size = l.Keeper, l.Sched, l.replica, l.Size
	m.Failed = func(id topology.PartitionID, err error) {
		l.Log.LogAttrs(ctx, slog.LevelDebug, "change of members not made", slog.Uint64("partition", uint64(id)),
			slog.String("error", err.Error()))
	}
	m.Split = func(p *topology.Partition, recalled bool) { LogSplit(l.Log, p, recalled) }
	m.Joined = func(left, right topology.PartitionID, recalled bool) { LogMerge(l.Log, left, right, recalled) }
	balance := &Balance{Node: l.Node, Keeper: l.Keeper, Led: l.led, View: l.View, Sched: l.Sched}
	placer := &Placer{
		Keeper: l.Keeper, Mine: l.LeadsMeta, View: l.View, Sched: l.Sched,
		Done: func(action string) { l.Log.LogAttrs(ctx, slog.LevelInfo, "placement", slog.String("action", action)) },
		Failed: func(err error) {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "placement failed and is tried again",
				slog.String("error", err.Error()))
		},
	}
	for _, r := range l.Host.Replicas() {
		m.Look(r.ID())
	}
	run(func() { m.Run(ctx) })
	run(func() { balance.Run(ctx) })
	run(func() { placer.Run(ctx) })
	run(func() { every(ctx, l.Sched, checkEvery, l.check) })
}

// checkEvery is the pause between two looks at what came, or did not come, of splits.
const checkEvery = time.Second

func (l *Loops) check() {
	if err := l.Local.Check(); err != nil {
		l.Log.LogAttrs(context.Background(), slog.LevelWarn, "replicas not as the map has them",
			slog.String("error", err.Error()))
	}
}

// LogSplit notes a split that the map has now, or one that was taken back.
func LogSplit(log *slog.Logger, p *topology.Partition, recalled bool) {
	text := "partition split"
	if recalled {
		text = "split taken back"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(p.ID)),
		slog.Uint64("child", uint64(p.Cut.Child)), slog.String("at", p.Cut.At.String()),
		slog.String("cause", reasonOf(p, time.Time{}).Cause.String()))
}

// LogMerge notes a merge that the map has now, or one that was taken back.
func LogMerge(log *slog.Logger, left, right topology.PartitionID, recalled bool) {
	text := "partitions merged"
	if recalled {
		text = "merge taken back"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(left)),
		slog.Uint64("right", uint64(right)))
}

// replica returns the replica of a partition on this node, nil if there is none.
func (l *Loops) replica(id topology.PartitionID) Replica {
	r := l.Host.Replica(id)
	switch {
	case r == nil:
		return nil
	case l.Around != nil:
		return l.Around(r)
	}
	return r
}

// led lists the replicas on this node that lead.
func (l *Loops) led() (out []Replica) {
	for _, r := range l.Host.Replicas() {
		if r.Leading() {
			out = append(out, r)
		}
	}
	return out
}
