// SPDX-License-Identifier: Apache-2.0

package row

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// fact is a change of a row. The model of a row is the unordered list of all facts. Each read evaluates all facts.
type fact struct {
	kind       string // marker, delete, cell, tombstone, column, range
	col        uint32
	path       string // "-" for no path
	value      string
	ts, when   int64
	ttl        int32
	lifetime   int32
	start, end string // "-" for no end
}

var paths = []string{"-", "", "a", "b"}

// draw generates an operand and the corresponding facts.
func draw(t *rapid.T, header bool) (operand []byte, facts []fact) {
	var b Builder
	ts := rapid.Int64Range(1, 6).Draw(t, "ts")
	stamped := rapid.Bool().Draw(t, "stamped")
	if b.Reset(ts); !stamped {
		b.Reset(Unstamped)
	}
	seen := map[string]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "facts") {
		f := fact{ts: ts, col: rapid.Uint32Range(1, 3).Draw(t, "col"), path: rapid.SampledFrom(paths).Draw(t, "path"),
			when: rapid.Int64Range(0, 4).Draw(t, "when")}
		f.kind = rapid.SampledFrom([]string{"marker", "delete", "cell", "cell", "cell", "tombstone", "column",
			"range"}).Draw(t, "kind")
		f.value = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value")
		f.ttl = rapid.Int32Range(0, 2).Draw(t, "ttl")
		explicit := stamped && rapid.IntRange(0, 4).Draw(t, "explicit") == 0
		var path []byte
		if f.path != "-" {
			path = []byte(f.path)
		}
		var place string
		switch f.kind {
		case "marker", "delete", "range":
			place = f.kind
		case "column":
			place = fmt.Sprint("column", f.col)
		default:
			place = fmt.Sprint("cell", f.col, f.path)
		}
		if seen[place] || (f.kind == "range") != (header && f.kind == "range") || header && f.kind == "marker" {
			continue
		}
		seen[place] = f.kind != "range"
		switch f.kind {
		case "marker":
			f.value = "" // a row marker has no value to compare
			if f.lifetime = rapid.Int32Range(-1, 3).Draw(t, "lifetime"); f.lifetime != 0 {
				f.ttl = 0
				b.LiveFor(f.lifetime, f.when)
			} else {
				b.Live(f.ttl, f.when)
			}
		case "delete":
			b.DeleteRow(f.when)
		case "cell":
			if explicit {
				f.ts = rapid.Int64Range(1, 6).Draw(t, "own")
				b.CellAt(f.col, path, []byte(f.value), f.ts, f.ttl, f.when)
			} else {
				b.Cell(f.col, path, []byte(f.value), f.ttl, f.when)
			}
		case "tombstone":
			if explicit {
				f.ts = rapid.Int64Range(1, 6).Draw(t, "own")
				b.TombstoneAt(f.col, path, f.ts, f.when)
			} else {
				b.Tombstone(f.col, path, f.when)
			}
		case "column":
			d := rapid.IntRange(-1, 0).Draw(t, "delta")
			f.ts += int64(d)
			b.DeleteColumn(f.col, d, f.when)
		case "range":
			f.start = rapid.StringOfN(rapid.RuneFrom([]rune("abcd")), 0, 2, 2).Draw(t, "start")
			f.end = rapid.StringOfN(rapid.RuneFrom([]rune("abcde-")), 0, 2, 2).Draw(t, "end")
			var end []byte
			if f.end != "-" {
				end = []byte(f.end)
			}
			b.DeleteRange([]byte(f.start), end, f.when)
		}
		facts = append(facts, f)
	}
	operand = bytes.Clone(b.Bytes())
	if !stamped && !Stamp(operand, ts) {
		t.Fatal("an unstamped operand took no stamp")
	}
	return operand, facts
}

// covering returns the timestamp of the strongest deletion of a clustering key.
func covering(facts []fact, key string) int64 {
	best := NotDeleted
	for _, f := range facts {
		if f.kind == "delete" || f.kind == "range" && f.start <= key && (f.end == "-" || key < f.end) {
			best = max(best, f.ts)
		}
	}
	return best
}

// drawExpired generates a set of expired rows.
func drawExpired(t *rapid.T) Expired {
	return Expired{Own: rapid.Int64Range(0, 9).Draw(t, "own"), Default: rapid.Int64Range(0, 6).Draw(t, "default")}
}

// visible returns the row that the model contains at a given second.
func visible(facts []fact, gone Expired, deleted, now int64, dropped []cqltype.Dropped) Row {
	var r Row
	floor := deleted
	column := map[uint32]int64{}
	for _, f := range facts {
		switch f.kind {
		case "delete":
			floor = max(floor, f.ts)
		case "column":
			if old, ok := column[f.col]; !ok || f.ts > old {
				column[f.col] = f.ts
			}
		}
	}
	best := map[string]fact{}
	var marker *fact
	for _, f := range facts {
		switch f.kind {
		case "marker":
			if marker == nil || stronger(f, *marker) {
				marker = &f
			}
		case "cell", "tombstone":
			place := fmt.Sprint(f.col, "/", f.path)
			if old, ok := best[place]; !ok || stronger(f, old) {
				best[place] = f
			}
		}
	}
	if marker != nil && (marker.lifetime < 0 && marker.when < gone.Default ||
		marker.lifetime > 0 && marker.when+int64(marker.lifetime) < gone.Own) {
		floor = max(floor, marker.ts)
	}
	if marker != nil && marker.ts > floor && (marker.ttl == 0 || marker.when > now) {
		r.Live, r.Liveness = true, Liveness{Timestamp: marker.ts, TTL: marker.ttl, Expiry: expiry(*marker)}
		if marker.lifetime != 0 {
			r.Liveness.Lifetime, r.Liveness.Written = marker.lifetime, marker.when
		}
	}
	for _, f := range best {
		del, ok := column[f.col]
		if f.kind == "tombstone" || f.ts <= floor || ok && f.ts <= del || f.ttl != 0 && f.when <= now ||
			cqltype.Hides(dropped, f.col, f.ts) {
			continue
		}
		c := Cell{Column: f.col, Value: []byte(f.value), Timestamp: f.ts, TTL: f.ttl, Expiry: expiry(f)}
		if f.path != "-" {
			c.Path = []byte(f.path)
		}
		r.Cells = append(r.Cells, c)
	}
	slices.SortFunc(r.Cells, func(a, b Cell) int {
		if a.Column != b.Column {
			return int(a.Column) - int(b.Column)
		}
		if (a.Path == nil) != (b.Path == nil) {
			if a.Path == nil {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.Path, b.Path)
	})
	return r
}

func expiry(f fact) int64 {
	if f.ttl == 0 {
		return NoExpiry
	}
	return f.when
}

// stronger implements RW2 for facts.
func stronger(a, b fact) bool {
	switch {
	case a.ts != b.ts:
		return a.ts > b.ts
	case (a.kind == "tombstone") != (b.kind == "tombstone"):
		return a.kind == "tombstone"
	case a.kind == "tombstone":
		return a.when > b.when
	case (a.ttl != 0) != (b.ttl != 0):
		return a.ttl != 0
	case expiry(a) != expiry(b):
		return expiry(a) > expiry(b)
	case a.value != b.value:
		return a.value > b.value
	case a.ttl != b.ttl:
		return a.ttl > b.ttl
	case a.lifetime != b.lifetime:
		return a.lifetime > b.lifetime
	}
	return a.when > b.when
}

// TestMergeAgainstModel checks that a reader sees the same row as the model, regardless of the order and grouping of
// the merged operands.
func TestMergeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var facts []fact
		var m Merger
		m.Reset()
		var merged []byte
		header := rapid.Bool().Draw(t, "header")
		for i := range rapid.IntRange(1, 6).Draw(t, "operands") {
			op, fs := draw(t, header)
			facts = append(facts, fs...)
			if err := m.Add(op); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				merged = op
				continue
			}
			var err error
			if merged, err = Merge(nil, merged, op); err != nil {
				t.Fatal(err)
			}
		}
		all := m.Append(nil)
		now := rapid.Int64Range(0, 4).Draw(t, "now")
		var dropped []cqltype.Dropped
		columns := rapid.SliceOfN(rapid.Uint32Range(1, 3), 0, 2).Draw(t, "dropped")
		for _, c := range slices.Compact(slices.Sorted(slices.Values(columns))) {
			upto := rapid.SampledFrom([]int64{cqltype.AllDropped, 1, 3}).Draw(t, "upto")
			dropped = append(dropped, cqltype.Dropped{Column: c, Upto: upto})
		}
		for _, value := range [][]byte{merged, all} {
			if header {
				checkHeader(t, value, facts, now, dropped)
				continue
			}
			deleted := rapid.SampledFrom([]int64{NotDeleted, 2, 4}).Draw(t, "deleted")
			gone := drawExpired(t)
			var got Row
			exists, err := got.Resolve(value, gone.Covering(value, deleted), now, dropped)
			want := visible(facts, gone, deleted, now, dropped)
			if err != nil || exists != want.Exists() || !cmp.Equal(got, want, cmp.Comparer(sameRow)) {
				t.Fatalf("facts %+v\ngot  %+v %v %v\nwant %+v", facts, got, exists, err, want)
			}
		}
	})
}

func sameRow(a, b Row) bool {
	return a.Live == b.Live && a.Liveness == b.Liveness && slices.EqualFunc(a.Cells, b.Cells, func(x, y Cell) bool {
		return x.Column == y.Column && bytes.Equal(x.Path, y.Path) && (x.Path == nil) == (y.Path == nil) &&
			bytes.Equal(x.Value, y.Value) &&
			x.Timestamp == y.Timestamp && x.TTL == y.TTL && x.Expiry == y.Expiry
	})
}

func checkHeader(t *rapid.T, value []byte, facts []fact, now int64, dropped []cqltype.Dropped) {
	var h Header
	if err := h.Resolve(value, now, dropped); err != nil {
		t.Fatal(err)
	}
	if want := visible(facts, Expired{}, NotDeleted, now, dropped); !sameRow(h.Static, want) {
		t.Fatalf("static of %+v:\ngot  %+v\nwant %+v", facts, h.Static, want)
	}
	for _, key := range []string{"", "a", "ab", "b", "ba", "bz", "c", "cc", "d", "dd", "e", "zz"} {
		if got, want := h.Covering([]byte(key)), covering(facts, key); got != want {
			t.Fatalf("%+v: %q is covered at %d, want %d (%+v)", facts, key, got, want, h.Ranges)
		}
	}
}

// TestMergeInvariants checks that merging is commutative, associative, and idempotent in the resulting bytes (RW1).
func TestMergeInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		header := rapid.Bool().Draw(t, "header")
		a, _ := draw(t, header)
		b, _ := draw(t, header)
		c, _ := draw(t, header)
		merge := func(a, b []byte) []byte {
			out, err := Merge(nil, a, b)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		ab := merge(a, b)
		if ba := merge(b, a); !bytes.Equal(ab, ba) {
			t.Fatalf("not commutative:\n%x\n%x", ab, ba)
		}
		if l, r := merge(ab, c), merge(a, merge(b, c)); !bytes.Equal(l, r) {
			t.Fatalf("not associative:\n%x\n%x", l, r)
		}
		if twice := merge(ab, ab); !bytes.Equal(ab, twice) {
			t.Fatalf("not idempotent:\n%x\n%x", ab, twice)
		}
		if again := merge(ab, a); !bytes.Equal(ab, again) {
			t.Fatalf("an operand merged twice counts twice:\n%x\n%x", ab, again)
		}
	})
}

// TestSweepHidesNothing checks that a sweep removes only data that readers at or after the horizon cannot see.
func TestSweepHidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := draw(t, false)
		b, _ := draw(t, false)
		covered := rapid.SampledFrom([]int64{NotDeleted, 2, 4}).Draw(t, "covered")
		horizon := rapid.Int64Range(0, 5).Draw(t, "horizon")
		upto := rapid.SampledFrom([]int64{cqltype.AllDropped, 2}).Draw(t, "upto")
		dropped := []cqltype.Dropped{{Column: 2, Upto: upto}}
		var m Merger
		m.Reset()
		if err := errors2(m.Add(a), m.Add(b)); err != nil {
			t.Fatal(err)
		}
		before := m.Append(nil)
		gone := drawExpired(t)
		covered = gone.Covering(before, covered)
		oldest, err := Oldest(before, covered, dropped)
		if err != nil {
			t.Fatal(err)
		}
		remains := m.Sweep(covered, horizon, dropped)
		after := m.Append(nil)
		if len(before) != len(after) && oldest >= horizon {
			t.Fatalf("something was swept before %d though the oldest is of %d", horizon, oldest)
		}
		for now := horizon; now < 6; now++ {
			var x, y Row
			existed, err1 := x.Resolve(before, covered, now, dropped)
			exists, err2 := y.Resolve(after, gone.Covering(after, covered), now, dropped)
			if err1 != nil || err2 != nil || existed != exists || !sameRow(x, y) || exists && !remains {
				t.Fatalf("at %d: %+v became %+v (remains %v)", now, x, y, remains)
			}
		}
	})
}

func errors2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
