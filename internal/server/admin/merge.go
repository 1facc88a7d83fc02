// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
)

// MergeOrder describes the merge of two adjacent physical partitions.
type MergeOrder struct {
	// Table is the name of the table with its keyspace, and Partitions the IDs of the partitions, in any order.
	Table      string
	Partitions [2]uint64
	// DryRun shows the plan without executing it. Wait waits for completion. Now skips the cool-down after an earlier
	// split or merge.
	DryRun, Wait, Now bool
}

// CancelOrder describes the cancellation of a pending operation.
type CancelOrder struct {
	// Table is the name of the table with its keyspace, and Partition the ID of the partition.
	Table     string
	Partition uint64
}

// cancelOrder decodes a request.
func cancelOrder(r *http.Request) (o CancelOrder, err error) {
	q := r.URL.Query()
	if o.Partition, err = strconv.ParseUint(q.Get("partition"), 10, 64); err != nil {
		return o, fmt.Errorf("%q is not a partition ID. Run ilion partition list", q.Get("partition"))
	}
	o.Table = q.Get("table")
	return o, nil
}

// mergeOrder decodes a request.
func mergeOrder(r *http.Request) (o MergeOrder, err error) {
	q := r.URL.Query()
	for i, name := range []string{"partition", "with"} {
		if o.Partitions[i], err = strconv.ParseUint(q.Get(name), 10, 64); err != nil {
			return o, fmt.Errorf("%q is not a partition ID. Run ilion partition list", q.Get(name))
		}
	}
	o.Table = q.Get("table")
	o.DryRun, o.Wait, o.Now = q.Get("dry-run") == "true", q.Get("wait") == "true", q.Get("now") == "true"
	return o, nil
}
