// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
)

// addPartitionCommands adds the commands for physical partitions.
func (h *handler) addPartitionCommands() {
	p := h.Partitions
	h.command("partition/split", func(r *http.Request) (string, error) {
		o, err := splitOrder(r)
		if err != nil {
			return "", err
		}
		return p.Split(r.Context(), o)
	})
	h.command("partition/merge", func(r *http.Request) (string, error) {
		o, err := mergeOrder(r)
		if err != nil {
			return "", err
		}
		return p.Merge(r.Context(), o)
	})
	h.command("partition/move", func(r *http.Request) (string, error) {
		o, err := moveOrder(r)
		if err != nil {
			return "", err
		}
		return p.Move(r.Context(), o)
	})
	h.command("partition/cancel", func(r *http.Request) (string, error) {
		o, err := cancelOrder(r)
		if err != nil {
			return "", err
		}
		return p.Cancel(r.Context(), o)
	})
}

// partitionID returns the partition ID in a parameter of a request.
func partitionID(q url.Values, name string) (uint64, error) {
	id, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a partition ID. Run ilion partition list", q.Get(name))
	}
	return id, nil
}

// splitOrder decodes a request.
func splitOrder(r *http.Request) (o operations.Split, err error) {
	q := r.URL.Query()
	if o.Partition, err = partitionID(q, "partition"); err != nil {
		return o, err
	}
	o.Table, o.At = q.Get("table"), q.Get("at")
	o.DryRun, o.Wait, o.Now = q.Get("dry-run") == "true", q.Get("wait") == "true", q.Get("now") == "true"
	return o, nil
}

// mergeOrder decodes a request.
func mergeOrder(r *http.Request) (o operations.Merge, err error) {
	q := r.URL.Query()
	for i, name := range []string{"partition", "with"} {
		if o.Partitions[i], err = partitionID(q, name); err != nil {
			return o, err
		}
	}
	o.Table = q.Get("table")
	o.DryRun, o.Wait, o.Now = q.Get("dry-run") == "true", q.Get("wait") == "true", q.Get("now") == "true"
	return o, nil
}

// cancelOrder decodes a request.
func cancelOrder(r *http.Request) (o operations.Cancel, err error) {
	q := r.URL.Query()
	o.Table = q.Get("table")
	o.Partition, err = partitionID(q, "partition")
	return o, err
}

// moveOrder decodes a request.
func moveOrder(r *http.Request) (o operations.Move, err error) {
	q := r.URL.Query()
	if o.Partition, err = partitionID(q, "partition"); err != nil {
		return o, err
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
