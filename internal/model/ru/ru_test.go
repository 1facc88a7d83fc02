// SPDX-License-Identifier: Apache-2.0

package ru

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// op is a row operand of so many logical bytes, key included.
func op(t testing.TB, key, bytes int) command.Op {
	t.Helper()
	var b row.Builder
	b.Reset(1)
	b.Cell(1, nil, nil, 0, row.NoExpiry)
	rest := bytes - key - row.Size(b.Bytes())
	b.Reset(1)
	b.Cell(1, nil, make([]byte, rest), 0, row.NoExpiry)
	return command.Op{Operand: b.Append(nil)}
}

// The prices are those that are documented, at the points that the documentation names.
func TestPrices(t *testing.T) {
	key := []byte("key")
	write := func(ops ...command.Op) Units {
		u, _ := Write(&command.Mutation{Key: key, Ops: ops})
		return u
	}
	for _, tc := range []struct {
		name string
		got  Units
		want float64
	}{
		{"read nothing", Read(Point, 0, 0), 1},
		{"read 1 KB", Read(Point, 1, 1<<10), 1},
		{"read 100 KB", Read(Point, 1, 100<<10), 10},
		{"read a slice of 100 rows, 1 KB in all", Read(Slice, 100, 1<<10), 3},
		{"scan nothing", Read(Scan, 0, 0), 2.5},
		{"scan 1000 rows, 110 KB", Read(Scan, 1000, 110<<10), 32.5},
		{"write 1 KB", write(op(t, 3, 1<<10)), 5},
		{"write 100 KB", write(op(t, 3, 100<<10)), 50},
		{"write two rows and an index entry", write(op(t, 3, 100), op(t, 3, 100), command.Op{Kind: command.OpIndex}),
			10.5},
	} {
		if tc.got.Float() != tc.want {
			t.Errorf("%s: %v RU, want %v", tc.name, tc.got.Float(), tc.want)
		}
	}
	m := command.Mutation{Key: key,
		Ops: []command.Op{op(t, 3, 500), {Kind: command.OpIndex, Value: []byte("v"), Clustering: []byte("cc")}}}
	if _, got := Write(&m); got != 506 {
		t.Errorf("%d bytes, want 506", got)
	}
	for rows, want := range map[int64]Shape{0: Point, 1: Point, 2: Slice} {
		if got := ShapeOf(&command.Read{Key: key}, rows); got != want {
			t.Errorf("shape of %d rows: %d, want %d", rows, got, want)
		}
	}
	if ShapeOf(&command.Read{}, 1) != Scan {
		t.Error("a range is no scan")
	}
}

// A price never falls when there are more bytes or rows.
func TestPricesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shape(rapid.IntRange(0, 2).Draw(t, "shape"))
		rows, bytes := rapid.Int64Range(0, 1e6).Draw(t, "rows"), rapid.Int64Range(0, 1<<32).Draw(t, "bytes")
		p := Read(s, rows, bytes)
		if p < Unit || Read(s, rows+1, bytes) < p || Read(s, rows, bytes+1) < p {
			t.Fatalf("%v", p)
		}
	})
}
