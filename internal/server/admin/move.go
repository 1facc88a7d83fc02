// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// MoveOrder is an order to have a replica of a physical partition on another node.
type MoveOrder struct {
	// Table is its name with the keyspace, Partition the id of the partition.
	Table     string
	Partition uint64
	// From and To are the beginnings of the nodes' identities.
	From, To string
	// Hold is for how long the partition is left where it is then; 0 is the default, an hour.
	Hold time.Duration
	// DryRun says what would be done and does nothing; Wait returns when it is done.
	DryRun, Wait bool
}

// moveOrder reads an order off a request.
func moveOrder(r *http.Request) (o MoveOrder, err error) {
	q := r.URL.Query()
	if o.Partition, err = strconv.ParseUint(q.Get("partition"), 10, 64); err != nil {
		return o, fmt.Errorf("%q is not the id of a partition: see ilion partition list", q.Get("partition"))
	}
	if hold := q.Get("hold"); hold != "" {
		if o.Hold, err = time.ParseDuration(hold); err != nil || o.Hold < 0 {
			return o, fmt.Errorf("%q is no time to hold a partition: give one like 90m", hold)
		}
	}
	o.Table, o.From, o.To = q.Get("table"), q.Get("from"), q.Get("to")
	o.DryRun, o.Wait = q.Get("dry-run") == "true", q.Get("wait") == "true"
	return o, nil
}
