// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// TestDrawnValuesAreValid checks the generators of the property tests against Validate and Canonical.
func TestDrawnValuesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 2)
		wire := drawValue(t, typ)
		if err := typ.Validate(wire); err != nil {
			t.Fatalf("%s: %x: %v", typ, wire, err)
		}
		if got := typ.Canonical(wire); !bytes.Equal(got, wire) {
			t.Fatalf("%s: %x is made %x", typ, wire, got)
		}
	})
}

// TestCompareIsAnOrder checks transitivity, which the pairwise tests do not cover.
func TestCompareIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 1)
		a, b, c := drawValue(t, typ), drawValue(t, typ), drawValue(t, typ)
		if typ.Compare(a, b) <= 0 && typ.Compare(b, c) <= 0 && typ.Compare(a, c) > 0 {
			t.Fatalf("%s: %x, %x, %x", typ, a, b, c)
		}
	})
}

// TestValidateTexts compares the errors of Validate with recorded texts of Cassandra 4.0.
func TestValidateTexts(t *testing.T) {
	listOfInts, mapOfText := ListOf(Native(Int)), MapOf(Native(Int), Native(Text))
	pair := TupleOf(Native(Int), Native(Text))
	for _, c := range []struct {
		typ  *Type
		wire string
		want string
	}{
		{Native(Int), "0001", "Expected 4 or 0 byte int (2)"},
		{Native(Int), "0000000000000001", "Expected 4 or 0 byte int (8)"},
		{Native(Bigint), "00", "Expected 8 or 0 byte long (1)"},
		{Native(Boolean), "0001", "Expected 1 or 0 byte value (2)"},
		{Native(Text), "ff", "String didn't validate."},
		{Native(Text), "c080", ""},
		{Native(Ascii), "80", "Invalid byte for ascii: -128"},
		{Native(UUID), "00", "UUID should be 16 or 0 bytes (1)"},
		{Native(Timeuuid), "6b8b4567327b43c6a456426614174000", "Invalid version for TimeUUID type."},
		{Native(Timeuuid), "", ""},
		{Native(Date), "00", "Expected 4 byte long for date (1)"},
		{Native(Time), "ffffffffffffffff", ""},
		{Native(Timestamp), "00", "Expected 8 or 0 byte long for date (1)"},
		{Native(Inet), "0102", "Expected 4 or 16 byte inetaddress; got 0102"},
		{Native(Decimal), "0102", "Expected 0 or at least 4 bytes (2)"},
		{Native(Float), "01", "Expected 4 or 0 byte value for a float (1)"},
		{Native(Double), "01", "Expected 8 or 0 byte value for a double (1)"},
		{listOfInts, "000000010000000200ff", "Expected 4 or 0 byte int (2)"},
		{mapOfText, "000000010000000400000001ffffffff", "Null value read when not allowed"},
		{mapOfText, "00000001000000040000000100000001ff", "String didn't validate."},
		{listOfInts, "00000001", "Not enough bytes to read a list"},
		{listOfInts, "0000000000", "Unexpected extraneous bytes after list value"},
		{SetOf(Native(Int)), "ffff", "Not enough bytes to read a set"},
		{pair, "00000004000000010000000178", ""},
		{pair, "0000000400000001", ""},
		{pair, "", ""},
		{pair, "00", "Not enough bytes to read size of 0th component"},
		{pair, "00000004000000", "Not enough bytes to read 0th component"},
		{pair, "ffffffffffffffffff", "Invalid remaining data after end of tuple value"},
		{Native(Duration), "0001", "Expected at least 3 bytes for a duration (2)"},
		{Native(Duration), "020100",
			"The duration months, days and nanoseconds must be all of the same sign (1, -1, 0)"},
	} {
		err := c.typ.Validate(unhex(c.wire))
		got := ""
		if invalid, ok := errors.AsType[*dberr.Invalid](err); ok {
			got = invalid.Message
		} else if err != nil {
			t.Errorf("%s %s: %T", c.typ, c.wire, err)
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.typ, c.wire, got, c.want)
		}
	}
	for kind := Ascii; kind <= Varint; kind++ {
		if err := Native(kind).Validate(nil); err != nil {
			t.Errorf("%s: null: %v", Native(kind), err)
		}
	}
}

// FuzzValidate checks that no function panics for valid or invalid bytes. Valid values must be formattable and
// comparable.
func FuzzValidate(f *testing.F) {
	for kind := Ascii; kind <= UDT; kind++ {
		f.Add(uint8(kind), unhex("00000001000000040000000100000001ff"), unhex("0000000400000001ffffffff"))
		f.Add(uint8(kind), unhex("fffffffb64"), unhex("1c32fc2168cdf9d664"))
	}
	f.Fuzz(func(t *testing.T, kind uint8, a, b []byte) {
		typ := fuzzType(kind)
		c := typ.Compare(a, b)
		if typ.Compare(b, a) != -c {
			t.Fatalf("%s: %x and %x", typ, a, b)
		}
		typ.Format(a)
		typ.Text(a)
		typ.Count(a)
		typ.Lookup(a, b)
		typ.Element(a, 1)
		json := typ.AppendJSON(nil, a)
		canonical := typ.Canonical(a)
		if typ.Validate(a) != nil {
			return
		}
		if err := typ.Validate(canonical); err != nil {
			t.Fatalf("%s: %x made %x: %v", typ, a, canonical, err)
		}
		if _, err := ParseJSON(string(json)); err != nil {
			t.Fatalf("%s: %x is %s: %v", typ, a, json, err)
		}
		if !bytes.Equal(typ.Canonical(canonical), canonical) {
			t.Fatalf("%s: %x is not canonical", typ, canonical)
		}
	})
}
