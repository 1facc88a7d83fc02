// SPDX-License-Identifier: Apache-2.0

package autosplit

import (
	"context"
	"sync"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// Controllers are all controllers of automatic splits and merges of a node.
type Controllers struct {
	Splits     *SplitController
	merges     *MergeController
	throughput *ThroughputSplitter
}

// Cluster is the cluster whose partitions the controllers of a node split and merge.
type Cluster struct {
	// Member reports whether this node leads the meta partition.
	Member interface{ LeadsMeta() bool }
	// Client sends calls to other nodes.
	Client *rpc.Client
}

// Standalone executes recorded splits and merges on a standalone node.
type Standalone interface {
	ApplySplits(ctx context.Context) error
	ApplyMerges(ctx context.Context) error
}

// ForCluster returns the controllers of a node of a cluster. It sets the fields of o that depend on the kind of node.
func ForCluster(o Options, limits TableLimits, c Cluster) *Controllers {
	o.Level = func() feature.Level { return 0 }
	all := newControllers(o, limits)
	m := all.merges
	m.IsLeader, m.OtherNodes = c.Member.LeadsMeta, o.Queries.LiveNodes
	m.Client, m.Rules.NodeHealthy = c.Client, o.Queries.Alive
	all.throughput.IsLeader = c.Member.LeadsMeta
	return all
}

// ForStandalone returns the controllers of a standalone node with a feature level. It sets the fields of o that depend
// on the kind of node.
func ForStandalone(o Options, limits TableLimits, s Standalone, level func() feature.Level) *Controllers {
	o.ApplyStandalone, o.Level = s.ApplySplits, level
	all := newControllers(o, limits)
	all.merges.IsLeader, all.merges.ApplyStandalone = always, s.ApplyMerges
	all.throughput.IsLeader, all.throughput.ApplyStandalone = always, s.ApplySplits
	return all
}

func always() bool { return true }

func newControllers(o Options, limits TableLimits) *Controllers {
	o.SizeLimit = limits.SizeLimit
	splits := New(o)
	return &Controllers{
		Splits: splits,
		merges: &MergeController{
			Metadata: o.Metadata, Log: o.Log, Level: o.Level, LocalCandidates: splits.Candidates,
			Rules: merge.Rules{SizeLimit: limits.MergeSizeLimit, LoadLimit: o.LoadLimit, IdlePeriod: o.IdlePeriod},
		},
		throughput: &ThroughputSplitter{Metadata: o.Metadata, Log: o.Log, Level: o.Level},
	}
}

// Run requests splits and merges until ctx ends.
func (c *Controllers) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){c.Splits.Run, c.merges.Run, c.throughput.Run} {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
}
