// SPDX-License-Identifier: Apache-2.0

package row

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestInsertCostsOneTimestamp pins the bytes of an INSERT of two columns, with and without a TTL.
func TestInsertCostsOneTimestamp(t *testing.T) {
	var b Builder
	b.Reset(0x0102030405060708)
	b.Live(0, 0)
	b.Cell(4, nil, []byte("v"), 0, 0)
	b.Cell(3, nil, []byte{}, 0, 0)
	if got, want := hex.EncodeToString(b.Bytes()), "01"+"0102030405060708"+"01"+"03"+"00"+"01"+"04"+"01"+
		"76"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.Reset(1)
	b.Live(60, 100)
	b.DeleteColumn(5, -1, 40)
	b.Cell(5, []byte("p"), nil, 60, 100)
	b.Tombstone(6, nil, 40)
	want := "03" + "0000000000000001" + "3c64" + "04" + "05" + "28" + "12" + "05" + "0170" + "3c64" + "00" + "03" +
		"06" + "28"
	if got := hex.EncodeToString(b.Bytes()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOnePlaceTwice checks that the merge rule applies if one operand contains two entries for the same cell. The
// order of the entries must not matter.
func TestOnePlaceTwice(t *testing.T) {
	var b Builder
	for _, order := range [][]string{{"first", "a"}, {"a", "first"}} {
		b.Reset(7)
		b.Cell(2, nil, []byte("z"), 0, 0)
		b.Cell(3, nil, []byte("gone"), 0, 0)
		for _, v := range order {
			b.Cell(1, nil, []byte(v), 0, 0)
		}
		b.Tombstone(3, nil, 1)
		b.Cell(3, nil, []byte("stays gone"), 0, 0)
		var r Row
		if ok, err := r.Resolve(b.Bytes(), NotDeleted, 0, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := string(r.Cell(1).Value); got != "first" || len(r.Cells) != 2 {
			t.Errorf("got %q in %d cells", got, len(r.Cells))
		}
	}
}

// TestHotPathAllocatesNothing checks that building, merging, and resolving a row of five columns does not allocate
// once the buffers have grown.
func TestHotPathAllocatesNothing(t *testing.T) {
	var b Builder
	var m Merger
	var r Row
	out := make([]byte, 0, 4096)
	value := bytes.Repeat([]byte("x"), 40)
	work := func() {
		b.Reset(Unstamped)
		b.Live(0, 0)
		for c := range uint32(5) {
			b.Cell(c+1, nil, value, 0, 0)
		}
		op := b.Bytes()
		Stamp(op, 5)
		m.Reset()
		for range 2 {
			if err := m.Add(op); err != nil {
				t.Fatal(err)
			}
		}
		out = m.Append(out[:0])
		if ok, err := r.Resolve(out, NotDeleted, 9, nil); !ok || err != nil || len(r.Cells) != 5 {
			t.Fatal(ok, err)
		}
	}
	work()
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCheck checks that only operands that set a marker or a cell can make a row visible.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *Builder)
		want  bool
	}{
		{"nothing", func(*Builder) {}, false},
		{"marker", func(b *Builder) { b.Live(0, 0) }, true},
		{"deletions", func(b *Builder) {
			b.DeleteRow(1)
			b.DeleteColumn(1, 0, 1)
			b.Tombstone(2, nil, 1)
			b.DeleteRange(nil, nil, 1)
		}, false},
		{"cell", func(b *Builder) { b.Tombstone(1, nil, 1); b.Cell(2, nil, nil, 0, 0) }, true},
		{"expiring cell", func(b *Builder) { b.Cell(2, nil, nil, 1, 1) }, true},
	} {
		var b Builder
		b.Reset(Unstamped)
		if c.build(&b); b.Empty() != (c.name == "nothing") {
			t.Errorf("%s: empty is %v", c.name, b.Empty())
		}
		if got, _, err := Check(b.Bytes()); got != c.want || err != nil {
			t.Errorf("%s: %v %v", c.name, got, err)
		}
	}
}

// TestLongValues checks that values whose lengths are near the limits of a length encoding can be read again.
func TestLongValues(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 255, 256, 16383, 16384, 1 << 20} {
		value := bytes.Repeat([]byte{0xff}, n)
		var r Row
		ok, err := r.Resolve(benchOperand(3, value), NotDeleted, 0, nil)
		if !ok || err != nil || len(r.Cells) != 3 || !bytes.Equal(r.Cells[2].Value, value) || r.Cells[2].Value == nil {
			t.Errorf("%d bytes: %v %v, %d cells", n, ok, err, len(r.Cells))
		}
	}
}

// TestSizeIsLogical checks that the size of a row does not depend on the operands that produced it.
func TestSizeIsLogical(t *testing.T) {
	var b Builder
	b.Reset(5)
	b.Live(0, 0)
	b.Cell(1, nil, []byte("abc"), 0, 0)
	b.Cell(2, []byte("p"), []byte("v"), 0, 0)
	one := bytes.Clone(b.Bytes())
	b.Reset(3)
	b.Cell(1, nil, []byte("older"), 0, 0)
	two, err := Merge(nil, one, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range [][]byte{one, two} {
		var r Row
		if _, err := r.Resolve(value, NotDeleted, 0, nil); err != nil || r.Size() != 9+4+3+4+2 ||
			Size(one) != r.Size() {
			t.Errorf("size %d, operand %d, %v", r.Size(), Size(one), err)
		}
	}
}

func seeds(f *testing.F) {
	var b Builder
	b.Reset(9)
	b.Live(5, 7)
	b.DeleteRow(3)
	b.DeleteColumn(1, -1, 2)
	b.Cell(1, []byte("p"), []byte("v"), 0, 0)
	b.CellAt(2, nil, []byte("w"), 4, 3, 8)
	b.Tombstone(3, nil, 2)
	f.Add(bytes.Clone(b.Bytes()), []byte{})
	b.Reset(2)
	b.DeleteRange([]byte("a"), []byte("b"), 3)
	b.DeleteRange([]byte("aa"), nil, 4)
	b.CellAt(1, nil, nil, 3, 0, 0)
	f.Add(bytes.Clone(b.Bytes()), []byte{0})
}

// FuzzResolve checks that no input makes a reader panic. Bytes that can be read as a row must also be mergeable.
func FuzzResolve(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, value, _ []byte) {
		var r Row
		var h Header
		_, err := r.Resolve(value, 3, 5, []cqltype.Dropped{{Column: 2, Upto: 4}})
		herr := h.Resolve(value, 5, nil)
		_, _ = Oldest(value, 3, nil)
		_, _ = Size(value), Stamp(bytes.Clone(value), 3)
		_, _, cerr := Check(value)
		Deletes(value, func([]byte) {})
		Split(value)
		var m Merger
		m.Reset()
		merr := m.Add(value)
		if (err == nil) != (merr == nil) || (herr == nil) != (err == nil) || (cerr == nil) != (err == nil) {
			t.Errorf("resolve %v, header %v, merge %v", err, herr, merr)
		}
	})
}

// FuzzMerge checks that a merge of two byte strings returns an error or a canonical row that can be read.
func FuzzMerge(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		out, err := Merge(nil, a, b)
		if err != nil {
			return
		}
		var r Row
		if _, err := r.Resolve(out, NotDeleted, 0, nil); err != nil {
			t.Fatalf("%x does not read: %v", out, err)
		}
		if again, err := Merge(nil, out, out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%x is not canonical: %x %v", out, again, err)
		}
	})
}

func benchOperand(cells int, value []byte) []byte {
	var b Builder
	b.Reset(1_700_000_000_000_000)
	b.Live(0, 0)
	for c := range cells {
		b.Cell(uint32(c+1), nil, value, 0, 0)
	}
	return bytes.Clone(b.Bytes())
}

// BenchmarkRow measures the CPU time of building, merging, and resolving a row.
func BenchmarkRow(b *testing.B) {
	value := bytes.Repeat([]byte("x"), 40)
	insert := benchOperand(5, value)
	var bd Builder
	bd.Reset(1_700_000_000_000_001)
	bd.Cell(3, nil, value, 0, 0)
	update := bytes.Clone(bd.Bytes())
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bd.Reset(1)
			bd.Live(0, 0)
			for c := range uint32(5) {
				bd.Cell(c+1, nil, value, 0, 0)
			}
			bd.Bytes()
		}
	})
	for _, size := range []int{40, 200} {
		b.Run(fmt.Sprintf("resolve/value=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			op := benchOperand(5, bytes.Repeat([]byte("x"), size))
			var r Row
			for b.Loop() {
				if ok, err := r.Resolve(op, NotDeleted, 1, nil); !ok || err != nil || len(r.Cells) != 5 {
					b.Fatal(err)
				}
			}
		})
	}
	for _, k := range []int{2, 1000} {
		b.Run(fmt.Sprintf("merge/operands=%d", k), func(b *testing.B) {
			b.ReportAllocs()
			var m Merger
			var out []byte
			for b.Loop() {
				m.Reset()
				_ = m.Add(insert)
				for range k - 1 {
					_ = m.Add(update)
				}
				out = m.Append(out[:0])
			}
		})
	}
}
