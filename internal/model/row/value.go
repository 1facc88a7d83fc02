// SPDX-License-Identifier: Apache-2.0

package row

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

var smallint = &cqltype.Type{Kind: cqltype.Smallint}

// MultiCell reports whether a column of type t is stored as one cell per element.
func MultiCell(t *cqltype.Type) bool {
	switch t.Kind {
	case cqltype.List, cqltype.Set, cqltype.Map, cqltype.UDT:
		return !t.Frozen
	}
	return false
}

// CounterPath returns the path of the cell that holds a region's share of a counter. Only the leaders of the region
// write the cell, so the totals of two regions never overwrite each other. The value of the counter is the sum of its
// cells. In region 0, which is the first region, the cell has no path.
func CounterPath(region uint32) []byte {
	if region == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, region)
}

// OneCell reports whether a column of type t always has at most one cell. This cell holds the value of the column. A
// counter has one cell per region.
func OneCell(t *cqltype.Type) bool { return t.Kind != cqltype.Counter && !MultiCell(t) }

// AppendValue appends the wire form of a column to dst. The wire form is the value of a single-cell column, the sum of
// a counter's cells, or a collection or UDT. Collections and UDTs are built from the cells of a multi-cell column, in
// order. Missing UDT fields are null. A column without cells is null, but AppendValue does not handle this case. The
// caller must handle it. An error wraps ErrCorrupt.
func AppendValue(dst []byte, t *cqltype.Type, cells []Cell) ([]byte, error) {
	if t.Kind == cqltype.Counter {
		return appendSum(dst, cells)
	}
	if !MultiCell(t) {
		if len(cells) != 1 {
			return dst, fmt.Errorf("%d cells in a single-cell column: %w", len(cells), ErrCorrupt)
		}
		return append(dst, cells[0].Value...), nil
	}
	if t.Kind == cqltype.UDT {
		return appendUDT(dst, t, cells)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(cells)))
	for i := range cells {
		c := &cells[i]
		if t.Kind != cqltype.List {
			var err error
			if dst, err = appendPath(dst, t.Elems[0], c.Path); err != nil {
				return dst, err
			}
		}
		if t.Kind != cqltype.Set {
			dst = appendWire(dst, c.Value)
		}
	}
	return dst, nil
}

// appendSum adds the cells of a counter. The sum wraps around, as in Cassandra.
func appendSum(dst []byte, cells []Cell) ([]byte, error) {
	var sum uint64
	for i := range cells {
		if len(cells[i].Value) != 8 {
			return dst, fmt.Errorf("counter cell of %d bytes: %w", len(cells[i].Value), ErrCorrupt)
		}
		sum += binary.BigEndian.Uint64(cells[i].Value)
	}
	return binary.BigEndian.AppendUint64(dst, sum), nil
}

func appendUDT(dst []byte, t *cqltype.Type, cells []Cell) ([]byte, error) {
	var scratch [8]byte
	for i := range t.Elems {
		if len(cells) == 0 {
			dst = binary.BigEndian.AppendUint32(dst, 0xffffffff)
			continue
		}
		field, rest, err := smallint.ReadKey(scratch[:0], cells[0].Path, false)
		if err != nil || len(field) != 2 || len(rest) > 0 {
			return dst, fmt.Errorf("field of a user type: %w", ErrCorrupt)
		}
		if int(binary.BigEndian.Uint16(field)) == i {
			dst = appendWire(dst, cells[0].Value)
			cells = cells[1:]
		} else {
			dst = binary.BigEndian.AppendUint32(dst, 0xffffffff)
		}
	}
	return dst, nil
}

func appendPath(dst []byte, t *cqltype.Type, path []byte) ([]byte, error) {
	dst = append(dst, 0, 0, 0, 0)
	n := len(dst)
	wire, rest, err := t.ReadKey(dst[n:], path, false)
	if err != nil || len(rest) > 0 {
		return dst, fmt.Errorf("path of an element: %w", ErrCorrupt)
	}
	dst = append(dst, wire...) // copies the bytes onto themselves if dst has enough capacity
	binary.BigEndian.PutUint32(dst[n-4:], uint32(len(wire)))
	return dst, nil
}

func appendWire(dst, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
	return append(dst, value...)
}

// FieldPath returns the path of the i-th field of a UDT.
func FieldPath(i int) []byte {
	var wire [2]byte
	binary.BigEndian.PutUint16(wire[:], uint16(i))
	return smallint.AppendKey(nil, wire[:], false)
}

// Elements splits the wire form of a multi-cell column into the path and the value of each element. The path of a list
// element is nil, because the writer assigns a timeuuid. The value of a set element is empty, and the value of a
// missing field is null.
func Elements(t *cqltype.Type, wire []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(path, value []byte) bool) {
		if t.Kind == cqltype.Map {
			for key, value := range t.Entries(wire) {
				if !yield(t.Elems[0].AppendKey(nil, key, false), value) {
					return
				}
			}
			return
		}
		for i, value := range t.Elements(wire) {
			var path []byte
			switch t.Kind {
			case cqltype.Set:
				path, value = t.Elems[0].AppendKey(nil, value, false), []byte{}
			case cqltype.UDT:
				path = FieldPath(i)
			}
			if !yield(path, value) {
				return
			}
		}
	}
}
