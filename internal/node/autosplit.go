// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/lending"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
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
		IsUserTable: func(table uint32) bool { return n.sizeLimitOf(table) > 0 },
		Name:        stats.NewKeyNames(n.catalog, n.store).Describe,
		Now:         func() int64 { return n.clock()().Unix() }, Log: n.log,
	})
}

// newSplitController returns the controller of automatic splits.
func (n *Node) newSplitController() *autosplit.SplitController {
	o := autosplit.Options{
		Metadata: n.metadata, Replicas: n.host.Replicas, Store: n.store.Statistics, SizeLimit: n.sizeLimitOf,
		KeyName:   stats.NewKeyNames(n.catalog, n.store).Describe,
		LoadLimit: n.opts.Splits.LoadLimit(), IdlePeriod: n.opts.Merges.MergeAfter(),
		Level: func() feature.Level { return 0 }, Log: n.log,
	}
	if n.cluster == nil {
		o.ApplyStandalone, o.Level = n.standalone.ApplySplits, n.store.Level
	} else {
		o.SendReport = n.cluster.sendFollowerLoad
	}
	return autosplit.New(o)
}

const (
	// followerLoadSubject is the subject of follower load reports; followerLoadTimeout bounds the wait for one.
	followerLoadSubject = "aside"
	followerLoadTimeout = 300 * time.Millisecond
)

// sendFollowerLoad sends the load of followers to the node that leads their partitions. Older versions ignore it.
func (c *cluster) sendFollowerLoad(ctx context.Context, to topology.NodeID, what []byte) {
	ctx, cancel := context.WithTimeout(ctx, followerLoadTimeout)
	defer cancel()
	if c.peers.Alive(to) {
		_, _ = c.peers.Query(ctx, to, followerLoadSubject, slices.Concat(c.self[:],
			what)) // sent again in a second
	}
}

// handleFollowerLoad handles the follower load report of another node.
func (c *cluster) handleFollowerLoad(_ context.Context, told []byte) ([]byte, error) {
	var from topology.NodeID
	if len(told) < len(from) {
		return nil, errors.New("malformed follower load report: node ID is missing")
	}
	copy(from[:], told)
	return nil, c.n.splitController.HandleReport(from, told[len(from):])
}

// newMergeController returns the controller of automatic merges.
func (n *Node) newMergeController() *autosplit.MergeController {
	m := &autosplit.MergeController{
		Metadata: n.metadata, Log: n.log,
		Rules: merge.Rules{SizeLimit: n.mergeSizeLimitOf, LoadLimit: n.opts.Splits.LoadLimit(),
			IdlePeriod: n.opts.Merges.MergeAfter()},
		IsLeader: func() bool { return true }, LocalCandidates: n.splitController.Candidates,
		ApplyStandalone: n.standalone.ApplyMerges, Level: n.store.Level,
	}
	if c := n.cluster; c != nil {
		m.IsLeader, m.OtherNodes, m.FetchCandidates, m.Rules.NodeHealthy = c.member.LeadsMeta, n.queries.LiveNodes,
			c.peers.MergeCandidates, c.alive
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

// alive reports whether a node is alive. This node is.
func (c *cluster) alive(node topology.NodeID) bool { return node == c.self || c.peers.Alive(node) }

// sizeLimitOf returns the maximum size of a table's partitions in bytes, or 0 for system tables.
func (n *Node) sizeLimitOf(table uint32) uint64 {
	t := n.catalog.Snapshot().TableByID(table)
	if t == nil || schema.IsSystem(t.Keyspace) {
		return 0
	}
	if most := t.Options.StorageCap(); most > 0 {
		return most
	}
	return uint64(n.opts.Splits.StorageCap)
}

// mergeSizeLimitOf returns sizeLimitOf for tables with automatic merges, and 0 for others.
func (n *Node) mergeSizeLimitOf(table uint32) uint64 {
	if t := n.catalog.Snapshot().TableByID(table); t != nil && t.Options.MergesOff {
		return 0
	}
	return n.sizeLimitOf(table)
}

// lender returns a Lender of unused throughput for the partitions that this node leads.
func (n *Node) lender() *lending.Lender {
	l := &lending.Lender{Self: n.store.Identity().Node, Metadata: n.metadata, Replicas: n.host.Replicas}
	if c := n.cluster; c != nil {
		l.Alive = c.peers.Alive
		l.Query = func(ctx context.Context, node topology.NodeID, question []byte) ([]byte, error) {
			return c.peers.Query(ctx, node, lending.Subject, question)
		}
	}
	return l
}

// handleLoan lends to a partition that another node leads.
func (c *cluster) handleLoan(_ context.Context, question []byte) ([]byte, error) {
	if !c.n.opts.Limits.Lending {
		return []byte{0}, nil
	}
	return c.n.lender().Handle(question)
}
