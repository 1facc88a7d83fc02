// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// viewLag returns the number of pending view updates in the partitions that the node leads, and the age of the oldest
// pending update.
func (n *Reporter) viewLag() (due int, oldest time.Duration) {
	if n.Views == nil {
		return 0, 0
	}
	first := int64(0)
	for _, l := range n.Views.Lags() {
		due += l.Due
		if l.Oldest != 0 && (first == 0 || l.Oldest < first) {
			first = l.Oldest
		}
	}
	if first == 0 {
		return due, 0
	}
	return due, max(0, time.Since(time.UnixMicro(first)))
}

// viewStats returns the counters of view maintenance. In tests without views, it returns zero values.
func (n *Reporter) viewStats() view.Stats {
	if n.Views == nil {
		return view.Stats{}
	}
	return n.Views.Stats()
}

// viewFigures are the metrics of materialized views.
var viewFigures = []figure{
	level("view_hints", "Pending view updates for rows and ranges of the partitions that this node leads.",
		func(n *Reporter) float64 { due, _ := n.viewLag(); return float64(due) }),
	level("view_oldest_hint_seconds", "Age of the oldest pending view update.",
		func(n *Reporter) float64 { _, oldest := n.viewLag(); return oldest.Seconds() }),
	count("view_updates_applied_total", "View updates applied.",
		func(n *Reporter) float64 { return float64(n.viewStats().Followed) }),
	count("view_updates_failed_total", "View updates that failed and will be retried.",
		func(n *Reporter) float64 { return float64(n.viewStats().Failed) }),
	count("view_writes_unawaited_total", "Writes acknowledged before their view updates were applied.",
		func(n *Reporter) float64 { return float64(n.viewStats().Unawaited) }),
}
