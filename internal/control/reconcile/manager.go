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

// Member is this node in the cluster. It is a *membership.Member.
type Member interface {
	// View returns this node's view of the other nodes.
	View() placement.View
	// LeadsMeta reports whether this node leads the meta partition.
	LeadsMeta() bool
}

// Replicas are the replicas on this node.
type Replicas interface {
	// Replica returns the replica of a partition, or nil.
	Replica(id topology.PartitionID) Replica
}

// Manager runs a MembershipReconciler, a LeaderBalancer, and a PlacementReconciler for the replicas of one node. The
// caller must set the exported fields before use.
type Manager struct {
	Node topology.NodeID
	// Region is the region of the node.
	Region string
	Keeper *meta.Keeper
	Host   *partition.Host
	Member Member
	Log    *slog.Logger
	// Store may be nil.
	Store Store
	// Local is called periodically to check for the effects of logs.
	Local interface{ CheckPending() error }
	// Replicas replaces the replicas of Host in simulations. It is nil otherwise.
	Replicas Replicas
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler

	members MembershipReconciler
}

// Enqueue schedules partitions for reconciliation, for example if this node has become their leader.
func (l *Manager) Enqueue(ids ...topology.PartitionID) { l.members.Enqueue(ids...) }

// MetadataChanged schedules partitions that have changed in the metadata.
func (l *Manager) MetadataChanged(old, next *meta.State) { l.members.MetadataChanged(old, next) }

// Start starts the loops. The loops end when ctx ends. run must call each function on a new goroutine.
func (l *Manager) Start(ctx context.Context, run func(f func())) {
	m := &l.members
	m.Keeper, m.Sched, m.Replicas, m.Store, m.Log = l.Keeper, l.Sched, l.Replicas, l.Store, l.Log
	m.Region = l.Region
	if m.Replicas == nil {
		m.Replicas = HostReplicas{l.Host}
	}
	balance := &LeaderBalancer{Node: l.Node, Region: l.Region, Keeper: l.Keeper, Host: l.Host, Member: l.Member,
		Sched: l.Sched}
	placer := &PlacementReconciler{Keeper: l.Keeper, Member: l.Member, Log: l.Log, Sched: l.Sched}
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

// logSplit logs a completed or canceled split.
func logSplit(log *slog.Logger, p *topology.Partition, canceled bool) {
	text := "partition split"
	if canceled {
		text = "split canceled"
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, text, slog.Uint64("partition", uint64(p.ID)),
		slog.Uint64("child", uint64(p.Split.Child)), slog.String("at", p.Split.At.String()),
		slog.String("cause", reasonOf(p, time.Time{}).Cause.String()))
}

// logMerge logs a completed or canceled merge.
func logMerge(log *slog.Logger, left, right topology.PartitionID, canceled bool) {
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

// HostReplicas implements Replicas.
type HostReplicas struct{ *partition.Host }

// Replica implements Replicas.
func (h HostReplicas) Replica(id topology.PartitionID) Replica {
	if r := h.Host.Replica(id); r != nil {
		return newLocalReplica(r)
	}
	return nil
}

func newLocalReplica(r *partition.Replica) Replica {
	return localReplica{r, r.Control(), r.Membership()}
}
