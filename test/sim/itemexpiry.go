// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Items with a time to live have a separate logical partition, because they disappear without a request. Scans,
// searches, and feeds include these items.

// expiringKey is the key of the logical partition with expiring items. The next constants are the minimum and maximum
// time to live.
const (
	expiringKey   = "px"
	expiringLeast = 2
	expiringMost  = 6
	// clockError is the maximum difference between two correct clocks, plus an allowance for truncated seconds.
	clockError = 2 * time.Second
)

var expiringIDs = []string{"y", "z"}

// expiringItem is a write of an item that expires.
type expiringItem struct {
	itemAt
	value uint64
	ttl   time.Duration
	// ended is the time of the acknowledgement, or 0 if the write was not acknowledged.
	called, ended time.Duration
}

// startExpiring starts a client that writes and reads expiring items.
func (n *node) startExpiring() {
	w := n.w
	n.Spawn(func(t *simenv.Task) {
		for t.Sleep(w.Between(50*time.Millisecond, 1200*time.Millisecond)) && !w.finished {
			at := itemAt{expiringKey, expiringIDs[w.Rand.IntN(len(expiringIDs))]}
			if c := n.stocked(); c == nil {
				continue
			} else if w.OneIn(3) {
				w.writeExpiring(n, t, c, at)
			} else {
				w.readExpiring(n, t, c, at)
			}
		}
	})
}

func (w *simulation) writeExpiring(n *node, t *simenv.Task, c *container.Container, at itemAt) {
	seconds := expiringLeast + w.Rand.IntN(expiringMost-expiringLeast+1)
	e := &expiringItem{itemAt: at, value: w.hist.newValue(), ttl: time.Duration(seconds) * time.Second, called: w.Now}
	w.items.expiring = append(w.items.expiring, e)
	body := fmt.Appendf(nil, `{"id":%q,"k":%q,"v":%d,"u":"own %s","c":%d,"ttl":%d}`, at.id, at.key, e.value, at.id,
		e.value%colors, seconds)
	r, err := n.stock.Do(context.Background(), c, stockKey(at.key), []container.Operation{{Kind: container.Upsert,
		Body: body}}, container.RequestOptions{})
	switch {
	case t.Dead():
	case err != nil:
		w.itemsNotRead("an item that expires", n, err)
	case r.Failed >= 0:
		w.Fail("the write of an expiring item returned status %d", r.Of[0].Status)
	default:
		e.ended = w.Now
	}
}

// readExpiring reads an expiring item. If all clocks are correct, it checks that the item exists until its expiration
// time.
func (w *simulation) readExpiring(n *node, t *simenv.Task, c *container.Container, at itemAt) {
	called := w.Now
	r, _, err := n.stock.Read(context.Background(), c, stockKey(at.key), at.id, "", container.RequestOptions{})
	if t.Dead() {
		return
	}
	if err != nil {
		w.itemsNotRead("an item that expires", n, err)
		return
	}
	value := uint64(0)
	if r.Status == 200 {
		value = valueOfItem(r.Item.Body)
	}
	if w.plan.With.Jumps || w.plan.With.Suspends {
		return
	}
	var first *expiringItem // the last write that was acknowledged before the read
	for _, e := range w.items.expiring {
		switch {
		case e.itemAt != at:
		case e.value == value && e.ended != 0 && called > e.ended+e.ttl+clockError:
			w.Fail("%v with value %d and lifetime %v still exists at %v: %+v", at, value, e.ttl, called, e)
		case e.ended != 0 && e.ended < called && (first == nil || e.ended > first.ended):
			first = e
		}
	}
	switch {
	case value == 0 && first != nil && w.Now < first.called+first.ttl-clockError:
		w.Fail("%v is missing at %v: %+v", at, called, first)
	case value == 0 && first != nil:
		w.counts.Expired++
	}
}
