// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// TestVectors checks the wire form, text, class, and validity of vectors against Cassandra 5.0.5. Elements with a
// fixed width are concatenated. Each other element is preceded by its length, even if all values of the type have the
// same length.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		typ        *Type
		name, wire string
		text, err  string
	}{
		{VectorOf(Native(Float), 2), "vector<float, 2>", "3f80000040000000", "[1.0, 2.0]", ""},
		{VectorOf(Native(Float), 2), "vector<float, 2>", "3f800000", "", "Not enough bytes to read a vector<float, 2>"},
		{VectorOf(Native(Float), 2), "vector<float, 2>", "3f80000040000000ff", "",
			"Unexpected 1 extraneous bytes after vector<float, 2> value"},
		{VectorOf(Native(Float), 2), "vector<float, 2>", "", "", "Invalid empty vector value"},
		{VectorOf(Native(Text), 2), "vector<text, 2>", "0161026263", "['a', 'bc']", ""},
		{VectorOf(Native(Text), 2), "vector<text, 2>", "0000", "['', '']", ""},
		{VectorOf(Native(Text), 2), "vector<text, 2>", "0261", "", "Not enough bytes to read a vector<text, 2>"},
		{VectorOf(Native(Text), 1), "vector<text, 1>", "01ff", "", "String didn't validate."},
		{VectorOf(VectorOf(Native(Int), 1), 2), "vector<vector<int, 1>, 2>", "0000000100000002", "[[1], [2]]", ""},
		{VectorOf(ListOf(Native(Int)), 1), "vector<frozen<list<int>>, 1>", "080000000100000004", "",
			"Not enough bytes to read a list"},
		{VectorOf(ListOf(Native(Int)), 1), "vector<frozen<list<int>>, 1>", "0c000000010000000400000007", "[[7]]", ""},
	} {
		wire, err := hex.DecodeString(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		if c.typ.String() != c.name {
			t.Errorf("%s, want %s", c.typ, c.name)
		}
		if back := ParseJavaClass(c.typ.JavaClass()); back == nil || !back.Equal(c.typ) {
			t.Errorf("%s was decoded as %v", c.typ.JavaClass(), back)
		}
		switch err := c.typ.Validate(wire); {
		case err != nil && err.Error() != c.err:
			t.Errorf("%s %s: %v", c.typ, c.wire, err)
		case err == nil && c.err != "":
			t.Errorf("%s %s is valid", c.typ, c.wire)
		case err == nil && c.typ.Format(wire) != c.text:
			t.Errorf("%s %s: %s", c.typ, c.wire, c.typ.Format(wire))
		}
	}
}

// TestClasses checks that a class without a CQL type is rejected.
func TestClasses(t *testing.T) {
	for _, class := range []string{"", "com.example.Type", marshal + "VectorType", marshal + "VectorType()",
		marshal + "VectorType(" + marshal + "FloatType)", marshal + "VectorType(" + marshal + "FloatType , 0)",
		marshal + "VectorType(" + marshal + "FloatType , 2) more", marshal + "ListType(" + marshal + "Int32Type",
		marshal + "MapType(" + marshal + "Int32Type)", marshal + "FloatType , 2"} {
		if typ := ParseJavaClass(class); typ != nil {
			t.Errorf("%q is read as %s", class, typ)
		}
	}
}

// TestVectorInvariants checks that any valid vector can be split and reassembled. Truncated bytes must be invalid.
func TestVectorInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := VectorOf(drawType(t, 2), rapid.IntRange(1, 4).Draw(t, "dimension"))
		wire := drawVector(t, typ)
		var elems [][]byte
		for _, e := range typ.Elements(wire) {
			elems = append(elems, e)
		}
		if len(elems) != typ.Dimension || !bytes.Equal(typ.AppendVector(nil, elems...), wire) {
			t.Fatalf("%s: %x was split into %x", typ, wire, elems)
		}
		if err := typ.Validate(wire); err != nil {
			t.Fatalf("%s: %x: %v", typ, wire, err)
		}
		if cut := wire[:rapid.IntRange(0, len(wire)-1).Draw(t, "cut")]; typ.Validate(cut) == nil {
			t.Fatalf("%s: %x, truncated to %x, is valid", typ, cut, wire)
		}
	})
}
