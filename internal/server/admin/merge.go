// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
)

// MergeOrder is an order to merge two neighbouring physical partitions.
type MergeOrder struct {
	// Table is its name with the keyspace, Partitions the ids of the two, in any order.
	Table      string
	Partitions [2]uint64
	// DryRun says what would be done and does nothing; Wait returns when it is done; Now does not leave partitions
	// alone that have split or merged lately.
	DryRun, Wait, Now bool
}

// CancelOrder is an order to take back what was ordered of a physical partition.
type CancelOrder struct {
	// Table is its name with the keyspace, Partition the id.
	Table     string
	Partition uint64
}

// cancelOrder reads an order off a request.
func cancelOrder(r *http.Request) (o CancelOrder, err error) {
	q := r.URL.Query()
	if o.Partition, err = strconv.ParseUint(q.Get("partition"), 10, 64); err != nil {
		return o, fmt.Errorf("%q is not the id of a partition: see ilion partition list", q.Get("partition"))
	}
	o.Table = q.Get("table")
	return o, nil
}

// mergeOrder reads an order off a request.
func mergeOrder(r *http.Request) (o MergeOrder, err error) {
	q := r.URL.Query()
	for i, name := range []string{"partition", "with"} {
		if o.Partitions[i], err = strconv.ParseUint(q.Get(name), 10, 64); err != nil {
			return o, fmt.Errorf("%q is not the id of a partition: see ilion partition list", q.Get(name))
		}
	}
	o.Table = q.Get("table")
	o.DryRun, o.Wait, o.Now = q.Get("dry-run") == "true", q.Get("wait") == "true", q.Get("now") == "true"
	return o, nil
}
