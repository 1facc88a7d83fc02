// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// tombstoneRun is an interval [start, end) of clustering keys without live rows. If end is nil, the run extends to the
// end of the partition. Dead rows remain dead until a write. A run is therefore valid until a row is written into it.
type tombstoneRun struct {
	start, end []byte
	// version is the version of the tombstoneCache when the run was found.
	version uint64
	// asOf is the second at which the expired rows of the run were found to be dead. It is 0 if no row of the run is
	// dead because it has expired.
	asOf int64
	// rows is the number of rows that were scanned to find the run.
	rows int
}

func (r *tombstoneRun) covers(key []byte) bool {
	return bytes.Compare(r.start, key) <= 0 && (r.end == nil || bytes.Compare(key, r.end) < 0)
}

// runsAfter drops the runs that end at or before a key.
func runsAfter(runs []tombstoneRun, key []byte) []tombstoneRun {
	for len(runs) > 0 && runs[0].end != nil && bytes.Compare(runs[0].end, key) <= 0 {
		runs = runs[1:]
	}
	return runs
}

// tombstoneCache allows scans to seek over long runs of deleted rows instead of stepping over them. Reading a queue
// with 10^5 consumed entries before the first live entry then costs one seek. Losing the cache costs time but does not
// affect results.
//
// The following three rules ensure that the cache is correct. (1) A writer removes the rows that it writes from the
// runs before it commits. A reader looks up runs only after it has created its iterator. A reader that sees a row
// therefore sees no run that covers the row. (2) The runFinder registers its pending run while no commit is in
// progress, and then creates its iterator. A commit is either visible to that iterator, or its writer sees the pending
// run and narrows the run. (3) A reader uses only runs of a version that it read before it created its iterator. It
// therefore never skips a row that died later.
type tombstoneCache struct {
	// version is the number of runs that have been found.
	version atomic.Uint64
	// active is 0 if there are neither runs nor a pending run. In that case, writers and readers need no further
	// lookup.
	active atomic.Int32
	mu     sync.RWMutex
	// runs holds the runs of each partition in ascending order, neither overlapping nor adjacent. A slice is never
	// modified, but only replaced.
	runs            map[string][]tombstoneRun
	bytes, bytesMax int
	pending         *pendingRun
	// held contains key ranges in which searches for runs are currently disabled.
	held []heldRange
	// saved contains the partitions whose runs are stored.
	saved map[string]savedState
	// walkMax, rowsMin, and saveMin are deadWalkMax, deadRowsMin, and deadSaveMin, except in tests.
	walkMax, rowsMin, saveMin int

	hints runHints
}

// pendingRun is the run that the runFinder is searching. [lo, hi) shrinks when other goroutines write into it.
type pendingRun struct {
	prefix []byte
	from   []byte
	back   bool
	lo, hi []byte // a nil hi is unbounded
}

const (
	// deadWalkMax is the number of dead rows that a scan steps over before it requests a search by the runFinder.
	deadWalkMax = 200
	// deadRowsMin is the minimum number of rows of a run.
	deadRowsMin = 64
	// deadRunsMax is the maximum number of runs of one partition that writes may split.
	deadRunsMax = 64
	// deadSaveMin is the minimum number of dead rows of a partition whose runs are stored.
	deadSaveMin = 1024
	// deadSavedMax is the maximum number of partitions for which runs are stored.
	deadSavedMax = 4096
	// deadRunBytes is the memory used by a run in addition to its keys.
	deadRunBytes = 80
)

func (d *tombstoneCache) init(bytesMax int) {
	d.bytesMax = bytesMax
	d.runs = map[string][]tombstoneRun{}
	d.saved = map[string]savedState{}
	d.walkMax, d.rowsMin, d.saveMin = deadWalkMax, deadRowsMin, deadSaveMin
	d.hints.init(bytesMax > 0)
}

// find returns the runs of a partition that a reader may use if its iterator was created after version was read.
func (d *tombstoneCache) find(prefix []byte, version uint64, now int64) []tombstoneRun {
	if d.active.Load() == 0 || version == 0 {
		return nil
	}
	d.mu.RLock()
	runs := d.runs[string(prefix)]
	d.mu.RUnlock()
	usable := func(r *tombstoneRun) bool { return r.version <= version && r.asOf <= now }
	for i := range runs {
		if !usable(&runs[i]) {
			runs = slices.Clone(runs)
			return slices.DeleteFunc(runs, func(r tombstoneRun) bool { return !usable(&r) })
		}
	}
	return runs
}

// written removes a row from the runs and from the pending run. It is called before a live row is committed. If it
// returns true, the batch that writes the row must delete the stored runs of the partition.
func (d *tombstoneCache) written(prefix, key []byte) (unsave bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.pending; l != nil && bytes.Equal(l.prefix, prefix) {
		l.narrow(key)
	}
	runs := d.runs[string(prefix)]
	i := slices.IndexFunc(runs, func(r tombstoneRun) bool { return r.covers(key) })
	if state := d.saved[string(prefix)]; state == savedUnknown || state == savedMirrored && i >= 0 {
		delete(d.saved, string(prefix))
		d.count()
		unsave = true
	}
	if i < 0 {
		return unsave
	}
	r := runs[i]
	var parts []tombstoneRun
	if bytes.Compare(r.start, key) < 0 {
		left := r
		left.end = bytes.Clone(key)
		parts = append(parts, left)
	}
	if r.end != nil && len(runs) < deadRunsMax { // a queue grows beyond an open end
		right := r
		right.start, right.rows = append(bytes.Clone(key), 0), 0
		if bytes.Compare(right.start, r.end) < 0 {
			parts = append(parts, right)
		}
	}
	d.set(prefix, slices.Replace(slices.Clone(runs), i, i+1, parts...))
	return unsave
}

// narrow excludes a key that is about to be written from the pending run.
func (l *pendingRun) narrow(key []byte) {
	if l.back {
		if bytes.Compare(key, l.from) <= 0 && bytes.Compare(l.lo, key) <= 0 {
			l.lo = append(bytes.Clone(key), 0)
		}
	} else if bytes.Compare(key, l.from) >= 0 && (l.hi == nil || bytes.Compare(key, l.hi) < 0) {
		l.hi = bytes.Clone(key)
	}
}

// set replaces the runs of a partition. The caller must hold mu.
func (d *tombstoneCache) set(prefix []byte, runs []tombstoneRun) {
	d.bytes += size(runs) - size(d.runs[string(prefix)])
	if len(runs) == 0 {
		delete(d.runs, string(prefix))
	} else {
		d.runs[string(prefix)] = runs
	}
	for other, victims := range d.runs {
		if d.bytes <= d.bytesMax {
			break
		}
		if other != string(prefix) || len(d.runs) == 1 {
			d.bytes -= size(victims)
			delete(d.runs, other)
			if d.saved[other] == savedMirrored {
				d.saved[other] = savedUnknown
			}
		}
	}
	d.count()
}

// count updates active. The caller must hold mu.
func (d *tombstoneCache) count() {
	n := len(d.runs) + len(d.saved)
	if d.pending != nil {
		n++
	}
	d.active.Store(int32(n))
}

func size(runs []tombstoneRun) int {
	n := 0
	for i := range runs {
		n += deadRunBytes + len(runs[i].start) + len(runs[i].end)
	}
	return n
}

// install ends the search with a run. It joins the new run with adjacent and overlapping runs.
func (d *tombstoneCache) install(run tombstoneRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.pending
	d.pending = nil
	defer d.count()
	if l == nil {
		return
	}
	if bytes.Compare(run.start, l.lo) < 0 {
		run.start = l.lo
	}
	if l.hi != nil && (run.end == nil || bytes.Compare(l.hi, run.end) < 0) {
		run.end = l.hi
	}
	if run.end != nil && bytes.Compare(run.start, run.end) >= 0 {
		return
	}
	run.version = d.version.Load() + 1
	var out []tombstoneRun
	for _, r := range d.runs[string(l.prefix)] {
		if !touches(&r, &run) {
			out = append(out, r)
			continue
		}
		if bytes.Compare(r.start, run.start) < 0 {
			run.start = r.start
		}
		if run.end != nil && (r.end == nil || bytes.Compare(r.end, run.end) > 0) {
			run.end = r.end
		}
		run.asOf, run.rows = max(run.asOf, r.asOf), run.rows+r.rows
	}
	out = append(out, run)
	slices.SortFunc(out, func(a, b tombstoneRun) int { return bytes.Compare(a.start, b.start) })
	d.set(l.prefix, out)
	d.version.Store(run.version)
}

// cancel ends the search without a run.
func (d *tombstoneCache) cancel() {
	d.mu.Lock()
	d.pending = nil
	d.count()
	d.mu.Unlock()
}

// touches reports whether two runs overlap or are adjacent.
func touches(a, b *tombstoneRun) bool {
	return (a.end == nil || bytes.Compare(b.start, a.end) <= 0) && (b.end == nil || bytes.Compare(a.start, b.end) <= 0)
}

// heldRange contains the keys in [lower, upper).
type heldRange struct{ lower, upper []byte }

func (h *heldRange) contains(prefix []byte) bool {
	return bytes.Compare(h.lower, prefix) <= 0 && bytes.Compare(prefix, h.upper) < 0
}

// hold drops the runs of the partitions in [lower, upper), and excludes these partitions from searches until release.
// The caller must delete the stored runs.
func (d *tombstoneCache) hold(lower, upper []byte) {
	h := heldRange{lower, upper}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, h)
	for prefix, runs := range d.runs {
		if h.contains([]byte(prefix)) {
			d.bytes -= size(runs)
			delete(d.runs, prefix)
		}
	}
	maps.DeleteFunc(d.saved, func(prefix string, _ savedState) bool { return h.contains([]byte(prefix)) })
	if l := d.pending; l != nil && h.contains(l.prefix) {
		d.pending = nil
	}
	d.count()
}

// release ends hold.
func (d *tombstoneCache) release(lower []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.held, func(h heldRange) bool { return bytes.Equal(h.lower, lower) }); i >= 0 {
		d.held = slices.Delete(d.held, i, i+1)
	}
}

// begin starts a search unless its partition is held.
func (d *tombstoneCache) begin(l *pendingRun) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.held, func(h heldRange) bool { return h.contains(l.prefix) }) {
		return false
	}
	d.pending = l
	d.count()
	return true
}
