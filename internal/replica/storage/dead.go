// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// deadRun is an interval [start, end) of clustering keys in which no row is live; a nil end reaches to the partition's
// end. Rows that are dead stay dead until something is written there, so a run is valid until then.
type deadRun struct {
	start, end []byte
	// version is that of deadRuns when the run was learned.
	version uint64
	// asOf is the second at which expired rows were found dead, 0 if nothing had to expire.
	asOf int64
	// rows is how many rows were walked over to learn it.
	rows int
}

func (r *deadRun) covers(key []byte) bool {
	return bytes.Compare(r.start, key) <= 0 && (r.end == nil || bytes.Compare(key, r.end) < 0)
}

// runsAfter drops the runs that end at or before a key.
func runsAfter(runs []deadRun, key []byte) []deadRun {
	for len(runs) > 0 && runs[0].end != nil && bytes.Compare(runs[0].end, key) <= 0 {
		runs = runs[1:]
	}
	return runs
}

// deadRuns lets scans seek over long runs of deleted rows instead of walking over them: a queue with 10^5 consumed
// entries before the first live one costs one seek. It is a cache: losing it costs time, never truth.
//
// Three rules keep it true. (1) A writer takes away what it writes to before it commits, and a reader looks only after
// its iterator is made: so a reader that sees a row sees no run over it. (2) The learner announces itself while no
// commit is under way, then makes its iterator: a commit is either seen by that iterator, or its writer sees the lesson
// and narrows it. (3) A reader uses only runs of a version it read before its iterator was made: so it never skips a
// row that died later.
type deadRuns struct {
	// version counts learned runs.
	version atomic.Uint64
	// active is not 0 while there are runs or a lesson: writers and readers look no further if it is 0.
	active atomic.Int32
	mu     sync.RWMutex
	// runs of a partition are ascending, disjoint and not adjacent; a slice is never changed, only replaced.
	runs            map[string][]deadRun
	bytes, bytesMax int
	lesson          *lesson
	// held are stretches of keys of which nothing is learned for now.
	held []heldRange
	// saved names the partitions whose runs are stored.
	saved map[string]savedState
	// walkMax, rowsMin and saveMin are deadWalkMax, deadRowsMin and deadSaveMin, smaller in tests.
	walkMax, rowsMin, saveMin int

	hints hints
}

// lesson is the run that the learner is looking for: [lo, hi) shrinks as others write into it.
type lesson struct {
	prefix []byte
	from   []byte
	back   bool
	lo, hi []byte // hi nil = unbounded
}

const (
	// deadWalkMax is how many dead rows a scan walks over before it asks the learner for help.
	deadWalkMax = 200
	// deadRowsMin is the least number of rows worth remembering as a run.
	deadRowsMin = 64
	// deadRunsMax bounds the runs of one partition that writes may split.
	deadRunsMax = 64
	// deadSaveMin is the least number of dead rows of a partition worth storing what is known of them.
	deadSaveMin = 1024
	// deadSavedMax bounds the partitions for which runs are stored.
	deadSavedMax = 4096
	// deadRunBytes is what a run takes beside its keys.
	deadRunBytes = 80
)

func (d *deadRuns) init(bytesMax int) {
	d.bytesMax = bytesMax
	d.runs = map[string][]deadRun{}
	d.saved = map[string]savedState{}
	d.walkMax, d.rowsMin, d.saveMin = deadWalkMax, deadRowsMin, deadSaveMin
	d.hints.init(bytesMax > 0)
}

// find returns the runs of a partition that a reader may use whose iterator is younger than version.
func (d *deadRuns) find(prefix []byte, version uint64, now int64) []deadRun {
	if d.active.Load() == 0 || version == 0 {
		return nil
	}
	d.mu.RLock()
	runs := d.runs[string(prefix)]
	d.mu.RUnlock()
	usable := func(r *deadRun) bool { return r.version <= version && r.asOf <= now }
	for i := range runs {
		if !usable(&runs[i]) {
			runs = slices.Clone(runs)
			return slices.DeleteFunc(runs, func(r deadRun) bool { return !usable(&r) })
		}
	}
	return runs
}

// written takes a row out of the runs, and out of the lesson, before a live row is committed there. If it returns true
// the batch that writes the row must delete the stored runs of the partition.
func (d *deadRuns) written(prefix, key []byte) (unsave bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lesson; l != nil && bytes.Equal(l.prefix, prefix) {
		l.narrow(key)
	}
	runs := d.runs[string(prefix)]
	i := slices.IndexFunc(runs, func(r deadRun) bool { return r.covers(key) })
	if state := d.saved[string(prefix)]; state == savedUnknown || state == savedMirrored && i >= 0 {
		delete(d.saved, string(prefix))
		d.count()
		unsave = true
	}
	if i < 0 {
		return unsave
	}
	r := runs[i]
	var parts []deadRun
	if bytes.Compare(r.start, key) < 0 {
		left := r
		left.end = bytes.Clone(key)
		parts = append(parts, left)
	}
	if r.end != nil && len(runs) < deadRunsMax { // what follows an open end is where a queue grows
		right := r
		right.start, right.rows = append(bytes.Clone(key), 0), 0
		if bytes.Compare(right.start, r.end) < 0 {
			parts = append(parts, right)
		}
	}
	d.set(prefix, slices.Replace(slices.Clone(runs), i, i+1, parts...))
	return unsave
}

// narrow keeps a key that is about to be written out of what is being learned.
func (l *lesson) narrow(key []byte) {
	if l.back {
		if bytes.Compare(key, l.from) <= 0 && bytes.Compare(l.lo, key) <= 0 {
			l.lo = append(bytes.Clone(key), 0)
		}
	} else if bytes.Compare(key, l.from) >= 0 && (l.hi == nil || bytes.Compare(key, l.hi) < 0) {
		l.hi = bytes.Clone(key)
	}
}

// set replaces the runs of a partition. The caller holds mu.
func (d *deadRuns) set(prefix []byte, runs []deadRun) {
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

// count updates active. The caller holds mu.
func (d *deadRuns) count() {
	n := len(d.runs) + len(d.saved)
	if d.lesson != nil {
		n++
	}
	d.active.Store(int32(n))
}

func size(runs []deadRun) int {
	n := 0
	for i := range runs {
		n += deadRunBytes + len(runs[i].start) + len(runs[i].end)
	}
	return n
}

// install ends the lesson with a run it found, joined with the runs it touches.
func (d *deadRuns) install(run deadRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lesson
	d.lesson = nil
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
	var out []deadRun
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
	slices.SortFunc(out, func(a, b deadRun) int { return bytes.Compare(a.start, b.start) })
	d.set(l.prefix, out)
	d.version.Store(run.version)
}

// cancel ends the lesson without a run.
func (d *deadRuns) cancel() {
	d.mu.Lock()
	d.lesson = nil
	d.count()
	d.mu.Unlock()
}

// touches reports whether two runs overlap or one begins where the other ends.
func touches(a, b *deadRun) bool {
	return (a.end == nil || bytes.Compare(b.start, a.end) <= 0) && (b.end == nil || bytes.Compare(a.start, b.end) <= 0)
}

// heldRange is the keys of [lower, upper).
type heldRange struct{ lower, upper []byte }

func (h *heldRange) contains(prefix []byte) bool {
	return bytes.Compare(h.lower, prefix) <= 0 && bytes.Compare(prefix, h.upper) < 0
}

// hold drops what is known of the partitions in [lower, upper), and keeps the learner away from them until release. The
// caller deletes what is stored of them.
func (d *deadRuns) hold(lower, upper []byte) {
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
	if l := d.lesson; l != nil && h.contains(l.prefix) {
		d.lesson = nil
	}
	d.count()
}

// release undoes hold.
func (d *deadRuns) release(lower []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.held, func(h heldRange) bool { return bytes.Equal(h.lower, lower) }); i >= 0 {
		d.held = slices.Delete(d.held, i, i+1)
	}
}

// begin begins a lesson, unless its partition is held.
func (d *deadRuns) begin(l *lesson) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.held, func(h heldRange) bool { return h.contains(l.prefix) }) {
		return false
	}
	d.lesson = l
	d.count()
	return true
}
