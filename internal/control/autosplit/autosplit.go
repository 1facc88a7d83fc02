// SPDX-License-Identifier: Apache-2.0

// Package autosplit splits and merges physical partitions automatically.
//
// A SplitController on each node checks the size and the load of the led partitions every second, and records a split
// in the cluster metadata when a limit is exceeded. A MergeController on the node that leads the meta partition records
// merges of adjacent idle partitions.
//
// Guarantees:
//
//   - (GR1) A partition above 80 % of its size limit is split in the middle of its bytes.
//   - (GR2) A partition whose load exceeds its limit for ten seconds is split at a point that leaves at least a quarter
//     of the load on each side.
//   - (GR3) If no such point exists, the controller reports the logical partition that prevents the split. It reports a
//     hot logical partition within five seconds, and isolates this partition by splits on both sides.
//   - (GR4) System tables are never split.
//   - (GR5) Adjacent partitions that have been idle long enough are merged. Package merge defines the rules.
//
// Package split decides when a split is due and limits the number of concurrent splits. Package autosplit stores no
// state on disk, so a new leader starts measuring again. Start reading at SplitController.round and
// MergeController.round.
package autosplit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// roundInterval is the time between two checks of all partitions.
	roundInterval = time.Second
	// measureInterval is the interval at which the size of a changed partition is measured. A partition that has grown
	// by 1 % of its size limit is measured in the next round. The size of an unchanged partition is measured every
	// idleMeasureInterval, because compactions can shrink the partition.
	measureInterval     = 15 * time.Second
	idleMeasureInterval = time.Minute
	// samplesPerSecond is the target number of sampled requests per second of a busy partition.
	samplesPerSecond = 128
	// requestTimeout is the maximum wait for recording a split or merge request.
	requestTimeout = 10 * time.Second
)

// Store measures the sizes of partitions. *storage.Statistics implements it.
type Store interface {
	Size(span keys.Span, enough uint64) (uint64, error)
	FindSplitPoint(span keys.Span) (storage.SplitPoint, error)
	KeyAt(table uint32, at token.Token) ([]byte, error)
}

// Limits returns the maximum sizes of partitions in bytes. It is a TableLimits.
type Limits interface {
	// SizeLimit returns 0 if the partitions of a table are never split. MergeSizeLimit returns 0 if they are never
	// merged.
	SizeLimit(table uint32) uint64
	MergeSizeLimit(table uint32) uint64
}

// Standalone executes recorded splits and merges on a standalone node. It is a *reconcile.Standalone.
type Standalone interface {
	ApplySplits(ctx context.Context) error
	ApplyMerges(ctx context.Context) error
	Level() feature.Level
}

// Options holds the dependencies and the limits of the controllers. All fields are required unless their comments state
// otherwise.
type Options struct {
	Metadata *meta.Keeper
	Host     *partition.Host
	Store    Store
	Limits   Limits
	// LoadLimit is the load, in request units per second, above which a partition is split. If it is 0, splits by load
	// are disabled.
	LoadLimit float64
	// IdlePeriod is the time for which partitions must be idle before they are merged. If it is 0, merges are disabled.
	IdlePeriod time.Duration
	// Names returns readable names of logical partitions. It is a stats.KeyNames.
	Names interface {
		Describe(table uint32, key []byte) string
	}
	// Queries sends calls to the other nodes. Member reports whether this node leads the meta partition. Both are nil
	// on a standalone node. Standalone is nil in a cluster.
	Queries    *clusterquery.Client
	Member     interface{ LeadsMeta() bool }
	Standalone Standalone
	Log        *slog.Logger
	// Sched provides time and waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// decides reports whether this node leads the meta partition or is standalone.
func (o *Options) decides() bool { return o.Member == nil || o.Member.LeadsMeta() }

// level returns the feature level of a standalone node, or 0 in a cluster.
func (o *Options) level() feature.Level {
	if o.Standalone == nil {
		return 0
	}
	return o.Standalone.Level()
}

// executeSplits executes recorded splits on a standalone node.
func (o *Options) executeSplits(ctx context.Context) error {
	if o.Standalone == nil {
		return nil
	}
	return o.Standalone.ApplySplits(ctx)
}

// PartitionReport holds the measurements of a partition whose leader is on this node.
type PartitionReport struct {
	// Bytes is the most recent size estimate. SizeLimit is the maximum size.
	Bytes, SizeLimit uint64
	// Load is the recent load in request units per second, including reads from followers.
	Load float64
	// NotSplitReason explains why a due split cannot be made. It is empty if nothing prevents the split.
	NotSplitReason string
	// HotKey is the readable name of the hot logical partition. It is empty if no logical partition is hot. HotKeyShare
	// is the fraction of the load that HotKey causes, from 0 to 1.
	HotKey      string
	HotKeyShare float64
}

// SplitController splits the partitions whose leaders are on this node. It is safe for concurrent use.
type SplitController struct {
	Options

	lastRound time.Time
	followed  map[topology.PartitionID]*followerState

	mu     sync.Mutex
	states map[topology.PartitionID]*partitionState
}

// partitionState holds the measurements of a partition since this node began to lead the partition with the current
// span.
type partitionState struct {
	member topology.ReplicaID // replica to which the counts belong
	epoch  uint64
	counts partition.Counts
	// ownLoad is the load on this node. followers holds the load that other nodes have reported.
	ownLoad   float64
	followers map[topology.NodeID]followerReport
	// measuredAt is the time of the last size measurement. written and applied are the counters at this time.
	measuredAt       time.Time
	written, applied uint64
	hotTimer         split.HotTimer
	hotspot          split.Hotspot
	// throttled reports whether requests were rejected since the previous round.
	throttled bool
	idle      merge.IdleTracker
	candidate merge.Candidate
	report    PartitionReport
	// loggedReason is the last logged NotSplitReason. loggedAt is the time at which it was logged.
	loggedReason string
	loggedAt     time.Time
	// hotToken is the last logged hot token. hotLoggedAt is the time at which it was logged.
	hotToken    uint64
	hotLoggedAt time.Time
}

// New returns a SplitController. The SplitController is active while Run runs.
func New(o Options) *SplitController {
	return &SplitController{Options: o, states: map[topology.PartitionID]*partitionState{}}
}

// Report returns the measurements of a partition, or the zero PartitionReport if this node does not lead it.
func (w *SplitController) Report(id topology.PartitionID) PartitionReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.states[id]; s != nil {
		return s.report
	}
	return PartitionReport{}
}

// Run checks the partitions every second until ctx ends.
func (w *SplitController) Run(ctx context.Context) {
	for w.Sched.Sleep(ctx, roundInterval) == nil {
		w.round(ctx)
	}
}

// round checks all partitions that this node leads.
func (w *SplitController) round(ctx context.Context) {
	now := w.Sched.Now()
	elapsed := now.Sub(w.lastRound)
	w.lastRound = now
	replicas := slices.Clone(w.Host.Replicas())
	slices.SortFunc(replicas, func(a, b *partition.Replica) int { return cmp.Compare(a.ID(), b.ID()) })
	w.reportFollowerLoad(ctx, replicas, elapsed)
	for _, l := range w.ledPartitions(replicas) {
		if ctx.Err() != nil {
			return
		}
		s := l.state
		if elapsed > 0 && elapsed < 2*measureInterval {
			// The average with the previous load hides a pause of one second.
			w.update(func() {
				s.ownLoad = (s.ownLoad + l.units.Float()/elapsed.Seconds()) / 2
				s.report.Load = s.totalLoad(now)
			})
		}
		w.check(ctx, now, l.replica, s)
	}
}

// ledPartition is a partition that this node leads, with the request units that the partition has used since the
// previous round.
type ledPartition struct {
	replica *partition.Replica
	state   *partitionState
	units   ru.Units
}

// ledPartitions returns the leading replicas that may be split. It deletes the state of all other replicas.
func (w *SplitController) ledPartitions(replicas []*partition.Replica) (out []ledPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := make(map[topology.PartitionID]*partitionState, len(replicas))
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || !r.Leading() {
			continue
		}
		most := w.Limits.SizeLimit(r.Table())
		if most == 0 {
			continue // (GR4)
		}
		c := r.Load().Counts()
		span, epoch := r.Span()
		s := w.states[r.ID()]
		switch {
		case s == nil || s.member != r.Member(): // the counters of the replica start at zero
			s = &partitionState{member: r.Member(), epoch: epoch, counts: c}
		case s.epoch != epoch:
			was := s
			s = &partitionState{member: r.Member(), epoch: epoch, counts: c}
			if place, _, hot := was.hotspot.Hot(); hot && span.Tokens().Contains(token.AtPosition(place)) {
				// A hot key remains hot after a split has moved other keys to another partition.
				s.counts, s.hotspot, s.hotToken, s.hotLoggedAt = was.counts, was.hotspot, was.hotToken, was.hotLoggedAt
				s.ownLoad = was.ownLoad
				s.report = PartitionReport{Load: was.report.Load, HotKey: was.report.HotKey,
					HotKeyShare: was.report.HotKeyShare}
			}
		}
		s.throttled = c.Throttled > s.counts.Throttled
		s.report.SizeLimit = most
		out = append(out, ledPartition{replica: r, state: s, units: c.Units - s.counts.Units})
		s.counts = c
		keep[r.ID()] = s
	}
	w.states = keep
	return out
}

// update calls f with mu held to change measurements that Report returns.
func (w *SplitController) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// check requests a split of a partition if a split is due.
func (w *SplitController) check(ctx context.Context, now time.Time, r *partition.Replica, s *partitionState) {
	p := w.Metadata.State().Topology.Partition(r.ID())
	if p == nil || p.Split != nil || p.Merge != nil || p.Epoch != s.epoch {
		w.update(func() { s.idle, s.candidate = merge.IdleTracker{}, merge.Candidate{} })
		return // the partition is being split or merged, or the metadata lags
	}
	throughput := float64(r.Throughput().PerSecond())
	load := s.report.Load
	tokens := w.sampledTokens(r, s)
	r.Load().SetSampling(w.samplingInterval(load, throughput, s.throttled))
	hot := s.hotTimer.Due(now, throughput == 0 && split.Exceeds(load, w.LoadLimit))
	s.hotspot.Observe(now, split.Saturated(load, throughput, w.LoadLimit, s.throttled), tokens)
	w.reportHotKey(ctx, now, r, p, s)
	coolingDown := split.CooldownRemaining(p, w.Sched.Wall()) > 0
	var reason string
	full, measured := w.exceedsSizeLimit(now, r, s)
	w.updateCandidate(now, p, s)
	switch {
	case full && (measured || s.report.NotSplitReason == "") && !coolingDown:
		reason = w.splitBySize(ctx, p, s)
	case full && !coolingDown:
		reason = s.report.NotSplitReason // nothing has changed
	}
	if hotToken, _, known := s.hotspot.Hot(); known && !full {
		if at, ok := split.Isolate(p.Span, hotToken, tokens); ok {
			w.requestSplit(ctx, p, at, topology.ByKey)
		}
	} else if at, ok := split.SplitPoint(tokens); ok && hot && !coolingDown && !full {
		w.requestSplit(ctx, p, topology.Position{Ring: at}, topology.ByLoad)
	}
	w.setNotSplitReason(ctx, now, p, s, reason)
}

// samplingInterval returns the number of request units between two samples, or 0 if sampling is disabled. throughput is
// the partition's provisioned throughput. throttled reports whether the partition has just rejected requests.
func (w *SplitController) samplingInterval(load, throughput float64, throttled bool) ru.Units {
	if !split.Exceeds(load, w.loadLimit(throughput)/4) && !throttled {
		return 0
	}
	return unitsPerSample(load)
}

// loadLimit returns the provisioned throughput of a partition, or LoadLimit if it has no provisioned throughput.
func (w *SplitController) loadLimit(throughput float64) float64 {
	if throughput > 0 {
		return throughput
	}
	return w.LoadLimit
}

// unitsPerSample returns the number of request units between two samples that yields samplesPerSecond.
func unitsPerSample(load float64) ru.Units {
	return max(ru.Units(load/samplesPerSecond*float64(ru.Unit)), 1)
}

// reportHotKey publishes the hot logical partition in the report, in the errors of rejected requests, and once a minute
// in the log.
func (w *SplitController) reportHotKey(ctx context.Context, now time.Time, r *partition.Replica, p *topology.Partition,
	s *partitionState) {
	hotToken, share, hot := s.hotspot.Hot()
	if !hot {
		r.Throughput().SetHot("")
		w.update(func() { s.report.HotKey, s.report.HotKeyShare = "", 0 })
		return
	}
	name := s.report.HotKey
	news := name == "" || hotToken != s.hotToken
	if news || now.Sub(s.hotLoggedAt) >= time.Minute {
		name = w.keyName(p.Table, token.AtPosition(hotToken))
		s.hotToken, s.hotLoggedAt = hotToken, now
		w.Log.LogAttrs(ctx, slog.LevelWarn, "hot key", slog.Uint64("partition", uint64(p.ID)),
			slog.String("key", name), slog.Int("percent", int(100*share)), slog.Int("request_units_per_second",
				int(s.report.Load)))
	}
	r.Throughput().SetHot(name)
	w.update(func() { s.report.HotKey, s.report.HotKeyShare = name, share })
}

// exceedsSizeLimit reports whether the partition exceeds 80 % of its size limit. measured reports whether this call has
// measured the size.
func (w *SplitController) exceedsSizeLimit(now time.Time, r *partition.Replica, s *partitionState) (full,
	measured bool) {
	sizeLimit := s.report.SizeLimit
	applied, grown := r.Applied(), s.counts.BytesWritten-s.written
	every := measureInterval
	if applied == s.applied {
		every = idleMeasureInterval
	}
	if w.IdlePeriod > 0 {
		every = min(every, max(w.IdlePeriod, roundInterval))
	}
	if s.measuredAt.IsZero() || grown >= sizeLimit/100 || now.Sub(s.measuredAt) >= every {
		span, _ := r.Span()
		n, err := w.Store.Size(span.Keys(r.Table()), split.SizeThreshold(sizeLimit))
		if err != nil {
			return false, false // the store reports its own failures
		}
		s.measuredAt, s.written, s.applied, measured = now, s.counts.BytesWritten, applied, true
		w.update(func() { s.report.Bytes = n })
	}
	return s.report.Bytes > split.SizeThreshold(sizeLimit), measured
}

// splitBySize requests a split in the middle of the bytes (GR1). If the partition cannot be split, splitBySize returns
// the reason.
func (w *SplitController) splitBySize(ctx context.Context, p *topology.Partition, s *partitionState) (reason string) {
	sizeLimit := s.report.SizeLimit
	h, err := w.Store.FindSplitPoint(p.Span.Keys(p.Table))
	switch {
	case errors.Is(err, storage.ErrOneToken) || err == nil && !split.LargeEnough(h.Left, h.Right, sizeLimit):
		return fmt.Sprintf("its size is %d of %d bytes, and it cannot be split, because one logical partition has "+
			"%d bytes: %s",
			s.report.Bytes, sizeLimit, h.LargestTokenBytes, w.keyName(p.Table, h.LargestToken))
	case err == nil:
		w.requestSplit(ctx, p, h.At, topology.BySize)
	}
	return ""
}

// keyName returns the readable name of the logical partition at a token.
func (w *SplitController) keyName(table uint32, at token.Token) string {
	key, err := w.Store.KeyAt(table, at)
	if err != nil || key == nil {
		return fmt.Sprintf("token %d", at)
	}
	return w.Names.Describe(table, key)
}

// requestSplit records a split request. A later round retries a rejected request.
func (w *SplitController) requestSplit(ctx context.Context, p *topology.Partition, at topology.Position,
	cause topology.Cause) {
	o := split.Request{Table: p.Table, Partition: p.ID, At: at, Cause: cause, Level: w.level()}
	ctx, cancel := w.Sched.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := w.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		now := s.Topology.Partition(p.ID)
		if now == nil || now.Split != nil || now.Epoch != p.Epoch {
			return s, nil // another change was recorded first
		}
		return o.Apply(s, w.Sched.Wall())
	})
	if err == nil {
		w.Log.LogAttrs(ctx, slog.LevelInfo, "split requested", slog.Uint64("partition", uint64(p.ID)),
			slog.String("at", at.String()), slog.String("cause", cause.String()))
		err = w.executeSplits(ctx)
	}
	if err != nil {
		w.Log.LogAttrs(ctx, slog.LevelDebug, "partition not split", slog.Uint64("partition", uint64(p.ID)),
			slog.String("cause", cause.String()), slog.String("error", err.Error()))
	}
}

// setNotSplitReason stores the reason and logs it if it is new or a minute has passed.
func (w *SplitController) setNotSplitReason(ctx context.Context, now time.Time, p *topology.Partition,
	s *partitionState, reason string) {
	w.update(func() { s.report.NotSplitReason = reason })
	if reason == "" || s.loggedReason != "" && now.Sub(s.loggedAt) < time.Minute {
		return
	}
	s.loggedReason, s.loggedAt = reason, now
	w.Log.LogAttrs(ctx, slog.LevelWarn, "partition is not split", slog.Uint64("partition", uint64(p.ID)),
		slog.String("because", reason))
}
