// SPDX-License-Identifier: Apache-2.0

package ru

import (
	"testing"
	"time"

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

// Whatever is charged, the bucket admits while its balance is positive, and over time lets through its rate and a
// second's worth more, plus the one command that it goes into debt for.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		begin := now
		var b Bucket
		rate := Units(rapid.Int64Range(1, 10_000).Draw(t, "rate")) * Unit
		b.SetRate(rate, now)
		var charged, largest Units
		for range rapid.IntRange(1, 200).Draw(t, "commands") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e6, 3e8).Draw(t, "pause")))
			wait, ok := b.Admit(now)
			if ok != (b.Balance() > 0) {
				t.Fatalf("admitted %v with a balance of %d", ok, b.Balance())
			}
			if !ok {
				if wait <= 0 {
					t.Fatal("no time to wait")
				}
				later := b
				if _, ok := later.Admit(now.Add(wait + 2*time.Millisecond)); !ok {
					t.Fatalf("still not admitted after %v, balance %d of %d", wait, later.Balance(), rate)
				}
				continue
			}
			u := Units(rapid.Int64Range(1, 50_000).Draw(t, "units"))
			b.Charge(u)
			charged, largest = charged+u, max(largest, u)
		}
		allowed := float64(rate)*(now.Sub(begin).Seconds()+1.01) + float64(largest) + 1
		if float64(charged) > allowed {
			t.Fatalf("charged %d, allowed %f", charged, allowed)
		}
		if b.Balance() > rate {
			t.Fatalf("balance %d above one second of %d", b.Balance(), rate)
		}
	})
}

// Without a rate everything is admitted; a long pause fills the bucket and no more.
func TestBucketEdges(t *testing.T) {
	var b Bucket
	now := time.Unix(1000, 0)
	b.Charge(1 << 60)
	if _, ok := b.Admit(now); !ok {
		t.Error("a bucket without a rate refused")
	}
	b.SetRate(400*Unit, now)
	b.Charge(1000 * Unit)
	if wait, ok := b.Admit(now); ok || wait < 1500*time.Millisecond || wait > 1501*time.Millisecond {
		t.Errorf("in debt of 600 at 400 a second: %v, %v", wait, ok)
	}
	if _, ok := b.Admit(now.Add(100 * 365 * 24 * time.Hour)); !ok || b.Balance() != 400*Unit {
		t.Errorf("after a century the balance is %d", b.Balance())
	}
	b.SetRate(100*Unit, now.Add(101*365*24*time.Hour))
	if b.Balance() != 100*Unit {
		t.Errorf("after the rate fell the balance is %d", b.Balance())
	}
}
