// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/ilion-db/ilion/internal/control/growth"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/replica/quota"
	"github.com/ilion-db/ilion/internal/server/cql"
)

// SplitOptions say when physical partitions split by themselves.
type SplitOptions struct {
	// StorageCap is how many bytes a physical partition may have on disk, where its table does not say
	// (storage_cap_gb): it is split at 80 % of it.
	StorageCap Bytes `yaml:"storage_cap"`
	// Operations a second, and CPU in percent of all processors of its leader, are what a partition may be asked before
	// it is split, if both are exceeded. Operations of -1: none is split by load.
	Operations int `yaml:"operations_per_second"`
	CPU        int `yaml:"cpu_percent"`
}

// The defaults of SplitOptions.
const (
	storageCap      Bytes = 30e9
	storageCapMin   Bytes = schema.StorageCapMin
	splitOperations       = 10_000
	splitCPU              = 25
)

func (o SplitOptions) withDefaults() SplitOptions {
	if o.StorageCap == 0 {
		o.StorageCap = storageCap
	}
	if o.Operations == 0 {
		o.Operations = splitOperations
	}
	if o.CPU == 0 {
		o.CPU = splitCPU
	}
	return o
}

func (o SplitOptions) validate() error {
	switch {
	case o.StorageCap < storageCapMin:
		return fmt.Errorf("splits.storage_cap %d is too small: use %d or more", o.StorageCap, storageCapMin)
	case o.Operations < -1:
		return fmt.Errorf("splits.operations_per_second %d is out of range: use 1 or more, or -1 to split none by load",
			o.Operations)
	case o.CPU < 1 || o.CPU > 100:
		return fmt.Errorf("splits.cpu_percent %d is out of range: use 1 to 100", o.CPU)
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
		Host: n.host, Weigh: n.store.Weigh, Users: func(table uint32) bool { return n.capOf(table) > 0 },
		Name: n.logicalName, Now: func() int64 { return n.clock()().Unix() }, Log: n.log,
	})
}

// newGrowth makes what has partitions split by themselves.
func (n *Node) newGrowth() *growth.Watch {
	o := growth.Options{
		Records: n.records, Replicas: n.host.Replicas, Store: n.store.Statistics, Cap: n.capOf, Name: n.logicalName,
		Limit: split.Load{Operations: float64(max(n.opts.Splits.Operations, 0)), CPU: float64(n.opts.Splits.CPU) / 100},
		Busy:  cql.CPUTime, Processors: runtime.GOMAXPROCS(0),
		Level: func() feature.Level { return 0 }, Log: n.log,
	}
	if n.cluster == nil {
		o.Alone, o.Level = n.splitAlone, n.store.Level
	}
	return growth.New(o)
}

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

// logicalName is a logical partition in words: its table, and the columns of its key with their values.
func (n *Node) logicalName(table uint32, key []byte) string {
	t := n.catalog.Snapshot().TableByID(table)
	if t == nil {
		return fmt.Sprintf("key 0x%x", key)
	}
	columns := make([]string, len(t.PartitionKey))
	for i, c := range t.PartitionKey {
		value, err := expr.PartitionKeyValue(t, key, i)
		if err != nil {
			return fmt.Sprintf("%s key 0x%x", t, key)
		}
		columns[i] = c.Name + " = " + c.Type.Format(value)
	}
	return t.String() + " " + strings.Join(columns, " AND ")
}
