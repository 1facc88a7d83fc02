// SPDX-License-Identifier: Apache-2.0

package partition

import "sync/atomic"

// extensions holds the parts that other packages add to the replicas of a node after Open.
type extensions struct {
	throughputs atomic.Pointer[Throughputs]
	programs    atomic.Pointer[Programs]
	batches     atomic.Pointer[Batches]
	asking      atomic.Int32 // queries of batches in flight
	aggregator  atomic.Pointer[Aggregator]
	pushdown    atomic.Int64 // aggregations in progress
	views       atomic.Pointer[Views]
}
