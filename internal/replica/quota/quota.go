// SPDX-License-Identifier: Apache-2.0

// Package quota finds and reports large logical partitions, and makes replicas reject writes to a partition that has
// reached its size limit.
//
// A write reads no data, so it cannot determine the size of a logical partition. The leader samples one write per 64
// KiB written, and measures a partition that has been sampled twice. It measures the partition again if later samples
// indicate that the partition may have reached the next threshold. When a partition has reached a twentieth of the
// limit, the leader counts every write to the partition.
//
// Guarantees:
//
//   - (LQ1) Replicas start to reject writes that add data to a logical partition between the limit and 2 % above the
//     limit. They still accept deletes and reads.
//   - (LQ2) A partition accepts writes again after data has been deleted, without operator action.
//   - (LQ3) Measuring uses up to one tenth of one CPU, or half of one CPU for partitions that may have reached their
//     limit.
//
// The package stores no state on disk, so a new leader starts measuring again. Start reading at Quota.Run.
package quota

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// pause is the minimum time between two rounds. fullEvery is the time between rounds without writes, which detect
	// that a full partition has been emptied.
	pause     = 5 * time.Millisecond
	fullEvery = time.Second
	// expiryMax is the maximum age of the measured size of a full partition if no entry is applied. The limit is
	// necessary because rows expire.
	expiryMax = 10 * time.Second
	// restShare is the duration of the pause after measuring partitions that are not urgent, as a multiple of the
	// measuring time (LQ3).
	restShare = 9
	// trackedMax is the maximum number of tracked logical partitions of a replica.
	trackedMax = 1024
	// readMax is the maximum number of bytes read to measure a logical partition.
	readMax = 64 << 20
	// watchPercent and softPercent are percentages of the limit. At watchPercent, a logical partition is tracked. At
	// softPercent, it is reported.
	watchPercent = 5
	softPercent  = 80
)

// Limits holds the limits of logical partitions.
type Limits struct {
	// Bytes is the maximum size in bytes, or 0 if the size is unlimited.
	Bytes int64
	// Large holds the sizes, in ascending order, at which a logical partition is reported. Values is the number of
	// values at which a logical partition is reported.
	Large  []int64
	Values int64
}

// Options configure a Quota.
type Options struct {
	Limits
	// Host holds the replicas of the node.
	Host  *partition.Host
	Store *storage.Statistics
	// Tables finds user tables. It is a *catalog.Catalog.
	Tables interface {
		UserTable(id uint32) *schema.Table
	}
	// Names returns readable names of logical partitions. It is a stats.KeyNames.
	Names interface {
		Describe(table uint32, key []byte) string
	}
	// Clock determines which data has expired.
	Clock sched.Clock
	Log   *slog.Logger
}

// Quota tracks the logical partitions of the replicas that lead on this node.
type Quota struct {
	Options
	// replicas holds the replicas that lead, by partition. Only Run accesses it.
	replicas map[topology.PartitionID]*replicaState
	// urgent restricts a round to partitions that may have reached their limit, because the pause has not ended.
	urgent bool
	// large holds the readable sizes of large partitions, or nil if no partition is large. The map is immutable.
	large atomic.Pointer[map[partitionKey]string]
}

type partitionKey struct {
	table uint32
	at    token.Token
}

// replicaState holds the tracked logical partitions of a replica.
type replicaState struct {
	epoch      uint64
	from       uint64
	partitions map[token.Token]*trackedPartition
}

// trackedPartition is the state of a tracked logical partition.
type trackedPartition struct {
	// samples is the number of samples since the last measurement. bytes is the result of this measurement. threshold
	// is the next size at which to measure.
	samples          int64
	bytes, threshold int64
	measured         bool
	tracker          *partition.SizeTracker
	reported         string
	// applied and at are the log index and the time of the last measurement.
	applied uint64
	at      time.Time
}

// New returns a Quota that tracks partitions while Run runs.
func New(o Options) *Quota {
	return &Quota{Options: o, replicas: map[topology.PartitionID]*replicaState{}}
}

// Large returns a readable description of the size if a logical partition is large and its leader is on this node.
// Otherwise, it returns an empty string. Large does not measure the partition.
func (q *Quota) Large(table uint32, at token.Token) string {
	if large := q.large.Load(); large != nil {
		return (*large)[partitionKey{table, at}]
	}
	return ""
}

// Run tracks partitions until ctx ends.
func (q *Quota) Run(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	every := time.NewTicker(fullEvery)
	defer every.Stop()
	var rested time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-q.Host.WriteSamplesReady():
		case <-every.C:
		}
		began := time.Now()
		q.urgent = began.Before(rested)
		q.round(ctx)
		took := time.Since(began)
		rest.Reset(max(pause, took))
		if next := began.Add((1 + restShare) * took); next.After(rested) {
			rested = next
		}
	}
}

// round checks all replicas that lead.
func (q *Quota) round(ctx context.Context) {
	here := map[topology.PartitionID]bool{}
	for _, r := range q.Host.Replicas() {
		if r.ID() == topology.MetaPartition || !r.Leading() || q.Tables.UserTable(r.Table()) == nil {
			continue
		}
		id := r.ID()
		here[id] = true
		_, epoch := r.Span()
		f := q.replicas[id]
		if f == nil || f.epoch != epoch {
			f = &replicaState{epoch: epoch, partitions: map[token.Token]*trackedPartition{}}
			q.replicas[id] = f
			r.SizeLimits().Set(nil)
		}
		q.checkReplica(ctx, r, f)
	}
	for id := range q.replicas {
		if !here[id] {
			if r := q.Host.Replica(id); r != nil {
				r.SizeLimits().Set(nil) // another node is the leader
			}
			delete(q.replicas, id)
		}
	}
}

// checkReplica measures the partitions of a replica that have grown.
func (q *Quota) checkReplica(ctx context.Context, r *partition.Replica, f *replicaState) {
	f.from = r.Load().WriteSamples(f.from, func(tok token.Token) {
		t := f.partitions[tok]
		if t == nil {
			f.makeRoom()
			t = new(trackedPartition)
			f.partitions[tok] = t
		}
		t.samples++
	})
	changed := false
	for tok, t := range f.partitions {
		if ctx.Err() != nil {
			return
		}
		if !q.due(r, t) {
			continue
		}
		was := t.tracker
		t.applied, t.at = r.Applied(), time.Now()
		if err := q.measure(ctx, r.Table(), tok, t); err != nil {
			return // the store reports its own errors
		}
		changed = changed || was != t.tracker
	}
	if !changed {
		return
	}
	var near []*partition.SizeTracker
	for _, t := range f.partitions {
		if t.tracker != nil {
			near = append(near, t.tracker)
		}
	}
	r.SizeLimits().Set(near)
}

// due reports whether a logical partition may have reached its next threshold or fallen below its limit.
func (q *Quota) due(r *partition.Replica, t *trackedPartition) bool {
	most := t.bytes + t.samples*partition.WriteSampleBytes
	switch {
	case t.tracker != nil && t.tracker.Full():
		return !q.urgent && (r.Applied() != t.applied || time.Since(t.at) > expiryMax)
	case t.tracker != nil && t.tracker.Bytes() > t.tracker.Limit:
		return true
	case t.measured && t.tracker == nil && q.Bytes > 0 && most >= q.Bytes/100*watchPercent:
		return true
	case q.urgent:
		return false
	case !t.measured:
		return t.samples >= 2
	}
	return t.samples > 0 && most >= t.threshold
}

// makeRoom removes partitions that have been sampled only once if too many partitions are tracked.
func (f *replicaState) makeRoom() {
	if len(f.partitions) < trackedMax {
		return
	}
	for tok, t := range f.partitions {
		if t.tracker == nil {
			delete(f.partitions, tok)
		}
	}
}

// measure measures a logical partition. It reports the partition if it has become large, and tracks it if it is close
// to its limit.
func (q *Quota) measure(ctx context.Context, table uint32, tok token.Token, t *trackedPartition) error {
	var since int64
	if t.tracker != nil {
		since = t.tracker.Bytes()
	}
	w, err := q.Store.MeasurePartition(ctx, table, tok, q.Clock.Wall().Unix(), readMax)
	if err != nil {
		return err
	}
	t.measured, t.samples, t.bytes = true, 0, w.Bytes
	t.threshold = q.nextThreshold(w.Bytes)
	watch := q.Bytes / 100 * watchPercent
	switch {
	case t.tracker != nil && w.Bytes < watch:
		t.tracker = nil
	case t.tracker != nil:
		t.tracker.SetMeasured(w.Bytes, since)
	case q.Bytes > 0 && w.Bytes >= watch:
		t.tracker = &partition.SizeTracker{Token: tok, Name: q.Names.Describe(table, w.Key), Limit: q.Bytes}
		t.tracker.SetMeasured(w.Bytes, 0)
	}
	q.report(ctx, table, tok, t, &w)
	return nil
}

// nextThreshold returns the size at which a partition of the given size is measured again. It is the next power of two
// from 1 MiB, or a lower limit.
func (q *Quota) nextThreshold(bytes int64) int64 {
	next := int64(1 << 20)
	for next <= bytes {
		next *= 2
	}
	for _, m := range append(slices.Clone(q.Limits.Large), q.Bytes/100*watchPercent) {
		if m > bytes {
			next = min(next, m)
		}
	}
	if soft := q.Bytes / 100 * softPercent; soft > bytes {
		next = min(next, soft)
	}
	return next
}

// report logs that a logical partition exceeds a size limit, once for each limit.
func (q *Quota) report(ctx context.Context, table uint32, tok token.Token, t *trackedPartition,
	w *storage.PartitionSize) {
	over, limit, what := "", int64(0), ""
	for _, m := range q.Limits.Large {
		if w.Bytes >= m {
			over, limit, what = fmt.Sprint(m), m, "bytes"
		}
	}
	if w.Values >= q.Values && q.Values > 0 {
		over, limit, what = over+" values", q.Values, "values"
	}
	if q.Bytes > 0 && w.Bytes >= q.Bytes/100*softPercent {
		over, limit, what = "near", q.Bytes/100*softPercent, "bytes"
	}
	if t.tracker != nil && t.tracker.Full() {
		over, limit, what = "full", q.Bytes, "bytes"
	}
	if over == t.reported {
		return
	}
	t.reported = over
	text := ""
	if over != "" {
		text = fmt.Sprintf("The logical partition %s has %d bytes and %d values, which exceeds the limit of %d %s",
			q.Names.Describe(table, w.Key), w.Bytes, w.Values, limit, what)
		q.Log.LogAttrs(ctx, slog.LevelWarn, "logical partition is large", slog.String("key", q.Names.Describe(table,
			w.Key)),
			slog.Int64("bytes", w.Bytes), slog.Int64("values", w.Values), slog.Int64("limit", limit),
			slog.Bool("refused", over == "full"))
	}
	large := map[partitionKey]string{}
	if old := q.large.Load(); old != nil {
		large = maps.Clone(*old)
	}
	if delete(large, partitionKey{table, tok}); text != "" && len(large) < trackedMax {
		large[partitionKey{table, tok}] = text
	}
	q.large.Store(&large)
}
