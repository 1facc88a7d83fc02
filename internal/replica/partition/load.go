// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Load records the request units that a replica has charged and the positions of the charged requests.
type Load struct {
	host       *Host
	id         topology.PartitionID
	state      *atomic.Pointer[state]
	throughput *Throughput
	usage      usage.Partition
	// samples is nil unless sampling is enabled; see SetSampling.
	samples atomic.Pointer[samples]
	// writeSamples holds sampled positions of writes.
	writeSamples atomic.Pointer[writeSamples]
}

// Usage returns the resources spent at the replica, in total and by logical partition.
func (l *Load) Usage() *usage.Partition { return &l.usage }

// Hottest returns the n logical partitions in the replica's span with the highest current load.
func (l *Load) Hottest(n int) usage.Top {
	return l.usage.Hottest(n, l.state.Load().span.Tokens().Contains)
}

// Report returns the requested usage of the replica, without names and sizes.
func (l *Load) Report(q usage.ReportOptions) usage.Report {
	out := l.usage.Report(q, l.throughput.bounds(), l.host.opts.Clock.Wall().Unix())
	out.Partition, out.Table = uint64(l.id), l.state.Load().keys.Table
	if q.Keys > 0 {
		out.Top = l.Hottest(min(q.Keys, usage.TopMax))
	}
	return out
}

// Counts holds the counters of a replica since the replica was opened. Bytes are logical (see package ru).
type Counts struct {
	Reads, Writes, Conditions uint64
	RowsRead                  uint64
	BytesRead, BytesWritten   uint64
	// Units is the total number of request units.
	Units ru.Units
	// Throttled counts the requests that were rejected because the partition had exceeded its throughput.
	Throttled uint64
}

// recordWrite charges, counts, and samples a write.
func (l *Load) recordWrite(who fairshare.Principal, k usage.Kind, u ru.Units, bytes int64, tok token.Token) {
	l.throughput.budget.Charge(who, u)
	l.sampleWrite(bytes, int64(l.usage.RecordWrite(k, tok, u, bytes)), tok)
	l.sample(u, tok)
}

// recordRead charges and counts a read. key is nil if the request may have ended. tok is ignored for a usage.Scan. If
// lent is true, the replica is a follower that spends borrowed units.
func (l *Load) recordRead(who fairshare.Principal, lent bool, k usage.Kind, u ru.Units, rows, bytes int64,
	tok token.Token,
	key []byte) {
	l.throughput.charge(who, lent, u)
	l.usage.RecordRead(k, tok, key, u, rows, bytes)
	if k != usage.Scan {
		l.sample(u, tok)
	}
}

// Counts returns the counters of the replica.
func (l *Load) Counts() Counts {
	c := l.usage.Counts()
	n := c.Requests
	decided := n[usage.Condition] + n[usage.Update]
	return Counts{Reads: n[usage.Point] + n[usage.Slice] + n[usage.Scan] + decided,
		Writes: n[usage.Write] + n[usage.Applied], Conditions: decided,
		RowsRead: c.RowsRead, BytesRead: c.BytesRead, BytesWritten: c.BytesWritten,
		Units: c.Total(), Throttled: l.throughput.budget.Throttled()}
}

// TickUsage makes all replicas record the resources spent up to now; see usage.Partition.Tick. Only simulations need to
// call TickUsage.
func (h *Host) TickUsage(now time.Time) {
	clock := h.budgetClock()
	for _, r := range *h.replicas.Load() {
		r.throughput.budget.Forget(clock)
		before := r.load.usage.Hot()
		r.load.usage.Tick(now.Unix(), r.throughput.bounds())
		if after := r.load.usage.Hot(); h.opts.Hot != nil && (before == 0) != (after == 0) {
			h.opts.Hot(r, after != 0)
		}
	}
}

// Spend charges a principal for evaluating the rows of a read, in addition to the price of the read. A follower owes
// this amount to its leader, and serves no reads until its next read at the leader has paid the amount. key is nil if
// the request has read a range.
func (r *Replica) Spend(who fairshare.Principal, tok token.Token, key []byte, u ru.Units) {
	kind := usage.Slice
	if key == nil {
		kind = usage.Scan
	}
	r.load.usage.Evaluated(kind, tok, key, u)
	r.throughput.chargeEvaluation(who, u)
}
