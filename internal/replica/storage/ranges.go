// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// A delete adds its range to the deletions of the partition without reading any data. A read searches these deletions
// for ranges that cover a row. To limit the cost of this search, sweeps move the ranges to separate keys if a partition
// has more than rangesTogether ranges. The moved ranges are disjoint and ordered by their ends, so a read can seek the
// range that covers a row. These sweeps are logged and depend only on the content of the store, so all replicas have
// the same keys.

const (
	// rangesTogether is the maximum number of deleted ranges in the deletions of a partition. It must be the same on
	// all replicas.
	rangesTogether = 32
	// spreadMax is the maximum number of ranges that one sweep moves to separate keys, and the maximum number of
	// existing ranges that it replaces. It must be the same on all replicas.
	spreadMax = 4096
	// pilesMax is the maximum number of partitions in rangeCounts.
	pilesMax = 4096
)

// cover finds the deleted range with a separate key that covers a row. It caches the result of the last seek for an
// interval of rows.
type cover struct {
	prefix []byte
	// [from, to) is the cached interval. If open is set, the interval has no end. deleted is the timestamp of the range
	// that covers the interval, or row.NotDeleted if no range covers it.
	from, to    []byte
	known, open bool
	deleted     int64
	buf, seek   []byte
}

// begin makes a partition the current partition.
func (c *cover) begin(prefix []byte) {
	c.prefix, c.known, c.deleted = append(c.prefix[:0], prefix...), false, row.NotDeleted
}

func (c *cover) knows(clustering []byte) bool {
	return c.known && bytes.Compare(c.from, clustering) <= 0 && (c.open || bytes.Compare(clustering, c.to) < 0)
}

// target returns the lower bound of the keys of all ranges that end after a clustering key.
func (c *cover) target(clustering []byte) []byte {
	c.seek = append(append(c.seek[:0], c.prefix...), keys.Range, 0)
	c.seek = append(append(c.seek, clustering...), 0)
	return c.seek
}

// isRange reports whether the iterator is at a range of the partition.
func (c *cover) isRange(it *pebble.Iterator) bool {
	return it.Valid() && len(it.Key()) > len(c.prefix)+1 && it.Key()[len(c.prefix)] == keys.Range &&
		bytes.HasPrefix(it.Key(), c.prefix)
}

// take caches the interval that contains a clustering key. The iterator must be positioned at the result of target for
// this key.
func (c *cover) take(it *pebble.Iterator, clustering []byte) error {
	c.known, c.open, c.deleted = true, true, row.NotDeleted
	if !c.isRange(it) {
		c.from = append(c.from[:0], clustering...)
		return it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	c.buf = append(c.buf[:0], value...)
	var r row.Range
	if err := r.Resolve(c.buf); err != nil {
		return err
	}
	if bytes.Compare(r.Start, clustering) > 0 {
		c.from, c.to, c.open = append(c.from[:0], clustering...), append(c.to[:0], r.Start...), false
		return nil
	}
	c.from, c.to, c.open, c.deleted = append(c.from[:0], r.Start...), append(c.to[:0], r.End...), r.End == nil,
		r.Timestamp
	return nil
}

// find caches the interval that contains a clustering key. back indicates that the caller will look up smaller keys
// next.
func (c *cover) find(it *pebble.Iterator, clustering []byte, back bool) error {
	it.SeekGE(c.target(clustering))
	if err := c.take(it, clustering); err != nil || !back || c.deleted != row.NotDeleted {
		return err
	}
	c.from = c.from[:0]
	if it.Prev(); c.isRange(it) {
		c.from = append(c.from, it.Key()[len(c.prefix)+2:]...)
	}
	return it.Error()
}

// rangeBounds returns the bounds of the deleted ranges of a partition that have separate keys.
func rangeBounds(prefix []byte) (lower, upper []byte) {
	return append(bytes.Clone(prefix), keys.Range), append(bytes.Clone(prefix), keys.Static)
}

// spread moves ranges to separate keys. The ranges must be disjoint and ascending. The moved ranges replace the
// existing ranges that they overlap. spread returns the ranges that exceed the limits of this sweep.
func (w *sweep) spread(b *pebble.Batch, prefix []byte, ranges []row.Range) (rest []row.Range, err error) {
	lower, upper := rangeBounds(prefix)
	it, err := w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	sp := spreading{it: it, c: cover{prefix: prefix}}
	rest, err = sp.collect(ranges)
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return nil, err
	}
	w.spreadOut[string(prefix)] = true
	return rest, sp.write(b, prefix)
}

// spreading is a spread in progress.
type spreading struct {
	it *pebble.Iterator
	c  cover
	// take contains the ranges to spread, and old contains the ranges that they overlap.
	take, old []row.Range
}

// collect fills take and old, up to spreadMax of each, and returns the remaining ranges.
func (sp *spreading) collect(ranges []row.Range) (rest []row.Range, err error) {
	for i, r := range ranges {
		if i == spreadMax {
			return ranges[i:], nil
		}
		if n := len(sp.old); n == 0 || sp.old[n-1].End != nil && bytes.Compare(sp.old[n-1].End, r.Start) <= 0 {
			sp.it.SeekGE(sp.c.target(r.Start))
		} // otherwise, r is after the last overlapping range of old
		for ; sp.it.Valid(); sp.it.Next() {
			var f row.Range
			value, err := sp.it.ValueAndErr()
			if err == nil {
				err = f.Resolve(bytes.Clone(value))
			}
			if err != nil {
				return nil, err
			}
			if r.End != nil && bytes.Compare(f.Start, r.End) >= 0 {
				break
			}
			if len(sp.old) < spreadMax {
				sp.old = append(sp.old, f)
				continue
			}
			rest = append(rest, ranges[i:]...)
			if bytes.Compare(f.Start, r.Start) > 0 {
				rest[0].Start, r.End = f.Start, f.Start
				sp.take = append(sp.take, r)
			}
			return rest, nil
		}
		sp.take = append(sp.take, r)
	}
	return nil, nil
}

// write replaces old with the union of old and take.
func (sp *spreading) write(b *pebble.Batch, prefix []byte) error {
	same := func(a, b *row.Range) bool {
		return bytes.Equal(a.Start, b.Start) && a.Timestamp == b.Timestamp && a.At == b.At
	}
	key := func(r *row.Range) []byte { return keys.AppendRangeEnd(bytes.Clone(prefix), r.End) }
	old := map[string]*row.Range{}
	for i := range sp.old {
		old[string(key(&sp.old[i]))] = &sp.old[i]
	}
	for _, r := range row.Normalize(append(sp.take, sp.old...)) {
		k := key(&r)
		was := old[string(k)]
		delete(old, string(k))
		if was != nil && same(was, &r) {
			continue
		}
		if err := b.Set(k, r.AppendRange(nil), nil); err != nil {
			return err
		}
		noteIn(b, keys.SweepRows, r.At+dueSeconds, k)
	}
	for i := range sp.old { // the order must be the same on all replicas
		if k := key(&sp.old[i]); old[string(k)] != nil {
			if err := b.Delete(k, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletions sweeps the deletions of a partition. It drops old deletions that hide no data. If the partition has too
// many ranges, it moves ranges to separate keys.
func (w *sweep) deletions(b *pebble.Batch, key, value []byte, p *keys.Parts) error {
	prefix := key[:p.PrefixLen]
	if err := w.merger.Add(value); err != nil {
		return fmt.Errorf("key %x: %w", key, err)
	}
	remains := w.merger.SweepDeletions(w.sw.Horizon, w.isClean(prefix))
	ranges := w.merger.Ranges()
	switch {
	case len(ranges) > w.s.together:
		rest, err := w.spread(b, prefix, ranges)
		if err != nil {
			return err
		}
		w.s.rangeCounts.note(prefix, len(rest))
		remains = w.merger.SetRanges(rest, true)
	case w.merger.HasMoreRanges():
		some, err := w.hasRanges(prefix)
		if err != nil {
			return err
		}
		remains = w.merger.SetRanges(ranges, some)
	}
	return w.put(b, key, value, remains)
}

// hasRanges reports whether a partition has deleted ranges with separate keys.
func (w *sweep) hasRanges(prefix []byte) (bool, error) {
	lower, upper := rangeBounds(prefix)
	it, err := w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	some := it.First()
	return some, errors.Join(it.Error(), it.Close())
}

// rangeCounts tracks the partitions with many new deleted ranges for the leader's sweeper.
type rangeCounts struct {
	together int
	mu       sync.Mutex
	counts   map[string]int
	// wake is signaled when a partition has too many ranges.
	wake chan struct{}
}

func (p *rangeCounts) init(together int) {
	p.together, p.counts, p.wake = together, map[string]int{}, make(chan struct{}, 1)
}

// note counts new deleted ranges of a partition.
func (p *rangeCounts) note(prefix []byte, n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.counts[string(prefix)]; !ok && len(p.counts) >= pilesMax {
		for victim := range p.counts { // a round of the sweeper finds the ranges of the dropped partition later
			delete(p.counts, victim)
			break
		}
	}
	p.counts[string(prefix)] += n
	if p.counts[string(prefix)] > p.together {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// due removes and returns the partitions of a span that have too many ranges.
func (p *rangeCounts) due(span keys.Span) (prefixes [][]byte) {
	lower, upper := span.Bounds()
	p.mu.Lock()
	defer p.mu.Unlock()
	for prefix, n := range p.counts {
		if n > p.together && string(lower) <= prefix && prefix < string(upper) {
			prefixes = append(prefixes, []byte(prefix))
			delete(p.counts, prefix)
		}
	}
	return prefixes
}
