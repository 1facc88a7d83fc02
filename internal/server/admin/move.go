// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// MoveOrder describes the move of a replica to another node.
type MoveOrder struct {
	// Table is the name of the table with its keyspace, and Partition the ID of the partition.
	Table     string
	Partition uint64
	// From and To are the beginnings of the node IDs.
	From, To string
	// Hold is the time for which rebalancing does not move the partition afterward; 0 means one hour.
	Hold time.Duration
	// DryRun shows the plan without executing it. Wait waits for completion.
	DryRun, Wait bool
}

// moveOrder decodes a request.
func moveOrder(r *http.Request) (o MoveOrder, err error) {
	q := r.URL.Query()
	if o.Partition, err = strconv.ParseUint(q.Get("partition"), 10, 64); err != nil {
		return o, fmt.Errorf("%q is not a partition ID. Run ilion partition list", q.Get("partition"))
	}
	if hold := q.Get("hold"); hold != "" {
		if o.Hold, err = time.ParseDuration(hold); err != nil || o.Hold < 0 {
			return o, fmt.Errorf("invalid duration %q: expected a value such as 90m", hold)
		}
	}
	o.Table, o.From, o.To = q.Get("table"), q.Get("from"), q.Get("to")
	o.DryRun, o.Wait = q.Get("dry-run") == "true", q.Get("wait") == "true"
	return o, nil
}
