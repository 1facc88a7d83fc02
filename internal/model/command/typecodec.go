// SPDX-License-Identifier: Apache-2.0

package command

import "github.com/ilion-db/ilion/internal/model/cqltype"

// typeDepthMax bounds how deep types nest in a command; CREATE TYPE and CREATE TABLE stay far below it.
const typeDepthMax = 64

// AppendType appends a compact form of a type: its kind, with a flag for frozen, then names and components. It is part of the
// encoding of commands and versioned with it.
func AppendType(dst []byte, t *cqltype.Type) []byte {
	a := appender{dst}
	a.typ(t)
	return a.b
}

// DecodeType takes one type off src.
func DecodeType(src []byte) (t *cqltype.Type, rest []byte, err error) {
	r := reader{b: src}
	t = r.typ(0)
	if r.err != nil {
		return nil, nil, r.err
	}
	return t, r.b, nil
}

// frozenBit marks a frozen type in the byte of its kind.
const frozenBit = 0x80

// maybeType writes 0 for nil, which no kind is.
func (a *appender) maybeType(t *cqltype.Type) {
	if t == nil {
		a.byte(0)
		return
	}
	a.typ(t)
}

func (a *appender) typ(t *cqltype.Type) {
	a.byte(byte(t.Kind) | boolByte(t.Frozen)*frozenBit)
	switch t.Kind {
	case cqltype.List, cqltype.Set:
		a.typ(t.Elems[0])
	case cqltype.Map:
		a.typ(t.Elems[0])
		a.typ(t.Elems[1])
	case cqltype.Tuple:
		a.uint(uint64(len(t.Elems)))
		for _, e := range t.Elems {
			a.typ(e)
		}
	case cqltype.UDT:
		a.string(t.Keyspace)
		a.string(t.Name)
		a.uint(uint64(len(t.Elems)))
		for i, e := range t.Elems {
			a.string(t.Fields[i])
			a.typ(e)
		}
	case cqltype.Custom:
		a.string(t.Name)
	}
}

func (r *reader) maybeType() *cqltype.Type {
	if len(r.b) > 0 && r.b[0] == 0 {
		r.byte()
		return nil
	}
	return r.typ(0)
}

func (r *reader) typ(depth int) *cqltype.Type {
	head := r.byte()
	t := &cqltype.Type{Kind: cqltype.Kind(head &^ frozenBit), Frozen: head&frozenBit != 0}
	if t.Kind == 0 || t.Kind > cqltype.Empty || depth > typeDepthMax {
		r.fail()
		return t
	}
	switch t.Kind {
	case cqltype.List, cqltype.Set:
		t.Elems = []*cqltype.Type{r.typ(depth + 1)}
	case cqltype.Map:
		t.Elems = []*cqltype.Type{r.typ(depth + 1), nil}
		t.Elems[1] = r.typ(depth + 1)
	case cqltype.Tuple:
		for range r.count(1) {
			t.Elems = append(t.Elems, r.typ(depth+1))
		}
	case cqltype.UDT:
		t.Keyspace, t.Name = r.string(), r.string()
		for range r.count(2) {
			t.Fields = append(t.Fields, r.string())
			t.Elems = append(t.Elems, r.typ(depth+1))
		}
	case cqltype.Custom:
		t.Name = r.string()
	}
	return t
}
