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
// end of the partition. A run is valid until a write adds a row to its interval.
type tombstoneRun struct {
	start, end []byte
	// version is the version of the tombstoneCache at which the run was found.
	version uint64
	// asOf is the second at which the search evaluated expiry. It is 0 if the run contains no expired rows.
	asOf int64
	// rows is the number of rows that the search scanned to find the run.
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

// tombstoneCache allows scans to seek past long runs of deleted rows instead of stepping over them. For example, a read
// of a queue seeks once to skip 10^5 consumed entries.
//
// Three rules ensure that the cache is correct. (1) A writer excludes its rows from the runs before it commits. A
// reader looks up runs only after it has created its iterator. A reader that sees a row therefore finds no run that
// covers the row. (2) The runFinder registers its pending run while no commit is in progress, and then creates its
// iterator. A commit is either visible to that iterator, or its writer sees the pending run and narrows the run. (3) A
// reader uses only runs of a version that it read before it created its iterator. It therefore never skips a row that
// died later.
type tombstoneCache struct {
	// version is the number of runs that have been found.
	version atomic.Uint64
	// active is 0 if neither runs nor a pending run exist. Readers and writers then skip all other lookups.
	active atomic.Int32
	mu     sync.RWMutex
	// runs holds the runs of each partition in ascending order. The runs of a partition neither overlap nor touch. A
	// slice of runs is immutable.
	runs            map[string][]tombstoneRun
	bytes, bytesMax int
	pending         *pendingRun
	// held contains the key ranges in which searches for runs are disabled.
	held []heldRange
	// saved contains the partitions whose runs are stored.
	saved map[string]savedState
	// walkMax, rowsMin, and saveMin are deadWalkMax, deadRowsMin, and deadSaveMin, except in tests.
	walkMax, rowsMin, saveMin int

	hints runHints
}

// pendingRun is the run for which the runFinder is searching. [lo, hi) shrinks when other goroutines write rows in this
// interval.
type pendingRun struct {
	prefix []byte
	from   []byte
	back   bool
	lo, hi []byte // a nil hi is unbounded
}

const (
	// deadWalkMax is the number of consecutive dead rows after which a scan requests a search by the runFinder.
	deadWalkMax = 200
	// deadRowsMin is the minimum number of rows of a run.
	deadRowsMin = 64
	// deadRunsMax is the number of runs of a partition at which writes stop splitting runs.
	deadRunsMax = 64
	// deadSaveMin is the minimum number of dead rows at which the runs of a partition are stored.
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

// find returns the runs of a partition that a reader may use. The reader must have read version before it created its
// iterator.
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

// written excludes a row from the runs and from the pending run. It must be called before a live row is committed. If
// unsave is true, the batch that writes the row must delete the stored runs of the partition.
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
	if r.end != nil && len(runs) < deadRunsMax { // no split of an open run, because a queue grows at the end
		right := r
		right.start, right.rows = append(bytes.Clone(key), 0), 0
		if bytes.Compare(right.start, r.end) < 0 {
			parts = append(parts, right)
		}
	}
	d.set(prefix, slices.Replace(slices.Clone(runs), i, i+1, parts...))
	return unsave
}

// narrow excludes a key from the pending run.
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

// install adds the run of the current search and ends the search. It joins the new run with adjacent and overlapping
// runs.
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

// cancel ends the current search without adding a run.
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

// hold drops the runs of the partitions in [lower, upper), and excludes these partitions from searches until release is
// called. The caller must delete the stored runs of these partitions.
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

// release allows searches in a held range.
func (d *tombstoneCache) release(lower []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.held, func(h heldRange) bool { return bytes.Equal(h.lower, lower) }); i >= 0 {
		d.held = slices.Delete(d.held, i, i+1)
	}
}

// begin starts a search unless the partition of the search is held.
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
