// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	comparedTable = 1024
	comparedNow   = 1000
)

// operand returns the operand that a statement writes.
func operand(ts int64, fill func(b *row.Builder)) []byte {
	var b row.Builder
	b.Reset(ts)
	fill(&b)
	return b.Append(nil)
}

func value(ts int64, text string) []byte {
	return operand(ts, func(b *row.Builder) { b.Live(0, 0); b.Cell(1, nil, []byte(text), 0, 0) })
}

// at returns the key of a row in the only logical partition. It omits the table ID.
func at(clustering string) string {
	return string(keys.AppendRow(nil, comparedTable, token.Token(7), []byte("p"), []byte(clustering))[4:])
}

var (
	deletions = string(keys.AppendDeletions(nil, comparedTable, token.Token(7), []byte("p"))[4:])
	prefix    = keys.AppendPartition(nil, comparedTable, token.Token(7), []byte("p"))
	rangeEnd  = string(keys.AppendRangeEnd(prefix, []byte("c"))[4:])
)

func from(m map[string][]byte) records {
	return func(fn func(key, value []byte) error) error {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if err := fn([]byte(key), m[key]); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestCompare checks that rows are compared as a client reads them. Every difference in a row must be reported. Rows
// that differ only in storage must count as equal.
func TestCompare(t *testing.T) {
	hide := operand(5, func(b *row.Builder) { b.DeleteRange([]byte("a"), []byte("c"), 1) })
	backup := map[string][]byte{at("b"): value(10, "one"), at("d"): value(10, "two"), at("e"): operand(10,
		func(b *row.Builder) { b.Cell(1, nil, []byte("short"), 10, comparedNow-1) })}
	for _, c := range []struct {
		name                string
		finished            bool
		backup, change      map[string][]byte
		rows, differ, added int
	}{
		{"the same", false, backup, nil, 2, 0, 0},
		{"what had expired is a tombstone", false, backup, map[string][]byte{at("e"): operand(10,
			func(b *row.Builder) { b.Tombstone(1, nil, 1) })}, 2, 0, 0},
		{"what had expired is gone", false, backup, map[string][]byte{at("e"): nil}, 2, 0, 0},
		{"a missing row", false, backup, map[string][]byte{at("b"): nil}, 1, 1, 0},
		{"the last row missing", false, backup, map[string][]byte{at("d"): nil}, 1, 1, 0},
		{"another value", false, backup, map[string][]byte{at("b"): value(10, "on3")}, 1, 1, 0},
		{"another timestamp", false, backup, map[string][]byte{at("b"): value(11, "one")}, 1, 1, 0},
		{"a time to live", false, backup, map[string][]byte{at("b"): operand(10, func(b *row.Builder) {
			b.Live(0, 0)
			b.Cell(1, nil, []byte("one"), 9, comparedNow+9)
		})}, 1, 1, 0},
		{"no marker", false, backup, map[string][]byte{at("b"): operand(10, func(b *row.Builder) {
			b.Cell(1, nil, []byte("one"), 0, 0)
		})}, 1, 1, 0},
		{"a row too many", false, backup, map[string][]byte{at("c"): value(1, "x")}, 2, 1, 0},
		{"a deleted range that hides nothing", false, backup, map[string][]byte{deletions: hide}, 2, 0, 0},
		{"a deleted range that hides a row", false, backup, map[string][]byte{deletions: operand(50,
			func(b *row.Builder) { b.DeleteRange([]byte("a"), []byte("c"), 1) })}, 1, 1, 0},
		{"the range under a key of its own", false,
			map[string][]byte{at("b"): value(1, "hidden"), at("d"): value(1, "x"), deletions: hide},
			map[string][]byte{deletions: nil, rangeEnd: hide}, 1, 0, 0},
		{"a batch has added a row and hidden another", true, backup, map[string][]byte{at("c"): value(20, "x"),
			at("b"): operand(20, func(b *row.Builder) { b.DeleteRow(1) })}, 1, 0, 2},
		{"a batch, and a row is older than in the backup", true, backup, map[string][]byte{at("b"): value(9, "one")},
			1, 1, 0},
		{"a batch, and a row is missing", true, backup, map[string][]byte{at("b"): nil}, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			restored := maps.Clone(c.backup)
			for key, value := range c.change {
				if restored[key] = value; value == nil {
					delete(restored, key)
				}
			}
			cmp := Comparer{Finished: c.finished}
			sights := [2]sight{{table: comparedTable, now: comparedNow}, {table: comparedTable, now: comparedNow}}
			err := cmp.rows(t.Context(), &schema.Table{Keyspace: "ks", Name: "t"}, sights[0].pull(from(c.backup)),
				sights[1].pull(from(restored)))
			got := fmt.Sprint(cmp.out.Rows, cmp.out.Different, cmp.out.Finished)
			if want := fmt.Sprint(c.rows, c.differ, c.added); err != nil || got != want {
				t.Errorf("rows that are equal, differ, were finished: %s, want %s: %v %v", got, want, err, cmp.out.Examples)
			}
		})
	}
}

// TestCompareEnds checks that unreadable data on either side ends the comparison with an error.
func TestCompareEnds(t *testing.T) {
	good := map[string][]byte{at("a"): value(1, "a"), at("b"): value(1, "b"), at("c"): value(1, "c")}
	bad := maps.Clone(good)
	bad[at("b")] = []byte{0xff}
	for _, c := range [][2]map[string][]byte{{good, bad}, {bad, good}, {{"odd": nil}, good}} {
		cmp := Comparer{}
		sights := [2]sight{{table: comparedTable, now: comparedNow}, {table: comparedTable, now: comparedNow}}
		err := cmp.rows(t.Context(), &schema.Table{}, sights[0].pull(from(c[0])), sights[1].pull(from(c[1])))
		if err == nil {
			t.Error("what cannot be read was compared")
		}
	}
}
