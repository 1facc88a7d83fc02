// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/control/lending"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/quota"
)

// SplitOptions configures automatic splits.
type SplitOptions struct {
	// StorageCap is the maximum size of a physical partition on disk, unless its table sets storage_cap_gb. A partition
	// is split at 80 % of it.
	StorageCap Bytes `yaml:"storage_cap"`
	// Units is the load in request units per second above which a partition is split. -1 disables splits by load.
	Units int `yaml:"request_units_per_second"`
}

// MergeOptions configures automatic merges.
type MergeOptions struct {
	// Automatic enables merges. nil means true.
	Automatic *bool `yaml:"automatic"`
	// IdlePeriod is the time for which two adjacent partitions must stay far below the split limits before they merge.
	IdlePeriod time.Duration `yaml:"idle_period"`
}

// The default and the minimum of MergeOptions.IdlePeriod.
const (
	defaultIdlePeriod = 5 * time.Minute
	minIdlePeriod     = 100 * time.Millisecond
)

func (o MergeOptions) withDefaults() MergeOptions {
	if o.IdlePeriod == 0 {
		o.IdlePeriod = defaultIdlePeriod
	}
	return o
}

func (o MergeOptions) validate() error {
	if o.IdlePeriod < minIdlePeriod {
		return fmt.Errorf("merges.idle_period %v is too short: use %v or more", o.IdlePeriod, minIdlePeriod)
	}
	return nil
}

// idlePeriod returns how long partitions must be idle before they are merged, or 0 if merges are off.
func (o *MergeOptions) idlePeriod() time.Duration {
	if o.Automatic != nil && !*o.Automatic {
		return 0
	}
	return o.IdlePeriod
}

// The defaults of SplitOptions.
const (
	storageCap    Bytes = 30e9
	storageCapMin Bytes = schema.StorageCapMin
	splitUnits          = budget.MaxPerSecond
)

func (o SplitOptions) withDefaults() SplitOptions {
	if o.StorageCap == 0 {
		o.StorageCap = storageCap
	}
	if o.Units == 0 {
		o.Units = splitUnits
	}
	return o
}

func (o SplitOptions) validate() error {
	switch {
	case o.StorageCap < storageCapMin:
		return fmt.Errorf("splits.storage_cap %d is too small: use %d or more", o.StorageCap, storageCapMin)
	case o.Units < -1:
		return fmt.Errorf("splits.request_units_per_second %d is out of range: use 1 or more, or off to disable splits by load",
			o.Units)
	}
	return nil
}

// The sizes in bytes and the number of values at which a logical partition is reported, and the minimum size limit.
const (
	largeBytes = 10e6
	hugeBytes  = 100e6
	manyValues = 100_000

	logicalBytesMin Bytes = 10e6
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
		LoadLimit: n.opts.Splits.loadLimit(), IdlePeriod: n.opts.Merges.idlePeriod(),
		Level: func() feature.Level { return 0 }, Log: n.log,
	}
	if n.cluster == nil {
		o.ApplyStandalone, o.Level = n.applySplitsStandalone, n.store.Level
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

// loadLimit returns the load above which a partition is split, in request units per second.
func (o *SplitOptions) loadLimit() float64 { return float64(max(o.Units, 0)) }

// newMergeController returns the controller of automatic merges.
func (n *Node) newMergeController() *autosplit.MergeController {
	m := &autosplit.MergeController{
		Metadata: n.metadata, Log: n.log,
		Rules: merge.Rules{SizeLimit: n.mergeSizeLimitOf, LoadLimit: n.opts.Splits.loadLimit(),
			IdlePeriod: n.opts.Merges.idlePeriod()},
		IsLeader: func() bool { return true }, LocalCandidates: n.splitController.Candidates,
		ApplyStandalone: n.applyMergesStandalone, Level: n.store.Level,
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
		ApplyStandalone: n.applySplitsStandalone,
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
