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

// touch is what a batch does to one row, or to the deletions of a partition.
type touch struct {
	prefix     []byte // of the partition
	clustering []byte
	operand    []byte // of deletions, else nil
	live       bool
}

// announce tells the dead runs what is about to be committed. The gate is held.
func (b *Batch) announce() {
	d := &b.s.dead
	for i := range b.touched {
		t := &b.touched[i]
		switch {
		case t.operand != nil:
			ranges := row.Deletes(t.operand, func(start []byte) { d.hints.add(t.prefix, start, 0, false, true) })
			b.s.piles.note(t.prefix, ranges)
		case !t.live:
			d.hints.add(t.prefix, t.clustering, 0, false, false)
		case d.active.Load() != 0:
			if d.written(t.prefix, t.clustering) {
				b.Delete(keys.TombstoneCacheID, t.prefix)
			}
		}
	}
}

// hints collects where runs of dead rows may be, for the learner.
type hints struct {
	mu sync.Mutex
	on bool
	// every and dueAt are hintEvery and hintDueAt, smaller in tests.
	every, dueAt int
	byPartition  map[string]*hint
	wake         chan struct{}
}

// hint is about one partition.
type hint struct {
	count int
	due   bool
	now   int64
	keys  [][]byte
	// low is the least of all keys; a queue's learner that fell behind finds the head there.
	low  []byte
	back []byte
}

const (
	hintsMax   = 256 // partitions
	hintKeys   = 32  // keys kept of one
	hintEvery  = 16  // one in so many deleted keys is kept
	hintDueAt  = hintKeys * hintEvery
	hintBytes  = 4096 // longer keys are not worth it
	learnMaxOf = 1 << 22
)

func (h *hints) init(on bool) {
	h.on, h.every, h.dueAt = on, hintEvery, hintDueAt
	h.byPartition, h.wake = map[string]*hint{}, make(chan struct{}, 1)
}

// add notes a key at which something was deleted, or where a scan walked over dead rows; due asks for a lesson now, not
// after some hundred keys.
func (h *hints) add(prefix, key []byte, now int64, back, due bool) {
	if !h.on || len(prefix)+len(key) > hintBytes {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.byPartition[string(prefix)]
	if p == nil {
		if len(h.byPartition) >= hintsMax {
			for victim, v := range h.byPartition { // any one that is not due
				if !v.due {
					delete(h.byPartition, victim)
					break
				}
			}
			if len(h.byPartition) >= hintsMax {
				return
			}
		}
		p = &hint{}
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

// take returns a partition whose hints are due.
func (h *hints) take() (prefix []byte, p *hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, p := range h.byPartition {
		if p.due {
			delete(h.byPartition, name)
			return []byte(name), p
		}
	}
	return nil, nil
}

// learner finds runs of dead rows and stores what it knows of long ones.
type learner struct {
	*engine
	*rows
	*Records
}

// learnDeadRuns follows hints, for at most half of its time.
func (s *learner) learnDeadRuns() {
	for {
		select {
		case <-s.closing:
			return
		case <-s.dead.hints.wake:
		}
		for {
			prefix, p := s.dead.hints.take()
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

// follow learns the runs that a partition's hints point at.
func (s *learner) follow(prefix []byte, p *hint) {
	if p.back != nil {
		s.learn(prefix, p.back, p.now, true)
	}
	if p.low != nil {
		p.keys = append(p.keys, p.low)
	}
	slices.SortFunc(p.keys, bytes.Compare)
	for _, key := range p.keys {
		if before, ok := s.dead.nearest(prefix, key); ok && before != nil {
			s.learn(prefix, before, p.now, false) // a known run may have grown
		}
		if before, _ := s.dead.nearest(prefix, key); before != nil || !s.dead.known(prefix, key) {
			s.learn(prefix, key, p.now, false)
		}
	}
}

// known reports whether a key lies in a run.
func (d *deadRuns) known(prefix, key []byte) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.runs[string(prefix)], func(r deadRun) bool { return r.covers(key) })
}

// nearest returns the end of the last run that ends at or before a key.
func (d *deadRuns) nearest(prefix, key []byte) (end []byte, ok bool) {
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

// learn looks for dead rows from a key on, forward or back, and installs the run if it is worth it.
func (s *learner) learn(prefix, from []byte, now int64, back bool) {
	d := &s.dead
	s.gate.Lock() // rule 2 of deadRuns
	ok := d.begin(&lesson{prefix: prefix, from: from, back: back})
	s.gate.Unlock()
	if !ok {
		return
	}
	run, rows, err := s.walkDead(prefix, from, now, back)
	if err != nil || rows == 0 || rows < d.rowsMin && !d.adjoins(prefix, &run) {
		d.cancel()
		_ = s.check(err)
		return
	}
	run.rows = rows
	d.install(run)
	s.m.deadRuns.Add(1)
	_ = s.check(s.saveRuns(prefix))
}

// adjoins reports whether a run touches a known one.
func (d *deadRuns) adjoins(prefix []byte, run *deadRun) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.runs[string(prefix)], func(r deadRun) bool { return touches(&r, run) })
}

// walkDead walks over dead rows from a key on, up to the first live one. It jumps over runs that are known.
func (s *learner) walkDead(prefix, from []byte, now int64, back bool) (run deadRun, rows int, err error) {
	version := s.dead.version.Load()
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
	w := walker{it: it, prefix: prefix, now: now, known: s.dead.find(prefix, version, now)}
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

// walker is the learner's scan.
type walker struct {
	it     *pebble.Iterator
	prefix []byte
	now    int64
	known  []deadRun
	header row.Header
	// apart finds the deleted ranges with keys of their own, if there are any.
	apart *pebble.Iterator
	cover cover
	r     row.Row
	seek  []byte
	asOf  int64
}

func (w *walker) loadHeader() error {
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

// rowKey makes the key of a row.
func (w *walker) rowKey(clustering []byte) []byte {
	w.seek = append(append(append(w.seek[:0], w.prefix...), keys.Row), clustering...)
	return w.seek
}

// dead judges the row under the iterator, and notes if it only expired.
func (w *walker) dead(clustering []byte, back bool) (bool, error) {
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
	live, err := w.r.Resolve(value, deleted, w.now, nil)
	if !live {
		w.asOf = w.now
	}
	return !live, err
}

func (w *walker) forward(from []byte, closing <-chan struct{}) (run deadRun, rows int, err error) {
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
		run.end = bytes.Clone(w.it.Key()[base:]) // cut short
	}
	run.asOf = w.asOf
	return run, rows, w.it.Error()
}

func (w *walker) back(from []byte, closing <-chan struct{}) (run deadRun, rows int, err error) {
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

// closed looks now and then whether the store is being closed.
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
