// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// A cursor iterates over the values in the wire form of a collection, tuple, or vector. A negative 32-bit length is
// null.
type cursor struct {
	rest []byte
	left int
	bad  bool
	// lengths is the length of every value, or a constant that states where the lengths are stored (see lengths32).
	lengths int
}

func sequence(wire []byte) cursor { return counted(wire, 1) }
func pairs(wire []byte) cursor    { return counted(wire, 2) }

func counted(wire []byte, per int) cursor {
	if len(wire) < 4 {
		return cursor{bad: true}
	}
	n := int(int32(binary.BigEndian.Uint32(wire)))
	if n < 0 {
		return cursor{bad: true}
	}
	return cursor{rest: wire[4:], left: n * per}
}

// components returns a cursor over a tuple or UDT of up to n components.
func components(wire []byte, n int) cursor { return cursor{rest: wire, left: n} }

// next returns the next value, or nil for null. more is false at the end and for truncated bytes.
func (c *cursor) next() (value []byte, more bool) {
	if c.left == 0 || c.bad {
		return nil, false
	}
	if c.lengths != lengths32 {
		return c.nextElement()
	}
	if len(c.rest) < 4 {
		c.bad = true
		return nil, false
	}
	n := int(int32(binary.BigEndian.Uint32(c.rest)))
	if n < 0 {
		c.rest = c.rest[4:]
		c.left--
		return nil, true
	}
	if n > len(c.rest)-4 {
		c.bad = true
		return nil, false
	}
	value = c.rest[4 : 4+n : 4+n]
	c.rest = c.rest[4+n:]
	c.left--
	return value, true
}

// nextElement is the equivalent of next for the elements of a vector.
func (c *cursor) nextElement() (value []byte, more bool) {
	n, rest := uint64(c.lengths), c.rest
	if c.lengths == lengthsVint {
		var ok bool
		if n, rest, ok = readUvint(rest); !ok {
			c.bad = true
			return nil, false
		}
	}
	if n > uint64(len(rest)) {
		c.bad = true
		return nil, false
	}
	c.rest = rest[n:]
	c.left--
	return rest[:n:n], true
}

// finish returns an error if the collection is malformed.
func (c *cursor) finish(kind string) error {
	if c.bad {
		return dberr.Invalidf("Not enough bytes to read a %s", kind)
	}
	if len(c.rest) > 0 {
		return dberr.Invalidf("Unexpected extraneous bytes after %s value", kind)
	}
	return nil
}

// walk returns a cursor over a value of the type. For a map, it alternates keys and values.
func (t *Type) walk(wire []byte) cursor {
	switch t.Kind {
	case List, Set:
		return sequence(wire)
	case Map:
		return pairs(wire)
	case Vector:
		return t.elements(wire)
	}
	return components(wire, len(t.Elems))
}

// elemType returns the type of the i-th value that walk yields.
func (t *Type) elemType(i int) *Type {
	switch t.Kind {
	case List, Set, Vector:
		return t.Elems[0]
	case Map:
		return t.Elems[i%2]
	}
	return t.Elems[i]
}

// Count returns the number of elements of a list or set, of pairs of a map, or of components present in a tuple or
// UDT. It relies on the header, which is correct for validated values.
func (t *Type) Count(wire []byte) int {
	if t.IsCollection() {
		if len(wire) < 4 {
			return 0
		}
		return max(0, int(int32(binary.BigEndian.Uint32(wire))))
	}
	n := 0
	c := t.walk(wire)
	for {
		if _, more := c.next(); !more {
			return n
		}
		n++
	}
}

// Elements yields the elements of a list, set, or vector in order, or the components of a tuple or UDT. A nil
// component represents null. Missing trailing components are not yielded. Elements alias wire.
func (t *Type) Elements(wire []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		c := t.walk(wire)
		for i := 0; ; i++ {
			elem, more := c.next()
			if !more || !yield(i, elem) {
				return
			}
		}
	}
}

// Entries yields the keys and values of a map in the order of the keys.
func (t *Type) Entries(wire []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		c := pairs(wire)
		for {
			key, _ := c.next()
			value, more := c.next()
			if !more || !yield(key, value) {
				return
			}
		}
	}
}

// Element returns the i-th element of a list or set, the i-th component of a tuple, or the i-th field of a UDT.
// Element returns nil if this value is null or missing.
func (t *Type) Element(wire []byte, i int) []byte {
	if i < 0 {
		return nil
	}
	for j, elem := range t.Elements(wire) {
		if j == i {
			return elem
		}
	}
	return nil
}

// Lookup returns the value of a key in a map, or the element itself in a set. ok is false if the map or set does not
// contain the key.
func (t *Type) Lookup(wire, key []byte) (value []byte, ok bool) {
	c := t.walk(wire)
	for {
		k, more := c.next()
		if !more {
			return nil, false
		}
		v := k
		if t.Kind == Map {
			if v, more = c.next(); !more {
				return nil, false
			}
		}
		if t.Elems[0].Compare(k, key) == 0 {
			return v, true
		}
	}
}

// AppendCollection appends the wire form of a list, or of a set or map whose elements are already sorted. For a map,
// elems alternates keys and values.
func (t *Type) AppendCollection(dst []byte, elems ...[]byte) []byte {
	n := len(elems)
	if t.Kind == Map {
		n /= 2
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	for _, e := range elems {
		dst = AppendValue(dst, e)
	}
	return dst
}

// AppendTuple appends the wire form of a tuple or UDT. A nil component represents null.
func (t *Type) AppendTuple(dst []byte, components ...[]byte) []byte {
	if dst == nil {
		dst = []byte{}
	}
	for _, e := range components {
		dst = AppendValue(dst, e)
	}
	return dst
}

// AppendValue appends a value after its 32-bit length. The length of null is -1.
func AppendValue(dst, value []byte) []byte {
	if value == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// SortedSet returns the wire form of a set, with sorted and distinct elements. It reorders elems in place.
func (t *Type) SortedSet(elems [][]byte) []byte {
	slices.SortStableFunc(elems, t.Elems[0].Compare)
	elems = slices.CompactFunc(elems, func(a, b []byte) bool { return t.Elems[0].Compare(a, b) == 0 })
	return t.AppendCollection(nil, elems...)
}

// SortedMap returns the wire form of a map. flat alternates keys and values. Entries are sorted by key. If several
// keys are equal, the last entry is used.
func (t *Type) SortedMap(flat [][]byte) []byte {
	type pair struct{ key, value []byte }
	sorted := make([]pair, 0, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		sorted = append(sorted, pair{flat[i], flat[i+1]})
	}
	slices.SortStableFunc(sorted, func(a, b pair) int { return t.Elems[0].Compare(a.key, b.key) })
	out := make([][]byte, 0, len(flat))
	for i, p := range sorted {
		if i > 0 && t.Elems[0].Compare(sorted[i-1].key, p.key) == 0 {
			out[len(out)-1] = p.value
			continue
		}
		out = append(out, p.key, p.value)
	}
	return t.AppendCollection(nil, out...)
}

// Canonical returns the value with sorted sets and maps without duplicates at any depth. A bound value must be
// canonical before it is stored or compared. If wire is already canonical or is invalid, Canonical returns wire
// itself.
func (t *Type) Canonical(wire []byte) []byte {
	if len(wire) == 0 || len(t.Elems) == 0 || isCanonical(t, wire) {
		return wire
	}
	var values [][]byte
	c := t.walk(wire)
	for i := 0; ; i++ {
		v, more := c.next()
		if !more {
			break
		}
		values = append(values, t.elemType(i).Canonical(v))
	}
	switch {
	case c.bad && t.IsCollection():
		return wire
	case t.Kind == Set:
		return t.SortedSet(values)
	case t.Kind == Map:
		return t.SortedMap(values)
	case t.Kind == List:
		return t.AppendCollection(nil, values...)
	case t.Kind == Vector:
		if c.bad {
			return wire
		}
		return t.AppendVector(nil, values...)
	}
	return t.AppendTuple(nil, values...)
}

// isCanonical reports whether wire is canonical. It does not allocate.
func isCanonical(t *Type, wire []byte) bool {
	var last []byte
	c := t.walk(wire)
	for i := 0; ; i++ {
		v, more := c.next()
		if !more {
			return true
		}
		e := t.elemType(i)
		if len(e.Elems) > 0 && len(v) > 0 && !isCanonical(e, v) {
			return false
		}
		if t.Kind == Set || t.Kind == Map && i%2 == 0 {
			if i > 0 && e.Compare(last, v) >= 0 {
				return false
			}
			last = v
		}
	}
}
