// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// pick draws random values for a property test.
type pick struct{ *rapid.T }

func (p pick) bytes() []byte { return rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(p.T, "bytes") }

func (p pick) null() []byte {
	if p.bool() {
		return nil
	}
	return append([]byte{}, p.bytes()...)
}

func (p pick) bool() bool     { return rapid.Bool().Draw(p.T, "bool") }
func (p pick) u32() uint32    { return rapid.Uint32().Draw(p.T, "u32") }
func (p pick) u64() uint64    { return rapid.Uint64().Draw(p.T, "u64") }
func (p pick) i64() int64     { return rapid.Int64().Draw(p.T, "i64") }
func (p pick) upTo(n int) int { return rapid.IntRange(0, n).Draw(p.T, "n") }
func (p pick) string() string { return rapid.StringN(0, 4, 8).Draw(p.T, "string") }
func (p pick) cols() []uint32 { return rapid.SliceOfN(rapid.Uint32(), 0, 3).Draw(p.T, "columns") }

// dropped draws a list of dropped columns. Some columns are dropped only up to a timestamp.
func (p pick) dropped() (out []cqltype.Dropped) {
	for _, c := range slices.Compact(slices.Sorted(slices.Values(p.cols()))) {
		d := cqltype.Dropped{Column: c, Upto: cqltype.AllDropped}
		if p.bool() {
			d.Upto = p.i64()
		}
		out = append(out, d)
	}
	return out
}
func (p pick) nulls() [][]byte { return list(p, p.null) }

// low draws the second half of a ring position.
func (p pick) low(table uint32) uint64 {
	if table&keys.WideRing == 0 {
		return 0
	}
	return p.u64()
}

func list[E any](p pick, one func() E) []E {
	var out []E
	for range p.upTo(3) {
		out = append(out, one())
	}
	return out
}

func (p pick) typ(depth int) *cqltype.Type {
	kinds := int(cqltype.Empty)
	if depth == 0 {
		kinds = int(cqltype.Varint)
	}
	t := &cqltype.Type{Kind: cqltype.Kind(1 + p.upTo(kinds-1)), Frozen: p.bool()}
	switch t.Kind {
	case cqltype.List, cqltype.Set:
		t.Elems = []*cqltype.Type{p.typ(depth - 1)}
	case cqltype.Map:
		t.Elems = []*cqltype.Type{p.typ(depth - 1), p.typ(depth - 1)}
	case cqltype.Tuple:
		t.Elems = list(p, func() *cqltype.Type { return p.typ(depth - 1) })
	case cqltype.UDT:
		t.Keyspace, t.Name = p.string(), p.string()
		for range p.upTo(3) {
			t.Fields = append(t.Fields, p.string())
			t.Elems = append(t.Elems, p.typ(depth-1))
		}
	case cqltype.Custom:
		t.Name = p.string()
	}
	return t
}

func (p pick) mutation() Mutation {
	m := Mutation{Table: p.u32(), Token: token.Token(p.i64()), Key: p.bytes(), SchemaVersion: p.u64(), Epoch: p.u64(),
		Timestamp: p.i64(), Principal: p.claimant()}
	m.Low = p.low(m.Table)
	if p.bool() {
		m.Dedupe = DedupeID{Coordinator: [16]byte{1, 2, 3}, Sequence: p.u64()}
	}
	m.Ops = list(p, func() Op {
		o := Op{Kind: OpKind(p.upTo(2)), Clustering: p.bytes()}
		if o.Kind == OpIndex {
			o.Index, o.Value = p.u32(), p.bytes()
		} else {
			o.Operand = p.bytes()
		}
		return o
	})
	return m
}

func (p pick) claimant() fairshare.Principal {
	if p.bool() {
		return fairshare.Principal{}
	}
	return fairshare.Principal{User: p.u32(), Connection: p.u32(), Low: p.bool()}
}

func (p pick) conditional() Conditional {
	c := Conditional{Mutation: p.mutation(), Serial: dberr.Consistency(p.upTo(10)), First: First(p.upTo(2)),
		MaxCharge: max(p.i64(), 0), Now: p.i64(), Dropped: p.dropped(), Program: p.null(), Dry: p.bool()}
	if p.bool() {
		c.Log = &ChangeLog{Keep: max(p.i64(), 0)}
	}
	c.Rows = append(list(p, func() RowRef { return RowRef{p.bool(), p.bytes()} }), RowRef{})
	c.Conditions = list(p, func() Condition {
		k := Condition{Row: p.upTo(len(c.Rows) - 1), Operator: Operator(p.upTo(10)), Column: p.u32(), Element: p.null(),
			Values: p.nulls()}
		if k.Operator > NotExists {
			k.Type = p.typ(3)
		}
		return k
	})
	c.Updates = list(p, func() Update {
		return Update{
			Row: p.upTo(len(c.Rows) - 1), Statement: p.upTo(300), Kind: UpdateKind(p.upTo(4)), Column: p.u32(),
			Type: p.typ(3), Args: p.nulls(), Timestamp: p.i64(),
			TTL: int32(p.u32()), Expiry: p.i64(),
		}
	})
	return c
}

func (p pick) read() Read {
	c := Read{
		Table: p.u32(), Key: p.null(), Token: token.Token(p.i64()),
		Resume: Resume{AfterKey: p.null(), AfterToken: token.Token(p.i64()), AfterClustering: p.null(),
			AfterPartition: p.bool()}, Reversed: p.bool(), Statics: p.bool(), NoRows: p.bool(),
		Limit: p.upTo(1 << 30),
		Now:   p.i64(), Dropped: p.dropped(), Level: dberr.Consistency(p.upTo(10)), Epoch: p.u64(), Continued: p.bool(),
		Owed: int64(p.upTo(1 << 30)), Wanted: int64(p.upTo(1 << 30)),
		Peek: p.bool(), Principal: p.claimant(),
	}
	c.Low, c.AfterLow = p.low(c.Table), p.low(c.Table)
	c.Range.Begin = p.u64()
	if p.bool() {
		c.Range.Limit = rapid.Uint64Min(c.Range.Begin/2+1).Draw(p.T, "limit") | 1<<63
		c.Range.Begin /= 2
	}
	c.Slices = list(p, func() Slice { return Slice{p.bytes(), p.null()} })
	if p.bool() {
		c.Index = &IndexLookup{Index: p.u32(), Value: p.bytes()}
		if p.bool() {
			c.Index.Any = list(p, func() [][]byte { return list(p, p.bytes) })
		}
		if p.bool() {
			c.Index.End, c.Index.First, c.Index.After = p.bytes(), p.null(), p.null()
		}
		if p.bool() {
			c.Index.All = list(p, func() IndexTerm { return IndexTerm{p.u32(), p.bytes(), p.null(), p.bool()} })
		}
		if p.bool() {
			c.Index.Vector, c.Index.Generation = make([]byte, 4*(1+p.upTo(5))), p.u32()
			copy(c.Index.Vector, p.bytes())
			c.Index.Nearest = p.upTo(3)
		}
	}
	return c
}

func (p pick) decision() CASResult {
	d := CASResult{Applied: p.bool(), Timestamp: p.i64(), Found: list(p, p.foundRow), Charge: max(p.i64(), 0),
		Result: p.null()}
	if p.bool() {
		d.First = &FoundRow{Clustering: p.bytes(), Row: p.foundRow()}
	}
	return d
}

func (p pick) foundRow() *row.Row {
	if p.bool() {
		return nil
	}
	r := &row.Row{Live: p.bool(), Liveness: row.Liveness{Timestamp: p.i64(), TTL: int32(p.u32()), Expiry: p.i64()}}
	r.Cells = list(p, func() row.Cell {
		return row.Cell{Column: p.u32(), Path: p.null(), Value: append([]byte{}, p.bytes()...), Timestamp: p.i64(),
			TTL: int32(p.u32()), Expiry: p.i64()}
	})
	return r
}

// same compares two values. EquateEmpty treats nil and empty slices as equal. The option distinct compares the fields
// in which nil and empty slices have different meanings.
func same(t *rapid.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// TestRoundTrip checks that every command survives its encoding, and that null and the empty value stay distinct.
// Every truncated encoding must be rejected.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pick{t}
		var b []byte
		var decode func([]byte) error
		switch rapid.SampledFrom([]kind{kindMutation, kindConditional, kindRead, kindDecision}).Draw(t, "kind") {
		case kindMutation:
			want, got := p.mutation(), Mutation{}
			b = AppendMutation(nil, &want)
			decode = func(b []byte) error { return DecodeMutation(&got, b) }
			if err := decode(b); err != nil {
				t.Fatal(err)
			}
			same(t, want, got)
		case kindConditional:
			want, got := p.conditional(), Conditional{}
			b = AppendConditional(nil, &want)
			decode = func(b []byte) error { return DecodeConditional(&got, b) }
			if err := decode(b); err != nil {
				t.Fatal(err)
			}
			same(t, want, got)
			for i, k := range want.Conditions {
				if (k.Element == nil) != (got.Conditions[i].Element == nil) {
					t.Fatal("element: null and empty confused")
				}
				for j, v := range k.Values {
					if (v == nil) != (got.Conditions[i].Values[j] == nil) {
						t.Fatal("value: null and empty confused")
					}
				}
			}
		case kindRead:
			want, got := p.read(), Read{}
			b = AppendRead(nil, &want)
			decode = func(b []byte) error { return DecodeRead(&got, b) }
			if err := decode(b); err != nil {
				t.Fatal(err)
			}
			same(t, want, got)
			if (want.Key == nil) != (got.Key == nil) || (want.AfterKey == nil) != (got.AfterKey == nil) {
				t.Fatal("key: nil and empty confused")
			}
			for i, s := range want.Slices {
				if (s.End == nil) != (got.Slices[i].End == nil) {
					t.Fatal("slice: nil and empty confused")
				}
			}
		case kindDecision:
			want, got := p.decision(), CASResult{}
			b = AppendCASResult(nil, &want)
			decode = func(b []byte) error { return DecodeCASResult(&got, b) }
			if err := decode(b); err != nil {
				t.Fatal(err)
			}
			same(t, want, got)
		}
		if n := p.upTo(len(b) - 1); decode(b[:n:n]) == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(b))
		}
		if err := decode(append(bytes.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("bytes after the end: %v", err)
		}
		newer := bytes.Clone(b)
		newer[0] = Version + 1
		if err := decode(newer); !errors.Is(err, feature.ErrNewer) {
			t.Fatalf("a newer version: %v", err)
		}
	})
}

// TestDecodeMutationAllocations checks that decoding into a used mutation does not allocate.
func TestDecodeMutationAllocations(t *testing.T) {
	m := Mutation{Table: 1024, Key: []byte("key"), Ops: []Op{{Clustering: []byte{1}, Operand: []byte("operand")},
		{Kind: OpIndex, Index: 7, Value: []byte("v")}}}
	b := AppendMutation(nil, &m)
	var got Mutation
	if n := testing.AllocsPerRun(100, func() {
		if err := DecodeMutation(&got, b); err != nil {
			t.Fatal(err)
		}
		b = AppendMutation(b[:0], &m)
	}); n > 1 { // the first run grows Ops
		t.Fatalf("%v allocations", n)
	}
}

// FuzzDecode checks that no input makes a decoder panic. Accepted input must survive a second round trip.
func FuzzDecode(f *testing.F) {
	m := Mutation{Table: 1024, Key: []byte("k"), Ops: []Op{{Operand: []byte("x")}, {Kind: OpIndex, Value: []byte("v")}},
		Dedupe: DedupeID{Sequence: 1}}
	udt := &cqltype.Type{Kind: cqltype.UDT, Keyspace: "ks", Name: "u", Fields: []string{"a"},
		Elems: []*cqltype.Type{{Kind: cqltype.Int}}}
	f.Add(AppendMutation(nil, &m))
	f.Add(AppendConditional(nil, &Conditional{
		Mutation: m, Rows: []RowRef{{}},
		Conditions: []Condition{{Operator: Equal, Type: udt, Values: [][]byte{nil, {}}}},
		Updates:    []Update{{Type: &cqltype.Type{Kind: cqltype.Map, Elems: []*cqltype.Type{udt, udt}}}},
	}))
	f.Add(AppendConditional(nil, &Conditional{Mutation: m, Program: []byte("program"), Dry: true, MaxCharge: 7}))
	f.Add(AppendCASResult(nil, &CASResult{Applied: true, Charge: 9, Result: []byte("result")}))
	f.Add(AppendRead(nil, &Read{Key: []byte("k"), Slices: []Slice{{nil, nil}},
		Index: &IndexLookup{Index: 1, Value: []byte("v"), Any: [][][]byte{{[]byte("a"), []byte("b")}}}}))
	f.Add(AppendCASResult(nil,
		&CASResult{Applied: true, Found: []*row.Row{nil, {Live: true, Cells: []row.Cell{{Value: []byte("v")}}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		again := func(first []byte, decode func([]byte) error, encode func() []byte) {
			if err := decode(first); err != nil {
				t.Fatalf("second round: %v", err)
			}
			if second := encode(); !bytes.Equal(first, second) {
				t.Fatalf("second round: %x became %x", first, second)
			}
		}
		if len(b) < 2 {
			return
		}
		switch kind(b[1]) {
		case kindMutation:
			var v Mutation
			if DecodeMutation(&v, b) == nil {
				again(AppendMutation(nil, &v), func(b []byte) error {
					return DecodeMutation(&v, b)
				}, func() []byte { return AppendMutation(nil, &v) })
			}
		case kindConditional:
			var v Conditional
			if DecodeConditional(&v, b) == nil {
				again(AppendConditional(nil, &v), func(b []byte) error {
					return DecodeConditional(&v, b)
				}, func() []byte { return AppendConditional(nil, &v) })
			}
		case kindRead:
			var v Read
			if DecodeRead(&v, b) == nil {
				again(AppendRead(nil, &v), func(b []byte) error {
					return DecodeRead(&v, b)
				}, func() []byte { return AppendRead(nil, &v) })
			}
		case kindDecision:
			var v CASResult
			if DecodeCASResult(&v, b) == nil {
				again(AppendCASResult(nil, &v), func(b []byte) error {
					return DecodeCASResult(&v, b)
				}, func() []byte { return AppendCASResult(nil, &v) })
			}
		}
	})
}

// BenchmarkMutation measures the CPU time to encode and decode a 1 KB write.
func BenchmarkMutation(b *testing.B) {
	m := Mutation{Table: 1024, Key: []byte("0123456789abcdef"), Ops: []Op{{Operand: make([]byte, 1024)}}}
	var buf []byte
	var got Mutation
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendMutation(buf[:0], &m)
		if err := DecodeMutation(&got, buf); err != nil {
			b.Fatal(err)
		}
	}
}
