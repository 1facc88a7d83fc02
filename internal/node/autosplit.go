// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/replica/quota"
)

// The sizes in bytes and the number of values at which a logical partition is reported.
const (
	largeBytes = 10e6
	hugeBytes  = 100e6
	manyValues = 100_000
)

// newQuota returns a Quota that reports and limits large logical partitions.
func (n *Node) newQuota() *quota.Quota {
	return quota.New(quota.Options{
		Limits: quota.Limits{Bytes: int64(n.opts.Limits.LogicalPartitionBytes), Large: []int64{largeBytes, hugeBytes},
			Values: manyValues},
		Host: n.host, Measure: n.store.MeasurePartition,
		IsUserTable: func(table uint32) bool { return n.catalog.UserTable(table) != nil },
		Name:        stats.NewKeyNames(n.catalog, n.store).Describe,
		Now:         func() int64 { return n.clock()().Unix() }, Log: n.log,
	})
}

// tableLimits returns the size limits of tables.
func (n *Node) tableLimits() autosplit.TableLimits {
	return autosplit.TableLimits{Tables: n.catalog, StorageCap: uint64(n.opts.Splits.StorageCap)}
}

// newSplitController returns the controller of automatic splits.
func (n *Node) newSplitController() *autosplit.SplitController {
	o := autosplit.Options{
		Metadata: n.metadata, Replicas: n.host.Replicas, Store: n.store.Statistics, Queries: n.queries,
		SizeLimit: n.tableLimits().SizeLimit,
		KeyName:   stats.NewKeyNames(n.catalog, n.store).Describe,
		LoadLimit: n.opts.Splits.LoadLimit(), IdlePeriod: n.opts.Merges.MergeAfter(),
		Level: func() feature.Level { return 0 }, Log: n.log,
	}
	if n.cluster == nil {
		o.ApplyStandalone, o.Level = n.standalone.ApplySplits, n.store.Level
	}
	return autosplit.New(o)
}

// newMergeController returns the controller of automatic merges.
func (n *Node) newMergeController() *autosplit.MergeController {
	m := &autosplit.MergeController{
		Metadata: n.metadata, Log: n.log,
		Rules: merge.Rules{SizeLimit: n.tableLimits().MergeSizeLimit, LoadLimit: n.opts.Splits.LoadLimit(),
			IdlePeriod: n.opts.Merges.MergeAfter()},
		IsLeader: func() bool { return true }, LocalCandidates: n.splitController.Candidates,
		ApplyStandalone: n.standalone.ApplyMerges, Level: n.store.Level,
	}
	if c := n.cluster; c != nil {
		m.IsLeader, m.OtherNodes, m.FetchCandidates, m.Rules.NodeHealthy = c.member.LeadsMeta, n.queries.LiveNodes,
			c.peers.MergeCandidates, n.queries.Alive
		m.ApplyStandalone, m.Level = nil, func() feature.Level { return 0 }
	}
	return m
}

// newThroughputSplitter returns the controller of splits for provisioned throughput.
func (n *Node) newThroughputSplitter() *autosplit.ThroughputSplitter {
	p := &autosplit.ThroughputSplitter{Metadata: n.metadata, IsLeader: func() bool { return true }, Log: n.log,
		ApplyStandalone: n.standalone.ApplySplits,
		Level:           n.store.Level}
	if c := n.cluster; c != nil {
		p.IsLeader, p.ApplyStandalone, p.Level = c.member.LeadsMeta, nil, func() feature.Level { return 0 }
	}
	return p
}

// localCandidates returns the encoded merge candidates of this node.
func (c *cluster) localCandidates() []byte {
	select {
	case <-c.started:
		return merge.AppendCandidates(nil, c.n.splitController.Candidates())
	default:
		return merge.AppendCandidates(nil, nil)
	}
}
