// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/growth"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/quota"
)

// SplitOptions say when physical partitions split by themselves.
type SplitOptions struct {
	// StorageCap is how many bytes a physical partition may have on disk, where its table does not say
	// (storage_cap_gb): it is split at 80 % of it.
	StorageCap Bytes `yaml:"storage_cap"`
	// Units are the request units a second above which a partition is split. -1: none is split by load.
	Units int `yaml:"request_units_per_second"`
}

// MergeOptions say when physical partitions merge by themselves.
type MergeOptions struct {
	// Automatic is false where none do; nil is true.
	Automatic *bool `yaml:"automatic"`
	// IdlePeriod is the time for which two adjacent partitions must stay far below the split limits before they merge.
	IdlePeriod time.Duration `yaml:"idle_period"`
}

// quietFor is the default of MergeOptions.IdlePeriod, quietForMin the least.
const (
	quietFor    = 5 * time.Minute
	quietForMin = 100 * time.Millisecond
)

func (o MergeOptions) withDefaults() MergeOptions {
	if o.IdlePeriod == 0 {
		o.IdlePeriod = quietFor
	}
	return o
}

func (o MergeOptions) validate() error {
	if o.IdlePeriod < quietForMin {
		return fmt.Errorf("merges.idle_period %v is too short: use %v or more", o.IdlePeriod, quietForMin)
	}
	return nil
}

// quiet is how long partitions must have been quiet to be merged, 0 if none are.
func (o *MergeOptions) quiet() time.Duration {
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

// The sizes of logical partitions, in bytes, and their values, that are told of, and the least that they may be limited
// to.
const (
	largeBytes = 10e6
	hugeBytes  = 100e6
	manyValues = 100_000

	logicalBytesMin Bytes = 10e6
)

// newQuota makes what finds large logical partitions, and bounds them.
func (n *Node) newQuota() *quota.Quota {
	return quota.New(quota.Options{
		Limits: quota.Limits{Bytes: int64(n.opts.Limits.LogicalPartitionBytes), Large: []int64{largeBytes, hugeBytes},
			Values: manyValues},
		Host: n.host, Measure: n.store.MeasurePartition,
		IsUserTable: func(table uint32) bool { return n.capOf(table) > 0 },
		Name:        n.logicalName, Now: func() int64 { return n.clock()().Unix() }, Log: n.log,
	})
}

// newGrowth makes what has partitions split by themselves.
func (n *Node) newGrowth() *growth.Watch {
	o := growth.Options{
		Records: n.records, Replicas: n.host.Replicas, Store: n.store.Statistics, Cap: n.capOf, Name: n.logicalName,
		Limit: n.opts.Splits.limit(), QuietFor: n.opts.Merges.quiet(),
		Level: func() feature.Level { return 0 }, Log: n.log,
	}
	if n.cluster == nil {
		o.Alone, o.Level = n.splitAlone, n.store.Level
	} else {
		o.Tell = n.cluster.tellLeader
	}
	return growth.New(o)
}

const (
	// asideSubject is what followers tell leaders by, and asideWait how long one may take.
	asideSubject = "aside"
	asideWait    = 300 * time.Millisecond
)

// tellLeader tells a node what this one serves of partitions that it leads. One of an older build does not care.
func (c *cluster) tellLeader(ctx context.Context, to topology.NodeID, what []byte) {
	ctx, cancel := context.WithTimeout(ctx, asideWait)
	defer cancel()
	if c.peers.Alive(to) {
		_, _ = c.peers.Ask(ctx, to, asideSubject, slices.Concat(c.self[:], what)) // it is told again in a second
	}
}

// hearAside takes in what another node tells.
func (c *cluster) hearAside(_ context.Context, told []byte) ([]byte, error) {
	var from topology.NodeID
	select {
	case <-c.started:
	default:
		return nil, nil
	}
	if len(told) < len(from) {
		return nil, errors.New("a follower tells who it is")
	}
	copy(from[:], told)
	return nil, c.n.growth.Hear(from, told[len(from):])
}

// limit is the load above which a partition is split, in request units a second.
func (o *SplitOptions) limit() float64 { return float64(max(o.Units, 0)) }

// newMerger makes what has quiet partitions merge.
func (n *Node) newMerger() *growth.Merger {
	m := &growth.Merger{
		Records: n.records, Log: n.log,
		Rules: merge.Rules{Cap: n.mergedCapOf, Limit: n.opts.Splits.limit(), For: n.opts.Merges.quiet()},
		Mine:  func() bool { return true }, Here: n.growth.Quiet, Alone: n.mergeAlone, Level: n.store.Level,
	}
	if c := n.cluster; c != nil {
		m.Mine, m.Others, m.Ask, m.Rules.Well = c.member.LeadsMeta, c.others, c.peers.Quiet, c.alive
		m.Alone, m.Level = nil, func() feature.Level { return 0 }
	}
	return m
}

// newProvider makes what splits partitions for the sake of a throughput.
func (n *Node) newProvider() *growth.Provider {
	p := &growth.Provider{Records: n.records, Mine: func() bool { return true }, Log: n.log, Alone: n.splitAlone,
		Level: n.store.Level}
	if c := n.cluster; c != nil {
		p.Mine, p.Alone, p.Level = c.member.LeadsMeta, nil, func() feature.Level { return 0 }
	}
	return p
}

// quietHere is what this node says of the partitions that it leads.
func (c *cluster) quietHere() []byte {
	select {
	case <-c.started:
		return merge.AppendQuiet(nil, c.n.growth.Quiet())
	default:
		return merge.AppendQuiet(nil, nil)
	}
}

// alive reports whether a node answers, this one included.
func (c *cluster) alive(node topology.NodeID) bool { return node == c.self || c.peers.Alive(node) }

// capOf is how many bytes a physical partition of a table may have; 0 for tables of the system.
func (n *Node) capOf(table uint32) uint64 {
	t := n.catalog.Snapshot().TableByID(table)
	if t == nil || schema.IsSystem(t.Keyspace) {
		return 0
	}
	if most := t.Options.StorageCap(); most > 0 {
		return most
	}
	return uint64(n.opts.Splits.StorageCap)
}

// mergedCapOf is capOf for a table whose partitions merge by themselves, 0 for others.
func (n *Node) mergedCapOf(table uint32) uint64 {
	if t := n.catalog.Snapshot().TableByID(table); t != nil && t.Options.MergesOff {
		return 0
	}
	return n.capOf(table)
}

// logicalName is a logical partition in words: its table, and the columns of its key with their values.
func (n *Node) logicalName(table uint32, key []byte) string {
	t := n.catalog.Snapshot().TableByID(table)
	if t == nil {
		return fmt.Sprintf("key 0x%x", key)
	}
	return t.String() + " " + keyLiterals(t, key)
}
