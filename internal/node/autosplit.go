// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/control/autosplit"
	"github.com/ilion-db/ilion/internal/node/stats"
	"github.com/ilion-db/ilion/internal/replica/quota"
)

// These are the sizes in bytes and the number of values at which a logical partition is reported.
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
		Host: n.host, Store: n.store.Statistics, Tables: n.catalog, Names: stats.NewKeyNames(n.catalog, n.store),
		Clock: n.clock, Log: n.log,
	})
}

// newControllers returns the controllers of automatic splits and merges.
func (n *Node) newControllers() *autosplit.Controllers {
	o := autosplit.Options{
		Metadata: n.metadata, Host: n.host, Store: n.store.Statistics, Queries: n.queries,
		Limits:    autosplit.TableLimits{Tables: n.catalog, StorageCap: uint64(n.opts.Splits.StorageCap)},
		Names:     stats.NewKeyNames(n.catalog, n.store),
		LoadLimit: n.opts.Splits.LoadLimit(), IdlePeriod: n.opts.Merges.MergeAfter(), Log: n.log,
	}
	if n.cluster != nil {
		o.Member = n.cluster.member
	} else {
		o.Standalone = n.standalone
	}
	return autosplit.NewControllers(o)
}
