// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestCountersOfTwoRegions lets two regions add to one counter and sometimes exchange rows. Each region bases its
// additions on the rows that it has received. No increment may be lost, regardless of the leaders' clocks. Deleting a
// counter must remove the cells of both regions.
func TestCountersOfTwoRegions(t *testing.T) {
	const column = 3
	counter := &cqltype.Type{Kind: cqltype.Counter}
	defer func(path []byte) { counterPath = path }(counterPath)
	rapid.Check(t, func(t *rapid.T) {
		must := func(b []byte, err error) []byte {
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		merge := func(a, b []byte) []byte {
			switch {
			case len(a) == 0:
				return b
			case len(b) == 0:
				return a
			}
			return must(row.Merge(nil, a, b))
		}
		visible := func(b []byte) *row.Row {
			var r row.Row
			if len(b) == 0 {
				return &r
			}
			if _, err := r.Resolve(b, row.NotDeleted, 0, nil); err != nil {
				t.Fatal(err)
			}
			return &r
		}
		rows := [2][]byte{}
		stamps := [2]int64{100, 100_000}
		want := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			region := rapid.IntRange(0, 1).Draw(t, "region")
			if rapid.Bool().Draw(t, "exchange") {
				rows[region] = merge(rows[region], rows[1-region])
				continue
			}
			delta := rapid.Int64Range(-9, 9).Draw(t, "delta")
			want += delta
			stamps[region]++
			c := &Conditional{Rows: []RowRef{{}}, Updates: []Update{{
				Kind: CounterAdd, Column: column, Type: counter,
				Args: [][]byte{binary.BigEndian.AppendUint64(nil, uint64(delta))},
			}}}
			counterPath = row.CounterPath(uint32(region))
			ops, err := Resolve(nil, c, []*row.Row{visible(rows[region])}, stamps[region])
			if err != nil || len(ops) != 1 {
				t.Fatal(ops, err)
			}
			rows[region] = merge(rows[region], ops[0].Operand)
		}
		all := merge(rows[0], rows[1])
		if cells := visible(all).Column(column); len(cells) > 0 {
			got := must(row.AppendValue(nil, counter, cells))
			if int64(binary.BigEndian.Uint64(got)) != want {
				t.Fatalf("counted to %d, not %d", int64(binary.BigEndian.Uint64(got)), want)
			}
		}
		var b row.Builder
		b.Reset(stamps[1] + 1)
		b.DeleteColumn(column, 0, 1)
		if cells := visible(merge(all, b.Bytes())).Column(column); len(cells) > 0 {
			t.Fatalf("a deleted counter has %d cells", len(cells))
		}
	})
}
