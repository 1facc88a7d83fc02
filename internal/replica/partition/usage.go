// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"time"

	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Usage returns the resources spent at the replica, also by logical partition.
func (r *Replica) Usage() *usage.Partition { return &r.usage }

// Hottest returns the n logical partitions with the highest current load at this replica that are still in its span.
func (r *Replica) Hottest(n int) usage.Top {
	return r.usage.Hottest(n, r.state.Load().span.Tokens().Contains)
}

// TickUsage makes all replicas record the resources spent up to now; see usage.Partition.Tick. Simulations call it;
// otherwise the host does.
func (h *Host) TickUsage(now time.Time) {
	clock := h.budgetClock()
	for _, r := range *h.replicas.Load() {
		r.budget.Forget(clock)
		before := r.usage.Hot()
		r.usage.Tick(now.Unix(), r.bounds())
		if after := r.usage.Hot(); h.opts.Hot != nil && (before == 0) != (after == 0) {
			h.opts.Hot(r, after != 0)
		}
	}
}

func (r *Replica) bounds() usage.Bounds {
	return usage.Bounds{PerSecond: r.budget.PerSecond(), Throttled: r.budget.Throttled()}
}

// Report returns the requested usage of the replica, without names and sizes.
func (r *Replica) Report(q usage.ReportOptions) usage.Report {
	out := r.usage.Report(q, r.bounds(), r.host.opts.Now().Unix())
	out.Partition, out.Table = uint64(r.id), r.Table()
	if q.Keys > 0 {
		out.Top = r.Hottest(min(q.Keys, usage.TopMax))
	}
	return out
}
