// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestKeyOrder checks that key forms compare in the same order as values, ascending and descending. Null must be first
// in both orders.
func TestKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 2)
		a, b := drawOrNull(t, typ), drawOrNull(t, typ)
		want := typ.Compare(a, b)
		if back := typ.Compare(b, a); back != -want {
			t.Fatalf("%s: Compare(%x, %x) = %d, the other way %d", typ, a, b, want, back)
		}
		for _, desc := range []bool{false, true} {
			got := bytes.Compare(typ.AppendKey(nil, a, desc), typ.AppendKey(nil, b, desc))
			if desc && a != nil && b != nil {
				got = -got
			}
			if got != want {
				t.Fatalf("%s desc=%v: keys of %x and %x compare as %d, values as %d", typ, desc, a, b, got, want)
			}
		}
	})
}

// TestNullForm pins the stored form of null, which occurs in the clustering keys of compact tables. It is the byte 01
// in both orders. A build must still be able to read the form that older builds wrote for null in a descending column.
func TestNullForm(t *testing.T) {
	typ := Native(Int)
	for _, desc := range []bool{false, true} {
		if got := typ.AppendKey(nil, nil, desc); !bytes.Equal(got, []byte{1}) {
			t.Errorf("desc=%v: the form of null is %x", desc, got)
		}
	}
	for _, form := range []byte{0x01, 0xfe} {
		got, rest, err := typ.ReadKey(nil, []byte{form, 7}, true)
		if got != nil || !bytes.Equal(rest, []byte{7}) || err != nil {
			t.Errorf("%02x reads as %x, rest %x, %v", form, got, rest, err)
		}
	}
}

func drawOrNull(t *rapid.T, typ *Type) []byte {
	if rapid.IntRange(0, 15).Draw(t, "is null") == 0 {
		return nil
	}
	return drawValue(t, typ)
}

// TestKeyRoundTrip checks that a key form is self-delimiting. Reading the form must return an equal value with the
// same form. A normalized value must be returned unchanged.
func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 2)
		wire := drawOrNull(t, typ)
		desc := rapid.Bool().Draw(t, "desc")
		tail := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "tail")
		form := typ.AppendKey([]byte("before"), wire, desc)
		src := append(bytes.Clone(form[len("before"):]), tail...)

		got, rest, err := typ.ReadKey([]byte("dst"), src, desc)
		if err != nil || !bytes.Equal(rest, tail) {
			t.Fatalf("%s: %x reads as %x, rest %x, %v", typ, src, got, rest, err)
		}
		if skipped, err := typ.SkipKey(src, desc); err != nil || !bytes.Equal(skipped, tail) {
			t.Fatalf("%s: %x skipped to %x, %v", typ, src, skipped, err)
		}
		if (got == nil) != (wire == nil) || typ.Compare(got, wire) != 0 || typ.Validate(got) != nil {
			t.Fatalf("%s: %x was decoded as %x", typ, wire, got)
		}
		normal, _, err := typ.ReadKey(nil, typ.AppendKey(nil, got, desc), desc)
		if err != nil || !bytes.Equal(normal, got) {
			t.Fatalf("%s: %x, normal, came back as %x, %v", typ, got, normal, err)
		}
	})
}

// TestKeyPrefix checks that concatenated forms are ordered like tuples, and that AfterPrefix bounds all forms with a
// prefix.
func TestKeyPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawType(t, 1), drawType(t, 1)
		desc := rapid.Bool().Draw(t, "desc")
		a, b := drawOrNull(t, first), drawOrNull(t, first)
		x, y := drawOrNull(t, second), drawOrNull(t, second)
		ax := second.AppendKey(first.AppendKey(nil, a, desc), x, false)
		by := second.AppendKey(first.AppendKey(nil, b, desc), y, false)
		want := first.Compare(a, b)
		if desc && a != nil && b != nil {
			want = -want
		}
		if want == 0 {
			want = second.Compare(x, y)
		}
		if got := bytes.Compare(ax, by); got != want {
			t.Fatalf("(%s, %s): (%x, %x) and (%x, %x) compare as %d, want %d", first, second, a, x, b, y, got, want)
		}
		after := AfterPrefix(first.AppendKey(nil, a, desc))
		if inside := first.Compare(a, b) == 0; inside && bytes.Compare(by, after) >= 0 {
			t.Fatalf("%x is not before %x", by, after)
		} else if !inside && bytes.Compare(by, ax) > 0 && bytes.Compare(by, after) < 0 {
			t.Fatalf("%x is before %x", by, after)
		}
	})
}

func TestAfterPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{{"a", "b"}, {"a\xff\xff", "b"}, {"\x00", "\x01"},
		{"a\xfe\xff", "a\xff"}} {
		if got := AfterPrefix([]byte(c.prefix)); string(got) != c.want {
			t.Errorf("AfterPrefix(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
	if got := AfterPrefix([]byte("\xff\xff")); got != nil {
		t.Errorf("AfterPrefix of FF FF = %x", got)
	}
	if got := AfterPrefix(nil); got != nil {
		t.Errorf("AfterPrefix of nothing = %x", got)
	}
}

// TestRecordedOrder checks the order in which Cassandra 4.0 returned values as clustering keys.
func TestRecordedOrder(t *testing.T) {
	for _, c := range []struct {
		typ    *Type
		values []string
	}{
		{Native(Timeuuid), []string{"00000000000010008080808080808080", "ffffffff000010008080808080808080",
			"00000000000110008080808080808080", "50554d6e29bb11e5b345feff819cdc9f",
			"50554d6e29bb11e57f7f7f7f7f7f7f7f"}},
		{Native(UUID), []string{"00000000000000000000000000000000", "50554d6e29bb11e5b345feff819cdc9f",
			"ffffffffffff1fffbfffffffffffffff", "00000000000040008000000000000000",
			"6b8b4567327b43c6a456426614174000"}},
		{Native(Inet), []string{"00000000000000000000000000000001", "09000001", "0a000002", "c8000001"}},
		{Native(Tinyint), []string{"ff", "00", "01"}},
		{Native(Double), []string{"fff0000000000000", "8000000000000000", "0000000000000000", "3ff8000000000000",
			"7ff0000000000000", "7ff8000000000000"}},
		{Native(Decimal), []string{"00000000fb", "000000010a", "000000000a"}},
		{Native(Varint), []string{"fed4", "05", "012c", "056bc75e2d630fffff"}},
		{Native(Text), []string{"", "42", "62", "6261", "c3a9"}},
		{Native(Timestamp), []string{"fffffffffffffffb", "0000000000000000", "0000000000000005"}},
		{TupleOf(Native(Int), Native(Int)), []string{"00000004ffffffff0000000400000009", "0000000400000001ffffffff",
			"00000004000000010000000400000005", "00000004000000020000000400000001"}},
		{UDTOf("ks", "p", []string{"a", "b"}, []*Type{Native(Int), Native(Text)}).Freeze(),
			[]string{"ffffffff000000017a", "00000004fffffffb000000017a", "0000000400000001ffffffff",
				"00000004000000020000000161", "00000004000000020000000162"}},
	} {
		for i := range c.values {
			for j := range c.values {
				a, b := unhex(c.values[i]), unhex(c.values[j])
				if got := c.typ.Compare(a, b); got != cmp.Compare(i, j) {
					t.Errorf("%s: Compare(%x, %x) = %d", c.typ, a, b, got)
				}
				if got := bytes.Compare(c.typ.AppendKey(nil, a, false),
					c.typ.AppendKey(nil, b, false)); got != cmp.Compare(i, j) {
					t.Errorf("%s: keys of %x and %x compare as %d", c.typ, a, b, got)
				}
			}
		}
	}
}

// TestEqualValuesShareAKey checks values that are the same clustering key in Cassandra although their bytes differ. It
// also checks the value that is read from the key.
func TestEqualValuesShareAKey(t *testing.T) {
	for _, c := range []struct {
		typ        *Type
		a, b, back string
	}{
		{Native(Decimal), "000000010a", "0000000264", "0000000001"}, // 1.0 and 1.00 become 1
		{Native(Decimal), "ffffffff01", "000000000a", "000000000a"}, // 1E+1 and 10 become 10
		{Native(Decimal), "0000000500", "0000000000", "0000000000"}, // 0.00000 and 0 become 0
		// The value has too many zeros for a form without an exponent.
		{Native(Decimal), "fffff1f701", "fffff1f800000a", "fffff1f701"},
		{Native(Varint), "00000005", "05", "05"},
		{Native(Varint), "ffff80", "80", "80"},
		{Native(Boolean), "02", "01", "01"},
		{Native(Float), "7fc00001", "7fc00000", "7fc00000"},
		{Native(Double), "fff8000000000000", "7ff8000000000000", "7ff8000000000000"},
		{TupleOf(Native(Int), Native(Int)), "0000000400000001", "0000000400000001ffffffff", "0000000400000001ffffffff"},
	} {
		a, b := c.typ.AppendKey(nil, unhex(c.a), false), c.typ.AppendKey(nil, unhex(c.b), false)
		if !bytes.Equal(a, b) || c.typ.Compare(unhex(c.a), unhex(c.b)) != 0 {
			t.Errorf("%s: keys of %s and %s are %x and %x", c.typ, c.a, c.b, a, b)
		}
		if got, _, err := c.typ.ReadKey(nil, a, false); err != nil || !bytes.Equal(got, unhex(c.back)) {
			t.Errorf("%s: the key of %s reads as %x, %v, want %s", c.typ, c.a, got, err, c.back)
		}
	}
}

// TestKeysOfExactTypes checks that values of types other than numeric and composed types do not change.
func TestKeysOfExactTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := Native(rapid.SampledFrom([]Kind{Ascii, Bigint, Blob, Date, Duration, Inet, Int, Smallint, Text, Time,
			Timestamp, Timeuuid, Tinyint, UUID}).Draw(t, "kind"))
		wire := drawValue(t, typ)
		got, _, err := typ.ReadKey(nil, typ.AppendKey(nil, wire, true), true)
		if err != nil || !bytes.Equal(got, wire) {
			t.Fatalf("%s: %x came back as %x, %v", typ, wire, got, err)
		}
	})
}

// TestReadKeyReusesDst checks that one buffer can hold several values.
func TestReadKeyReusesDst(t *testing.T) {
	key := Native(Int).AppendKey(Native(Text).AppendKey(nil, []byte("a\x00b"), true), []byte{0, 0, 0, 7}, false)
	buf := make([]byte, 0, 64)
	allocs := testing.AllocsPerRun(10, func() {
		text, rest, err := Native(Text).ReadKey(buf, key, true)
		if err != nil || string(text) != "a\x00b" {
			t.Fatalf("%q, %v", text, err)
		}
		number, rest, err := Native(Int).ReadKey(text[len(text):], rest, false)
		if err != nil || len(rest) != 0 || number[3] != 7 || string(text) != "a\x00b" {
			t.Fatalf("%x, %x, %v", number, rest, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// FuzzKey checks that reading and skipping never panic and that they agree with each other. The test also checks that
// accepted bytes produce a value whose key can be read again.
func FuzzKey(f *testing.F) {
	for kind := Ascii; kind <= Varint; kind++ {
		f.Add(uint8(kind), false, Native(kind).AppendKey(nil, []byte{0, 0, 0, 1, 5, 0, 7, 8}, false))
		f.Add(uint8(kind), true, Native(kind).AppendKey(nil, []byte{0xff, 0}, true))
	}
	f.Add(uint8(Map), false, fuzzType(uint8(Map)).AppendKey(nil, unhex("00000001000000016100000004000000020000000162"),
		false))
	f.Fuzz(func(t *testing.T, kind uint8, desc bool, src []byte) {
		typ := fuzzType(kind)
		wire, rest, err := typ.ReadKey(nil, src, desc)
		skipped, skipErr := typ.SkipKey(src, desc)
		if err != nil {
			return
		}
		if skipErr != nil || len(skipped) != len(rest) {
			t.Fatalf("%s: read leaves %x, skip %x, %v", typ, rest, skipped, skipErr)
		}
		again, _, err := typ.ReadKey(nil, typ.AppendKey(nil, wire, desc), desc)
		if err != nil || typ.Compare(wire, again) != 0 {
			t.Fatalf("%s: %x, then %x, %v", typ, wire, again, err)
		}
	})
}

// fuzzType maps a number to a native type or to one of several composed types.
func fuzzType(kind uint8) *Type {
	switch k := Kind(kind); {
	case k == List:
		return ListOf(Native(Decimal)).Freeze()
	case k == Set:
		return SetOf(TupleOf(Native(Text), Native(Varint))).Freeze()
	case k == Map:
		return MapOf(Native(Text), ListOf(Native(Int))).Freeze()
	case k == Tuple:
		return TupleOf(Native(Int), Native(Text), Native(Duration))
	case k == UDT:
		return UDTOf("ks", "u", []string{"a", "B"}, []*Type{Native(Timestamp), Native(Inet)}).Freeze()
	case k >= Ascii && k <= Varint:
		return Native(k)
	}
	return Native(Blob)
}

// BenchmarkAppendKey measures the CPU time to encode clustering keys of common types.
func BenchmarkAppendKey(b *testing.B) {
	for _, c := range []struct {
		typ  *Type
		wire string
	}{
		{Native(Int), "00000007"},
		{Native(Timestamp), "0000012de9b1cde0"},
		{Native(Timeuuid), "50554d6e29bb11e5b345feff819cdc9f"},
		{Native(Text), "61206c6f6e67657220636c7573746572696e672076616c7565"},
		{Native(Varint), "056bc75e2d630fffff"},
		{Native(Decimal), "0000000264"},
	} {
		for _, desc := range []bool{false, true} {
			b.Run(fmt.Sprintf("type=%s/desc=%v", c.typ, desc), func(b *testing.B) {
				wire := unhex(c.wire)
				dst := make([]byte, 0, 128)
				b.ReportAllocs()
				for b.Loop() {
					dst = c.typ.AppendKey(dst[:0], wire, desc)
				}
			})
		}
	}
}
