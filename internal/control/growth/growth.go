// SPDX-License-Identifier: Apache-2.0

// Package growth has partitions split and merge by themselves: the leader of each looks how large it is and how much is
// asked of it, and orders a split through the records, as an operator would. Of those that are far below that it tells
// the node that leads the meta partition, whose Merger orders merges.
//
// Guarantees: (GR1) a partition above 80 % of its cap is split in the middle of its bytes; (GR2) one whose load is
// above its limits for ten seconds is split where a quarter of the load, or more, is on each side; (GR3) where that
// cannot be, the logical partition that is in the way is named; one that has most of what a saturated partition takes
// is named within five seconds, and its siblings are moved away by splits on both sides; (GR4) tables of the system are
// left alone; (GR5) neighbours that have been quiet for long are merged, as control/merge says. When a split is due is
// decided by control/split, whose bounds hold here, too: nothing is ordered twice within a minute, and few at once.
// Nothing is remembered: after a crash, and on another leader, everything is measured anew. Start at Watch.round and
// Merger.round.
package growth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

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
	// lookEvery is the pause between two looks at all partitions.
	lookEvery = time.Second
	// weighEvery is how often a partition is weighed again that has changed; one that has grown by a hundredth of its
	// cap is at the next look. One that has not changed may shrink nevertheless, by compactions: it is weighed again
	// after idleEvery.
	weighEvery = 15 * time.Second
	idleEvery  = time.Minute
	// samplesPerSecond is how many samples are taken of what a busy partition is asked for.
	samplesPerSecond = 128
	// orderMax bounds the wait for an order to be recorded.
	orderMax = 10 * time.Second
)

// Store is what partitions are weighed with: *storage.Statistics.
type Store interface {
	Size(span keys.Span, enough uint64) (uint64, error)
	FindSplitPoint(span keys.Span) (storage.SplitPoint, error)
	KeyAt(table uint32, at token.Token) ([]byte, error)
}

// Options are the parts and limits of a Watch. All but Sched are needed.
type Options struct {
	Records *meta.Keeper
	// Replicas are those of this node.
	Replicas func() []*partition.Replica
	Store    Store
	// Cap is how many bytes a partition of a table may have on disk; 0 for a table that is never split.
	Cap func(table uint32) uint64
	// Limit is the load above which a partition is split, in request units a second; 0 if none is split by load.
	Limit float64
	// QuietFor is how long partitions must have been quiet to be merged, 0 if none are.
	QuietFor time.Duration
	// Name is a logical partition in words.
	Name func(table uint32, key []byte) string
	// Tell, if not nil, sends what this node serves of partitions to the node that leads them, whose Hear takes it in.
	// It does not wait for long.
	Tell func(ctx context.Context, to topology.NodeID, what []byte)
	// Alone, if not nil, carries out what was ordered, on a node that stands alone; Level is its feature level.
	Alone func(ctx context.Context) error
	Level func() feature.Level
	Log   *slog.Logger
	// Sched is what the watch tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Report is what is known of a partition that is led here.
type Report struct {
	// Bytes is its size when it was last weighed, Cap what it may have.
	Bytes, Cap uint64
	// Load is that of the last seconds, in request units a second, with what followers serve.
	Load float64
	// Stuck says, in words, why it is not split although it should be; empty if nothing is in the way.
	Stuck string
	// Hot is the logical partition that has most of what a saturated partition takes, in words, and HotShare the part
	// of it, 0 to 1; empty if there is none.
	Hot      string
	HotShare float64
}

// Watch looks at the partitions that this node leads. Its methods may be used concurrently.
type Watch struct {
	Options

	last     time.Time
	followed map[topology.PartitionID]*followed

	mu   sync.Mutex
	seen map[topology.PartitionID]*seen
}

// seen is what was found out about a partition since it is led here, with this span.
type seen struct {
	member topology.ReplicaID // whose counts these are
	epoch  uint64
	counts partition.Counts
	// own is the load at this node, aside what others told that they serve.
	own   float64
	aside map[topology.NodeID]heard
	// weighed is when it was weighed last, at a time when written bytes had been written and applied was applied.
	weighed          time.Time
	written, applied uint64
	heat             split.Heat
	hotspot          split.Hotspot
	// refused says that requests were, since the round before.
	refused bool
	calm    merge.Calm
	quiet   merge.Quiet
	report  Report
	// told is what was logged of it, when.
	told string
	when time.Time
	// hot is the place that was warned of last, when it was.
	hot    uint64
	warned time.Time
}

// New makes a watch that looks while Run runs.
func New(o Options) *Watch { return &Watch{Options: o, seen: map[topology.PartitionID]*seen{}} }

// Of is what is known of a partition; the zero Report if it is not led here.
func (w *Watch) Of(id topology.PartitionID) Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.seen[id]; s != nil {
		return s.report
	}
	return Report{}
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for w.Sched.Sleep(ctx, lookEvery) == nil {
		w.round(ctx)
	}
}

// round looks at all partitions that are led here.
func (w *Watch) round(ctx context.Context) {
	now := w.Sched.Now()
	passed := now.Sub(w.last)
	w.last = now
	replicas := slices.Clone(w.Replicas())
	slices.SortFunc(replicas, func(a, b *partition.Replica) int { return cmp.Compare(a.ID(), b.ID()) })
	w.tellLeaders(ctx, replicas, passed)
	for _, l := range w.led(replicas) {
		if ctx.Err() != nil {
			return
		}
		s := l.seen
		if passed > 0 && passed < 2*weighEvery {
			// With what it was before: one second in which a client pauses is no change.
			w.note(func() {
				s.own = (s.own + l.units.Float()/passed.Seconds()) / 2
				s.report.Load = s.total(now)
			})
		}
		w.look(ctx, now, l.replica, s)
	}
}

// work is what a replica has done since the round before.
type work struct {
	replica *partition.Replica
	seen    *seen
	units   ru.Units
}

// led are the replicas that lead, and may split; what is known of others is forgotten.
func (w *Watch) led(replicas []*partition.Replica) (out []work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keep := make(map[topology.PartitionID]*seen, len(replicas))
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || !r.Leading() {
			continue
		}
		most := w.Cap(r.Table())
		if most == 0 {
			continue // (GR4)
		}
		c := r.Counts()
		span, epoch := r.Span()
		s := w.seen[r.ID()]
		switch {
		case s == nil || s.member != r.Member(): // it counts from nothing
			s = &seen{member: r.Member(), epoch: epoch, counts: c}
		case s.epoch != epoch:
			was := s
			s = &seen{member: r.Member(), epoch: epoch, counts: c}
			if place, _, hot := was.hotspot.Hot(); hot && span.Tokens().Contains(token.AtPosition(place)) {
				// It is hot with fewer siblings, too.
				s.counts, s.hotspot, s.hot, s.warned = was.counts, was.hotspot, was.hot, was.warned
				s.own = was.own
				s.report = Report{Load: was.report.Load, Hot: was.report.Hot, HotShare: was.report.HotShare}
			}
		}
		s.refused = c.Throttled > s.counts.Throttled
		s.report.Cap = most
		out = append(out, work{replica: r, seen: s, units: c.Units - s.counts.Units})
		s.counts = c
		keep[r.ID()] = s
	}
	w.seen = keep
	return out
}

// note changes what Of tells.
func (w *Watch) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// look has a partition split if that is due.
func (w *Watch) look(ctx context.Context, now time.Time, r *partition.Replica, s *seen) {
	p := w.Records.State().Map.Partition(r.ID())
	if p == nil || p.Cut != nil || p.Join != nil || p.Epoch != s.epoch {
		w.note(func() { s.calm, s.quiet = merge.Calm{}, merge.Quiet{} })
		return // it is being split or merged, or the records lag
	}
	given := float64(r.Throughput())
	load := s.report.Load
	places := w.places(r, s)
	r.SetSampling(w.sampling(load, given, s.refused))
	hot := s.heat.Due(now, given == 0 && split.Above(load, w.Limit))
	s.hotspot.Note(now, split.Saturated(load, given, w.Limit, s.refused), places)
	w.warn(ctx, now, r, p, s)
	rests := split.Rests(p, w.Sched.Wall()) > 0
	var stuck string
	full, weighed := w.full(now, r, s)
	w.listen(now, p, s)
	switch {
	case full && (weighed || s.report.Stuck == "") && !rests:
		stuck = w.halve(ctx, p, s)
	case full && !rests:
		stuck = s.report.Stuck // nothing has changed
	}
	if place, _, known := s.hotspot.Hot(); known && !full {
		if at, ok := split.Isolate(p.Span, place, places); ok {
			w.order(ctx, p, at, topology.ByKey)
		}
	} else if at, ok := split.Divide(places); ok && hot && !rests && !full {
		w.order(ctx, p, topology.Position{Ring: at}, topology.ByLoad)
	}
	w.tell(ctx, now, p, s, stuck)
}

// sampling is how many request units there are to each sample of what a partition is asked for, at a load; 0 for none.
// given is its throughput, and refused whether it has just refused requests.
func (w *Watch) sampling(load, given float64, refused bool) ru.Units {
	if !split.Above(load, w.limit(given)/4) && !refused {
		return 0
	}
	return sampleOf(load)
}

// limit is what a partition may take, or above which it is split where that is nothing.
func (w *Watch) limit(given float64) float64 {
	if given > 0 {
		return given
	}
	return w.Limit
}

// sampleOf is how many request units there are to each of samplesPerSecond samples.
func sampleOf(load float64) ru.Units { return max(ru.Units(load/samplesPerSecond*float64(ru.Unit)), 1) }

// warn tells of the logical partition that is hot, if one is: in the report, to clients that are refused because of it,
// and in the log, once a minute.
func (w *Watch) warn(ctx context.Context, now time.Time, r *partition.Replica, p *topology.Partition, s *seen) {
	place, share, known := s.hotspot.Hot()
	if !known {
		r.SetHot("")
		w.note(func() { s.report.Hot, s.report.HotShare = "", 0 })
		return
	}
	name := s.report.Hot
	news := name == "" || place != s.hot
	if news || now.Sub(s.warned) >= time.Minute {
		name = w.name(p.Table, token.AtPosition(place))
		s.hot, s.warned = place, now
		w.Log.LogAttrs(ctx, slog.LevelWarn, "hot key", slog.Uint64("partition", uint64(p.ID)),
			slog.String("key", name), slog.Int("percent", int(100*share)), slog.Int("request_units_per_second",
				int(s.report.Load)))
	}
	r.SetHot(name)
	w.note(func() { s.report.Hot, s.report.HotShare = name, share })
}

// full reports whether a partition has more bytes than it should; weighed says that it was looked at just now.
func (w *Watch) full(now time.Time, r *partition.Replica, s *seen) (full, weighed bool) {
	most := s.report.Cap
	applied, grown := r.Applied(), s.counts.BytesWritten-s.written
	every := weighEvery
	if applied == s.applied {
		every = idleEvery
	}
	if w.QuietFor > 0 {
		every = min(every, max(w.QuietFor, lookEvery))
	}
	if s.weighed.IsZero() || grown >= most/100 || now.Sub(s.weighed) >= every {
		span, _ := r.Span()
		n, err := w.Store.Size(span.Keys(r.Table()), split.Soft(most))
		if err != nil {
			return false, false // the store says of itself what is wrong with it
		}
		s.weighed, s.written, s.applied, weighed = now, s.counts.BytesWritten, applied, true
		w.note(func() { s.report.Bytes = n })
	}
	return s.report.Bytes > split.Soft(most), weighed
}

// halve orders a split in the middle of the bytes, or says why there is none (GR1).
func (w *Watch) halve(ctx context.Context, p *topology.Partition, s *seen) (stuck string) {
	most := s.report.Cap
	h, err := w.Store.FindSplitPoint(p.Span.Keys(p.Table))
	switch {
	case errors.Is(err, storage.ErrOneToken) || err == nil && !split.Worthwhile(h.Left, h.Right, most):
		return fmt.Sprintf("it has %d of %d bytes and cannot be split, because one logical partition has %d of them: %s",
			s.report.Bytes, most, h.LargestTokenBytes, w.name(p.Table, h.LargestToken))
	case err == nil:
		w.order(ctx, p, h.At, topology.BySize)
	}
	return ""
}

// name names the logical partition at a token.
func (w *Watch) name(table uint32, at token.Token) string {
	key, err := w.Store.KeyAt(table, at)
	if err != nil || key == nil {
		return fmt.Sprintf("token %d", at)
	}
	return w.Name(table, key)
}

// order records an order. What is refused is looked at again later.
func (w *Watch) order(ctx context.Context, p *topology.Partition, at topology.Position, cause topology.Cause) {
	o := split.Order{Table: p.Table, Partition: p.ID, At: at, Cause: cause, Level: w.Level()}
	ctx, cancel := w.Sched.WithTimeout(ctx, orderMax)
	defer cancel()
	_, err := w.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		now := s.Map.Partition(p.ID)
		if now == nil || now.Cut != nil || now.Epoch != p.Epoch {
			return s, nil // somebody was faster
		}
		return o.Apply(s, w.Sched.Wall())
	})
	if err == nil {
		w.Log.LogAttrs(ctx, slog.LevelInfo, "split ordered", slog.Uint64("partition", uint64(p.ID)),
			slog.String("at", at.String()), slog.String("cause", cause.String()))
		if w.Alone != nil {
			err = w.Alone(ctx)
		}
	}
	if err != nil {
		w.Log.LogAttrs(ctx, slog.LevelDebug, "partition not split", slog.Uint64("partition", uint64(p.ID)),
			slog.String("cause", cause.String()), slog.String("error", err.Error()))
	}
}

// tell keeps what is in the way of a split, and logs it when it is news, or has been for another minute.
func (w *Watch) tell(ctx context.Context, now time.Time, p *topology.Partition, s *seen, stuck string) {
	w.note(func() { s.report.Stuck = stuck })
	if stuck == "" || s.told != "" && now.Sub(s.when) < time.Minute {
		return
	}
	s.told, s.when = stuck, now
	w.Log.LogAttrs(ctx, slog.LevelWarn, "partition is not split", slog.Uint64("partition", uint64(p.ID)),
		slog.String("because", stuck))
}
