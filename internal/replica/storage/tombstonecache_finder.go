// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// touch is the effect of a batch on one row or on the deletions of a partition.
type touch struct {
	prefix     []byte // prefix of the partition
	clustering []byte
	operand    []byte // operand of the deletions, or nil
	live       bool
}

// announce updates the tombstone cache before a batch is committed. The caller must hold commitMu.
func (b *Batch) announce() {
	d := &b.s.tombstones
	for i := range b.touched {
		t := &b.touched[i]
		switch {
		case t.operand != nil:
			ranges := row.Deletes(t.operand, func(start []byte) { d.hints.add(t.prefix, start, 0, false, true) })
			b.s.rangeCounts.note(t.prefix, ranges)
		case !t.live:
			d.hints.add(t.prefix, t.clustering, 0, false, false)
		case d.active.Load() != 0:
			if d.written(t.prefix, t.clustering) {
				b.Delete(keys.TombstoneCacheID, t.prefix)
			}
		}
	}
}

// runHints collects positions at which the runFinder may find runs of dead rows.
type runHints struct {
	mu sync.Mutex
	on bool
	// every and dueAt are hintEvery and hintDueAt, except in tests.
	every, dueAt int
	byPartition  map[string]*runHint
	// following reports whether the runFinder is processing the hints from the last call of take.
	following bool
	wake      chan struct{}
}

// runHint holds the hints of one partition.
type runHint struct {
	count int
	due   bool
	now   int64
	keys  [][]byte
	// low is the lowest key. The runFinder uses it to find the head of a queue if it lags behind.
	low  []byte
	back []byte
}

const (
	hintsMax   = 256 // maximum number of partitions
	hintKeys   = 32  // maximum number of keys per partition
	hintEvery  = 16  // hints are kept for one of hintEvery deleted keys
	hintDueAt  = hintKeys * hintEvery
	hintBytes  = 4096 // longer keys are ignored
	learnMaxOf = 1 << 22
)

func (h *runHints) init(on bool) {
	h.on, h.every, h.dueAt = on, hintEvery, hintDueAt
	h.byPartition, h.wake = map[string]*runHint{}, make(chan struct{}, 1)
}

// add records a key at which data was deleted or at which a scan stepped over dead rows. If due is true, the runFinder
// searches immediately instead of after some hundred keys.
func (h *runHints) add(prefix, key []byte, now int64, back, due bool) {
	if !h.on || len(prefix)+len(key) > hintBytes {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.byPartition[string(prefix)]
	if p == nil {
		if len(h.byPartition) >= hintsMax {
			for victim, v := range h.byPartition { // drop any partition that is not due
				if !v.due {
					delete(h.byPartition, victim)
					break
				}
			}
			if len(h.byPartition) >= hintsMax {
				return
			}
		}
		p = &runHint{}
		h.byPartition[string(prefix)] = p
	}
	p.now = max(p.now, now)
	switch {
	case back:
		p.back = bytes.Clone(key)
	case due || p.count%h.every == 0:
		if len(p.keys) < hintKeys {
			p.keys = append(p.keys, bytes.Clone(key))
		} else {
			p.keys[p.count/h.every%hintKeys] = bytes.Clone(key)
		}
	}
	if !back && (p.low == nil || bytes.Compare(key, p.low) < 0) {
		p.low = bytes.Clone(key)
	}
	p.count++
	if due || p.count >= h.dueAt {
		p.due = true
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// take removes and returns the hints of a partition whose hints are due. prefix is nil if no hints are due.
func (h *runHints) take() (prefix []byte, p *runHint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.following = false
	for name, p := range h.byPartition {
		if p.due {
			delete(h.byPartition, name)
			h.following = true
			return []byte(name), p
		}
	}
	return nil, nil
}

// runFinder finds runs of dead rows, and stores long runs on disk.
type runFinder struct {
	*engine
	*rows
	*Records
}

// loop processes hints. It is idle for at least half of the time.
func (s *runFinder) loop() {
	for {
		select {
		case <-s.closing:
			return
		case <-s.tombstones.hints.wake:
		}
		for {
			prefix, p := s.tombstones.hints.take()
			if p == nil {
				break
			}
			begun := time.Now()
			s.follow(prefix, p)
			select {
			case <-s.closing:
				return
			case <-time.After(time.Since(begun)):
			}
		}
	}
}

// follow searches for runs at the hints of a partition.
func (s *runFinder) follow(prefix []byte, p *runHint) {
	if p.back != nil {
		s.findRun(prefix, p.back, p.now, true)
	}
	if p.low != nil {
		p.keys = append(p.keys, p.low)
	}
	slices.SortFunc(p.keys, bytes.Compare)
	for _, key := range p.keys {
		if before, ok := s.tombstones.nearest(prefix, key); ok && before != nil {
			s.findRun(prefix, before, p.now, false) // a known run may have grown
		}
		if before, _ := s.tombstones.nearest(prefix, key); before != nil || !s.tombstones.known(prefix, key) {
			s.findRun(prefix, key, p.now, false)
		}
	}
}

// known reports whether a key is in a run.
func (d *tombstoneCache) known(prefix, key []byte) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.runs[string(prefix)], func(r tombstoneRun) bool { return r.covers(key) })
}

// nearest returns the end of the last known run that ends at or before a key.
func (d *tombstoneCache) nearest(prefix, key []byte) (end []byte, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, r := range d.runs[string(prefix)] {
		if r.covers(key) {
			return nil, false
		}
		if r.end != nil && bytes.Compare(r.end, key) <= 0 {
			end, ok = r.end, true
		}
	}
	return end, ok
}

// findRun searches for dead rows from a key, forward or backward. It installs the run if the run is long enough.
func (s *runFinder) findRun(prefix, from []byte, now int64, back bool) {
	d := &s.tombstones
	s.commitMu.Lock() // required by rule 2 of tombstoneCache
	ok := d.begin(&pendingRun{prefix: prefix, from: from, back: back})
	s.commitMu.Unlock()
	if !ok {
		return
	}
	run, rows, err := s.walkRun(prefix, from, now, back)
	if err != nil || rows == 0 || rows < d.rowsMin && !d.adjoins(prefix, &run) {
		d.cancel()
		_ = s.check(err)
		return
	}
	run.rows = rows
	d.install(run)
	s.m.tombstoneRuns.Add(1)
	_ = s.check(s.saveRuns(prefix))
}

// adjoins reports whether a run touches a known run.
func (d *tombstoneCache) adjoins(prefix []byte, run *tombstoneRun) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.runs[string(prefix)], func(r tombstoneRun) bool { return touches(&r, run) })
}

// walkRun scans dead rows from a key to the first live row. It skips known runs.
func (s *runFinder) walkRun(prefix, from []byte, now int64, back bool) (run tombstoneRun, rows int, err error) {
	version := s.tombstones.version.Load()
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: append(bytes.Clone(prefix), keys.Deletions), UpperBound: append(bytes.Clone(prefix), keys.Dedupe),
	})
	if err != nil {
		return run, 0, err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	w := runWalker{it: it, prefix: prefix, now: now, known: s.tombstones.find(prefix, version, now),
		expired: s.lookupTable(keys.ID(prefix)).expired(now - entryGrace)}
	if err := w.loadHeader(); err != nil {
		return run, 0, err
	}
	if w.header.MoreRanges {
		if w.apart, err = it.Clone(pebble.CloneOptions{}); err != nil {
			return run, 0, err
		}
		w.cover.begin(prefix)
		defer func() {
			if cerr := w.apart.Close(); err == nil {
				err = cerr
			}
		}()
	}
	if back {
		return w.back(from, s.closing)
	}
	return w.forward(from, s.closing)
}

// runWalker is the scan of the runFinder.
type runWalker struct {
	it     *pebble.Iterator
	prefix []byte
	now    int64
	known  []tombstoneRun
	header row.Header
	// apart is the iterator over the deleted ranges with separate keys, or nil.
	apart *pebble.Iterator
	cover cover
	r     row.Row
	seek  []byte
	asOf  int64
	// expired determines which rows have expired.
	expired row.Expired
}

func (w *runWalker) loadHeader() error {
	key := append(bytes.Clone(w.prefix), keys.Deletions)
	w.header.Clear()
	if !w.it.SeekGE(key) || !bytes.Equal(w.it.Key(), key) {
		return w.it.Error()
	}
	value, err := w.it.ValueAndErr()
	if err != nil {
		return err
	}
	return w.header.Resolve(bytes.Clone(value), 0, nil)
}

// rowKey returns the key of a row.
func (w *runWalker) rowKey(clustering []byte) []byte {
	w.seek = append(append(append(w.seek[:0], w.prefix...), keys.Row), clustering...)
	return w.seek
}

// dead reports whether the row at the iterator is dead. It also records whether the row has expired.
func (w *runWalker) dead(clustering []byte, back bool) (bool, error) {
	value, err := w.it.ValueAndErr()
	if err != nil {
		return false, err
	}
	deleted := w.header.Covering(clustering)
	if w.apart != nil {
		if !w.cover.knows(clustering) {
			if err := w.cover.find(w.apart, clustering, back); err != nil {
				return false, err
			}
		}
		deleted = max(deleted, w.cover.deleted)
	}
	if live, err := w.r.Resolve(value, deleted, 0, nil); err != nil || !live {
		return !live, err
	}
	if w.now == 0 {
		return false, nil
	}
	live, err := w.r.Resolve(value, w.expired.Covering(value, deleted), w.now, nil)
	if !live {
		w.asOf = w.now
	}
	return !live, err
}

func (w *runWalker) forward(from []byte, closing <-chan struct{}) (run tombstoneRun, rows int, err error) {
	run.start = bytes.Clone(from)
	base := len(w.prefix) + 1
	for valid := w.it.SeekGE(w.rowKey(from)); valid && rows < learnMaxOf && !closed(closing, rows); rows++ {
		clustering := w.it.Key()[base:]
		w.known = runsAfter(w.known, clustering)
		if len(w.known) > 0 && w.known[0].covers(clustering) {
			w.asOf = max(w.asOf, w.known[0].asOf)
			if w.known[0].end == nil {
				break
			}
			valid = w.it.SeekGE(w.rowKey(w.known[0].end))
			continue
		}
		dead, err := w.dead(clustering, false)
		if err != nil {
			return run, 0, err
		}
		if !dead {
			run.end = bytes.Clone(clustering)
			break
		}
		valid = w.it.Next()
	}
	if w.it.Valid() && run.end == nil && (len(w.known) == 0 || w.known[0].end != nil) {
		run.end = bytes.Clone(w.it.Key()[base:]) // the scan stopped at its limit
	}
	run.asOf = w.asOf
	return run, rows, w.it.Error()
}

func (w *runWalker) back(from []byte, closing <-chan struct{}) (run tombstoneRun, rows int, err error) {
	base := len(w.prefix) + 1
	run.end = append(bytes.Clone(from), 0)
	lower := w.rowKey(nil)
	run.start = []byte{}
	for valid := w.it.SeekLT(w.rowKey(run.end)); valid && bytes.Compare(w.it.Key(), lower) >= 0; valid = w.it.Prev() {
		clustering := w.it.Key()[base:]
		dead, err := w.dead(clustering, true)
		if err != nil {
			return run, 0, err
		}
		if rows++; !dead || rows >= learnMaxOf || closed(closing, rows) {
			run.start = append(bytes.Clone(clustering), 0)
			break
		}
	}
	run.asOf = w.asOf
	return run, rows, w.it.Error()
}

// closed checks at intervals whether the store is being closed.
func closed(closing <-chan struct{}, rows int) bool {
	if rows%contextEvery != 0 {
		return false
	}
	select {
	case <-closing:
		return true
	default:
		return false
	}
}
