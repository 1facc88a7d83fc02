// SPDX-License-Identifier: Apache-2.0

package command

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// typeDepthMax is the maximum nesting depth of types in a command. CREATE TYPE and CREATE TABLE accept only much lower
// nesting depths.
const typeDepthMax = 64

// frozenBit marks a frozen type in its kind byte.
const frozenBit = 0x80

// maybeType appends a compact form of a type. The form consists of the kind, with a flag for frozen, and the names and
// components. For a nil type, maybeType appends 0, which is not a valid kind.
func (a *appender) maybeType(t *cqltype.Type) {
	if t == nil {
		a.Byte(0)
		return
	}
	a.typ(t)
}

func (a *appender) typ(t *cqltype.Type) {
	a.Byte(byte(t.Kind) | codec.Bit(t.Frozen)*frozenBit)
	switch t.Kind {
	case cqltype.List, cqltype.Set:
		a.typ(t.Elems[0])
	case cqltype.Vector:
		a.Uint(uint64(t.Dimension))
		a.typ(t.Elems[0])
	case cqltype.Map:
		a.typ(t.Elems[0])
		a.typ(t.Elems[1])
	case cqltype.Tuple:
		a.Uint(uint64(len(t.Elems)))
		for _, e := range t.Elems {
			a.typ(e)
		}
	case cqltype.UDT:
		a.Text(t.Keyspace)
		a.Text(t.Name)
		a.Uint(uint64(len(t.Elems)))
		for i, e := range t.Elems {
			a.Text(t.Fields[i])
			a.typ(e)
		}
	case cqltype.Custom:
		a.Text(t.Name)
	}
}

func (r *reader) maybeType() *cqltype.Type {
	if b := r.Rest(); len(b) > 0 && b[0] == 0 {
		r.Byte()
		return nil
	}
	return r.typ(0)
}

func (r *reader) typ(depth int) *cqltype.Type {
	head := r.Byte()
	t := &cqltype.Type{Kind: cqltype.Kind(head &^ frozenBit), Frozen: head&frozenBit != 0}
	if t.Kind > cqltype.Vector {
		r.newer("a type", "kind", uint64(t.Kind), uint64(cqltype.Vector))
	}
	if t.Kind == 0 || t.Kind > cqltype.Vector || depth > typeDepthMax {
		r.Fail()
		return t
	}
	switch t.Kind {
	case cqltype.Vector:
		n := r.Uint()
		if n == 0 || n > math.MaxInt32 {
			r.Fail()
			return t
		}
		t.Dimension = int(n)
		t.Elems = []*cqltype.Type{r.typ(depth + 1)}
	case cqltype.List, cqltype.Set:
		t.Elems = []*cqltype.Type{r.typ(depth + 1)}
	case cqltype.Map:
		t.Elems = []*cqltype.Type{r.typ(depth + 1), nil}
		t.Elems[1] = r.typ(depth + 1)
	case cqltype.Tuple:
		for range r.Count(1) {
			t.Elems = append(t.Elems, r.typ(depth+1))
		}
	case cqltype.UDT:
		t.Keyspace, t.Name = r.Text(), r.Text()
		for range r.Count(2) {
			t.Fields = append(t.Fields, r.Text())
			t.Elems = append(t.Elems, r.typ(depth+1))
		}
	case cqltype.Custom:
		t.Name = r.Text()
	}
	return t
}
