// SPDX-License-Identifier: Apache-2.0

package ru

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// op returns a row operand with the given number of logical bytes, including the key.
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

var (
	point  = command.Read{Key: []byte("key"), Level: dberr.Quorum}
	serial = command.Read{Key: []byte("key"), Level: dberr.Serial}
	scan   = command.Read{Level: dberr.One}
	goesOn = command.Read{Level: dberr.One, Continued: true}
)

// TestPrices checks the prices of the examples in the documentation.
func TestPrices(t *testing.T) {
	key := []byte("key")
	write := func(ops ...command.Op) Units {
		u, _ := Write(&command.Mutation{Key: key, Ops: ops})
		return u
	}
	read := func(c *command.Read, rows, bytes int64) Units {
		return (&Meter{Rows: rows, Bytes: bytes}).Price(c)
	}
	other := op(t, 3, 100)
	other.Clustering = []byte("c")
	for _, tc := range []struct {
		name string
		got  Units
		want float64
	}{
		{"read nothing", read(&point, 0, 0), 1},
		{"read 1 KB", read(&point, 1, 1<<10), 1},
		{"read 1 KB at SERIAL", read(&serial, 1, 1<<10), 2},
		{"read 100 KB", read(&point, 1, 100<<10), 10},
		{"read a slice of 100 rows, 1 KB in all", read(&point, 100, 1<<10), 3},
		{"scan nothing", read(&scan, 0, 0), 2.5},
		{"scan 1000 rows, 110 KB", read(&scan, 1000, 110<<10), 32.5},
		{"go on with 1000 rows, 110 KB", read(&goesOn, 1000, 110<<10), 30},
		{"write 1 KB", write(op(t, 3, 1<<10)), 5},
		{"a row of 100 KB", Row(100 << 10), 50},
		{"write 100 KB", write(op(t, 3, 100<<10)), 50},
		{"write a row by two operands", write(op(t, 3, 100), op(t, 3, 100)), 5},
		{"write two rows and an index entry", write(op(t, 3, 100), other, command.Op{Kind: command.OpIndex}), 10.5},
		{"a condition on nothing", Point(0, true), 2},
		{"a counter's row", Point(100, false), 1},
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
}

// TestPricesGrowAndAddUp checks that a price never decreases when bytes or rows are added. The price of a scan must be
// the sum of its parts, regardless of its division into commands and partitions.
func TestPricesGrowAndAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]*command.Read{&point, &serial, &scan, &goesOn}).Draw(t, "command")
		rows, bytes := rapid.Int64Range(0, 1e6).Draw(t, "rows"), rapid.Int64Range(0, 1<<32).Draw(t, "bytes")
		price := func(c *command.Read, rows, bytes int64) Units { return (&Meter{Rows: rows, Bytes: bytes}).Price(c) }
		p := price(c, rows, bytes)
		if price(c, rows+1, bytes) < p || price(c, rows, bytes+1) < p {
			t.Fatalf("%v", p)
		}
		part, some := rapid.Int64Range(0, rows).Draw(t, "part"), rapid.Int64Range(0, bytes).Draw(t, "some")
		whole := price(&scan, rows, bytes)
		if got := price(&scan, part, some) + price(&goesOn, rows-part, bytes-some); got != whole {
			t.Fatalf("two commands: %v, want %v", got.Float(), whole.Float())
		}
		if got := price(&scan, part, some) + price(&scan, rows-part, bytes-some); got != whole+Partition {
			t.Fatalf("two partitions: %v, want %v more than %v", got.Float(), Partition.Float(), whole.Float())
		}
	})
}

// TestDocumentedPrices checks that the price list in docs/request-units.md matches this package.
func TestDocumentedPrices(t *testing.T) {
	text, err := os.ReadFile("../../../docs/request-units.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || cells[0] != "" { // skip lines of shell output, which are not table rows
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(cells[2]), 64); err == nil {
			listed[strings.TrimSpace(cells[1])] = n
		}
	}
	examples := 7
	want := map[string]float64{
		"Point read: one row of up to 1 KB, or no row":                                     PointRead.Float(),
		"Each additional KB of a read in one logical partition":                            ReadKB.Float(),
		"Each row examined, unless it is the only row":                                     ReadRow.Float(),
		"Read without a partition key: each physical partition":                            Partition.Float(),
		"Read without a partition key: each KB":                                            ReadKB.Float(),
		"Factor for reads at `SERIAL` or `LOCAL_SERIAL`, and for the reads of a condition": Serial,
		"Write: each row of up to 1 KB, including deletions and static rows":               WriteRow.Float(),
		"Write: each additional KB of a row":                                               WriteKB.Float(),
		"Each index entry":                                                                 WriteIndex.Float(),
		"Each index entry for a word of a text":                                            WriteTerm.Float(),
	}
	if len(listed) != len(want)+examples {
		t.Errorf("%d prices are documented, want %d", len(listed), len(want)+examples)
	}
	for what, price := range want {
		if math.Abs(listed[what]-price) > 0.00005 {
			t.Errorf("%s: documented %v, is %v", what, listed[what], price)
		}
	}
}
