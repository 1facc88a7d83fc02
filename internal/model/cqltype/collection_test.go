// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func number(v int64) []byte {
	wire, _ := Native(Int).Kind.FromInt64(v)
	return wire
}

// TestCollections checks that collections can be built and read.
func TestCollections(t *testing.T) {
	ints, set, dict := ListOf(Native(Int)), SetOf(Native(Int)), MapOf(Native(Int), Native(Text))
	list := ints.AppendCollection(nil, number(3), number(1))
	if ints.Count(list) != 2 || !bytes.Equal(ints.Element(list, 1), number(1)) || ints.Element(list, 2) != nil ||
		ints.Element(list, -1) != nil {
		t.Errorf("the list is %x", list)
	}
	if got := set.SortedSet([][]byte{number(2), number(-1), number(2)}); !bytes.Equal(got,
		set.AppendCollection(nil, number(-1), number(2))) {
		t.Errorf("the set is %x", got)
	}
	m := dict.SortedMap([][]byte{number(2), []byte("a"), number(1), []byte("b"), number(2), []byte("c")})
	if want := dict.AppendCollection(nil, number(1), []byte("b"), number(2), []byte("c")); !bytes.Equal(m, want) ||
		dict.Count(m) != 2 {
		t.Errorf("the map is %x, want %x: the last of equal keys wins", m, want)
	}
	if v, ok := dict.Lookup(m, number(2)); !ok || string(v) != "c" {
		t.Errorf("2 is %q, %v", v, ok)
	}
	if _, ok := dict.Lookup(m, number(3)); ok {
		t.Error("3 is found")
	}
	if _, ok := set.Lookup(set.SortedSet([][]byte{number(5)}), number(5)); !ok {
		t.Error("5 is not in the set")
	}
	pair := TupleOf(Native(Int), Native(Text))
	tuple := pair.AppendTuple(nil, number(1), nil)
	if pair.Count(tuple) != 2 || pair.Element(tuple, 1) != nil || !bytes.Equal(pair.Element(tuple, 0), number(1)) {
		t.Errorf("the tuple is %x", tuple)
	}
}

// TestCanonical checks that elements in a different order or with duplicates result in the same value, at any depth.
func TestCanonical(t *testing.T) {
	typ := ListOf(SetOf(Native(Int))).Freeze()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(-3, 3), 0, 6).Draw(t, "values")
		shuffled := rapid.Permutation(values).Draw(t, "shuffled")
		if len(values) > 0 {
			shuffled = append(shuffled, values[0])
		}
		build := func(numbers []int64) []byte {
			var wires [][]byte
			for _, n := range numbers {
				wires = append(wires, number(n))
			}
			return typ.Canonical(typ.AppendCollection(nil, typ.Elems[0].AppendCollection(nil, wires...)))
		}
		a, b := build(values), build(shuffled)
		if !bytes.Equal(a, b) || typ.Validate(a) != nil {
			t.Fatalf("%v gives %x, %v gives %x", values, a, shuffled, b)
		}
	})
}

// TestWalkingAllocatesNothing checks that reading collections does not allocate. Filters read collections row by row.
func TestWalkingAllocatesNothing(t *testing.T) {
	dict := MapOf(Native(Int), Native(Text))
	m := dict.SortedMap([][]byte{number(2), []byte("a"), number(1), []byte("b")})
	key := number(2)
	n := testing.AllocsPerRun(100, func() {
		dict.Lookup(m, key)
		for range dict.Elements(m) {
		}
		for range dict.Entries(m) {
		}
		_ = dict.Validate(m)
		dict.Canonical(m)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
