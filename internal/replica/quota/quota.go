// SPDX-License-Identifier: Apache-2.0

// Package quota finds logical partitions that become large, has them told of, and those that have all that they may be
// refused what adds to them.
//
// Writes read nothing, so they do not know how large a logical partition is. The leader samples one write for each
// 64 KiB: what was caught twice is weighed, and again whenever what was sampled since may have brought it to the next
// mark. From a twentieth of the limit on every write to it is counted.
//
// Guarantees: (LQ1) a logical partition is refused what adds to it between its limit and 2 % above, and deletes and
// reads go on; (LQ2) one that was emptied is written again
// without an order; (LQ3) weighing takes one tenth of one processor at most, and half of one where something may have
// come to its limit. Nothing is remembered: a new leader finds out anew,
// which takes some hundred KiB of writes. Start at Quota.Run.
package quota

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// pause is the least time between two looks, fullEvery the time between two when nobody writes: a partition that is
	// full may have been emptied.
	pause     = 5 * time.Millisecond
	fullEvery = time.Second
	// expiryMax is how old the weight of a full one may get where nothing is applied: rows expire.
	expiryMax = 10 * time.Second
	// restShare is how many times as long as weighing took nothing is weighed after it that is not urgent (LQ3).
	restShare = 9
	// talliesMax bounds the logical partitions of a replica that are followed.
	talliesMax = 1024
	// readMax bounds the bytes of a logical partition that are read to weigh it.
	readMax = 64 << 20
	// watchPart and softPart are the parts of the limit, in percent, from which on a logical partition is watched, and
	// told of.
	watchPart = 5
	softPart  = 80
)

// Limits are what logical partitions may have.
type Limits struct {
	// Bytes is what none may exceed, 0 if all may.
	Bytes int64
	// Large are the sizes that are told of, ascending, Values the number of values.
	Large  []int64
	Values int64
}

// Options are the parts of a Quota.
type Options struct {
	Limits
	// Host has the replicas of the node.
	Host *partition.Host
	// Weigh is storage.Statistics.Weigh.
	Weigh func(ctx context.Context, table uint32, at token.Token, now, most int64) (storage.Weight, error)
	// Users reports whether a table is one of users.
	Users func(table uint32) bool
	// Name is a logical partition in words, Now the second at which expiry is judged.
	Name func(table uint32, key []byte) string
	Now  func() int64
	Log  *slog.Logger
}

// Quota watches the logical partitions that this node leads.
type Quota struct {
	Options
	// replicas are those that lead, by partition. They are the loop's.
	replicas map[topology.PartitionID]*followed
	// urgent says that it should rest, and weighs nothing but what may come to its limit.
	urgent bool
	// large are those that are large, in words; nil if none is. The map is never changed, only replaced.
	large atomic.Pointer[map[place]string]
}

type place struct {
	table uint32
	at    token.Token
}

// followed is what is known of a replica's logical partitions.
type followed struct {
	epoch   uint64
	from    uint64
	tallies map[token.Token]*tally
}

// tally is what is known of a logical partition.
type tally struct {
	// samples were taken since it was weighed last, at bytes; next is the mark that it may have come to.
	samples     int64
	bytes, next int64
	weighed     bool
	near        *partition.Near
	told        string
	// applied and at are from when it was weighed last.
	applied uint64
	at      time.Time
}

// New makes a quota that watches while Run runs.
func New(o Options) *Quota {
	return &Quota{Options: o, replicas: map[topology.PartitionID]*followed{}}
}

// Large says in words that a logical partition is large, if this node leads it; empty if it is not. It is quick.
func (q *Quota) Large(table uint32, at token.Token) string {
	if large := q.large.Load(); large != nil {
		return (*large)[place{table, at}]
	}
	return ""
}

// Run watches until ctx ends.
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
		case <-q.Host.HeavyWrites():
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

// round looks at all replicas that lead.
func (q *Quota) round(ctx context.Context) {
	here := map[topology.PartitionID]bool{}
	for _, r := range q.Host.Replicas() {
		if r.ID() == topology.MetaPartition || !r.Leading() || !q.Users(r.Table()) {
			continue
		}
		id := r.ID()
		here[id] = true
		_, epoch := r.Span()
		f := q.replicas[id]
		if f == nil || f.epoch != epoch {
			f = &followed{epoch: epoch, tallies: map[token.Token]*tally{}}
			q.replicas[id] = f
			r.SetNear(nil)
		}
		q.look(ctx, r, f)
	}
	for id := range q.replicas {
		if !here[id] {
			if r := q.Host.Replica(id); r != nil {
				r.SetNear(nil) // another node leads
			}
			delete(q.replicas, id)
		}
	}
}

// look weighs what has grown in a replica.
func (q *Quota) look(ctx context.Context, r *partition.Replica, f *followed) {
	f.from = r.Heavy(f.from, func(tok token.Token) {
		t := f.tallies[tok]
		if t == nil {
			f.room()
			t = new(tally)
			f.tallies[tok] = t
		}
		t.samples++
	})
	changed := false
	for tok, t := range f.tallies {
		if ctx.Err() != nil {
			return
		}
		if !q.due(r, t) {
			continue
		}
		was := t.near
		t.applied, t.at = r.Applied(), time.Now()
		if err := q.weigh(ctx, r.Table(), tok, t); err != nil {
			return // the store says of itself what is wrong with it
		}
		changed = changed || was != t.near
	}
	if !changed {
		return
	}
	var near []*partition.Near
	for _, t := range f.tallies {
		if t.near != nil {
			near = append(near, t.near)
		}
	}
	r.SetNear(near)
}

// due reports whether a logical partition may have come to its next mark, or left its limit.
func (q *Quota) due(r *partition.Replica, t *tally) bool {
	most := t.bytes + t.samples*partition.HeavyBytes
	switch {
	case t.near != nil && t.near.Full():
		return !q.urgent && (r.Applied() != t.applied || time.Since(t.at) > expiryMax)
	case t.near != nil && t.near.Bytes() > t.near.Limit:
		return true
	case t.weighed && t.near == nil && q.Bytes > 0 && most >= q.Bytes/100*watchPart:
		return true
	case q.urgent:
		return false
	case !t.weighed:
		return t.samples >= 2
	}
	return t.samples > 0 && most >= t.next
}

// room forgets what was caught once, where there are too many.
func (f *followed) room() {
	if len(f.tallies) < talliesMax {
		return
	}
	for tok, t := range f.tallies {
		if t.near == nil {
			delete(f.tallies, tok)
		}
	}
}

// weigh weighs a logical partition, tells if it has become large, and has it watched if it comes near its limit.
func (q *Quota) weigh(ctx context.Context, table uint32, tok token.Token, t *tally) error {
	var since int64
	if t.near != nil {
		since = t.near.Bytes()
	}
	w, err := q.Weigh(ctx, table, tok, q.Now(), readMax)
	if err != nil {
		return err
	}
	t.weighed, t.samples, t.bytes = true, 0, w.Bytes
	t.next = q.mark(w.Bytes)
	watch := q.Bytes / 100 * watchPart
	switch {
	case t.near != nil && w.Bytes < watch:
		t.near = nil
	case t.near != nil:
		t.near.Measured(w.Bytes, since)
	case q.Bytes > 0 && w.Bytes >= watch:
		t.near = &partition.Near{Token: tok, Name: q.Name(table, w.Key), Limit: q.Bytes}
		t.near.Measured(w.Bytes, 0)
	}
	q.tell(ctx, table, tok, t, &w)
	return nil
}

// mark is the size at which a logical partition of so many bytes is weighed again: the next power of two from 1 MiB on,
// or a limit on the way there.
func (q *Quota) mark(bytes int64) int64 {
	next := int64(1 << 20)
	for next <= bytes {
		next *= 2
	}
	for _, m := range append(slices.Clone(q.Limits.Large), q.Bytes/100*watchPart) {
		if m > bytes {
			next = min(next, m)
		}
	}
	if soft := q.Bytes / 100 * softPart; soft > bytes {
		next = min(next, soft)
	}
	return next
}

// tell logs that a logical partition has become larger than it should be, once for each size.
func (q *Quota) tell(ctx context.Context, table uint32, tok token.Token, t *tally, w *storage.Weight) {
	over, limit, what := "", int64(0), ""
	for _, m := range q.Limits.Large {
		if w.Bytes >= m {
			over, limit, what = fmt.Sprint(m), m, "bytes"
		}
	}
	if w.Values >= q.Values && q.Values > 0 {
		over, limit, what = over+" values", q.Values, "values"
	}
	if q.Bytes > 0 && w.Bytes >= q.Bytes/100*softPart {
		over, limit, what = "near", q.Bytes/100*softPart, "bytes"
	}
	if t.near != nil && t.near.Full() {
		over, limit, what = "full", q.Bytes, "bytes"
	}
	if over == t.told {
		return
	}
	t.told = over
	text := ""
	if over != "" {
		text = fmt.Sprintf("The logical partition %s has %d bytes and %d values, which exceeds %d %s",
			q.Name(table, w.Key), w.Bytes, w.Values, limit, what)
		q.Log.LogAttrs(ctx, slog.LevelWarn, "logical partition is large", slog.String("key", q.Name(table, w.Key)),
			slog.Int64("bytes", w.Bytes), slog.Int64("values", w.Values), slog.Int64("limit", limit),
			slog.Bool("refused", over == "full"))
	}
	large := map[place]string{}
	if old := q.large.Load(); old != nil {
		large = maps.Clone(*old)
	}
	if delete(large, place{table, tok}); text != "" && len(large) < talliesMax {
		large[place{table, tok}] = text
	}
	q.large.Store(&large)
}
