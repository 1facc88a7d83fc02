// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/token"
)

var tokens = rapid.OneOf(rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, math.MaxInt64}), rapid.Int64())

// short draws bytes that often share a prefix.
func short(t *rapid.T, name string) []byte {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0xfe, 0xff}), 0, 4).Draw(t, name)
}

// drawKey draws any key of the store, or a prefix of such a key.
func drawKey(t *rapid.T, name string) []byte {
	table := rapid.SampledFrom([]uint32{FirstTable, FirstTable + 1, FirstTable | WholeKey,
		FirstTable | WideRing}).Draw(t, name+" table")
	tok, pk, rest := token.Token(rapid.Int64Range(-2, 2).Draw(t, name+" token")), short(t, name+" pk"),
		short(t, name+" rest")
	var key []byte
	switch rapid.IntRange(0, 5).Draw(t, name+" kind") {
	case 0:
		key = AppendSystem(nil, rapid.Uint32Range(0, 4).Draw(t, name+" system"), rest)
	case 1:
		key = AppendDeletions(nil, table&^WideRing, tok, pk)
	case 2:
		key = AppendDedupe(nil, table&^WideRing, tok, pk, DedupeID{Sequence: 7})
	case 3:
		index := table&^(WideRing|WholeKey) | rapid.SampledFrom([]uint32{0, OrderedIndex}).Draw(t, name+" order")
		key = AppendIndex(nil, index, short(t, name+" value"), tok, pk, rest)
	case 4:
		position := [16]byte{15: byte(tok)}
		key = append(binary.BigEndian.AppendUint32(nil, table|WideRing), position[:]...)
		key = append(append(appendSized(key, pk), Row), rest...)
	default:
		key = AppendRow(nil, table&^WideRing, tok, pk, rest)
	}
	if rapid.IntRange(0, 3).Draw(t, name+" cut") == 0 {
		key = key[:rapid.IntRange(1, len(key)).Draw(t, name+" length")]
	}
	return key
}

// TestOrder checks that keys are ordered by (table, token, length of the key, key, kind, clustering).
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			table  uint32
			tok    int64
			pk, ck []byte
		}
		draw := func(name string) place {
			return place{rapid.Uint32Range(FirstTable, FirstTable+1).Draw(t, name), tokens.Draw(t, name),
				short(t, name), short(t, name)}
		}
		a, b := draw("a"), draw("b")
		want := cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.tok, b.tok), cmp.Compare(len(a.pk), len(b.pk)),
			bytes.Compare(a.pk, b.pk), bytes.Compare(a.ck, b.ck))
		ka := AppendRow(nil, a.table, token.Token(a.tok), a.pk, a.ck)
		kb := AppendRow(nil, b.table, token.Token(b.tok), b.pk, b.ck)
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("%x %x: %d, want %d", ka, kb, got, want)
		}
		p, ok := Parse(ka)
		if !ok || p.Table != a.table || int64(p.Token) != a.tok || !bytes.Equal(p.Key, a.pk) || p.Kind != Row ||
			!bytes.Equal(p.Rest, a.ck) {
			t.Fatalf("%x parses as %+v", ka, p)
		}
		if h := AppendDeletions(nil, a.table, token.Token(a.tok), a.pk); bytes.Compare(h, ka) >= 0 ||
			len(h) != p.PrefixLen+1 {
			t.Fatalf("header %x is not before row %x", h, ka)
		}
		e := AppendIndex(nil, a.table, b.pk, token.Token(a.tok), a.pk, a.ck)
		x, ok := ParseIndex(e)
		if !ok || x.Index != a.table || int64(x.Token) != a.tok || !bytes.Equal(x.Value, b.pk) ||
			!bytes.Equal(x.Key, a.pk) ||
			!bytes.Equal(x.Clustering, a.ck) || Split(e) != x.ValueLen {
			t.Fatalf("%x parses as %+v", e, x)
		}
	})
}

// TestOrderedIndex checks that entries of an ordered index are ordered by (value, token, length of the key, key,
// clustering). Values are compared as bytes. The test also checks that the entries can be decoded.
func TestOrderedIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type place struct {
			value  []byte
			tok    int64
			pk, ck []byte
		}
		bytesOf := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0xfe, 0xff}), 0, 4)
		draw := func(name string) place {
			return place{bytesOf.Draw(t, name), tokens.Draw(t, name), short(t, name), short(t, name)}
		}
		a, b := draw("a"), draw("b")
		want := cmp.Or(bytes.Compare(a.value, b.value), cmp.Compare(a.tok, b.tok), cmp.Compare(len(a.pk), len(b.pk)),
			bytes.Compare(a.pk, b.pk), bytes.Compare(a.ck, b.ck))
		const index = FirstTable | OrderedIndex
		ka := AppendIndex(nil, index, a.value, token.Token(a.tok), a.pk, a.ck)
		kb := AppendIndex(nil, index, b.value, token.Token(b.tok), b.pk, b.ck)
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("%x %x: %d, want %d", ka, kb, got, want)
		}
		e, ok := ParseIndex(ka)
		if !ok || e.Index != index || !bytes.Equal(e.Value, a.value) || int64(e.Token) != a.tok ||
			!bytes.Equal(e.Key, a.pk) || !bytes.Equal(e.Clustering, a.ck) || Split(ka) != e.ValueLen {
			t.Fatalf("%x parses as %+v", ka, e)
		}
		from := AppendIndexFrom(nil, index, b.value)
		if got := bytes.Compare(ka, from) >= 0; got != (bytes.Compare(a.value, b.value) >= 0) {
			t.Fatalf("%x is at or after %x: %v", ka, from, got)
		}
	})
}

// TestComparerInvariants checks Pebble's requirements for a comparer. It checks whole keys and key prefixes, such as
// separators.
func TestComparerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t, "a"), drawKey(t, "b")
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		pa, pb := a[:Split(a)], b[:Split(b)]
		if bytes.Compare(pa, pb) > 0 {
			t.Fatalf("%x <= %x, but not their prefixes %x %x", a, b, pa, pb)
		}
		if n := Split(pa); n != len(pa) {
			t.Fatalf("the prefix %x of %x splits at %d", pa, a, n)
		}
		if len(pa) < len(a) && len(pb) > len(pa) && bytes.HasPrefix(pb, pa) {
			t.Fatalf("prefix %x nests in %x (K1)", pa, pb)
		}
		if Abbreviate(a) > Abbreviate(b) {
			t.Fatalf("%x <= %x, but not their abbreviations", a, b)
		}
		head := []byte("head")
		if s := Successor(slices.Clone(head), a); !bytes.HasPrefix(s, head) || bytes.Compare(a, s[4:]) > 0 {
			t.Fatalf("successor of %x is %x", a, s)
		}
		if bytes.Equal(a, b) {
			return
		}
		s := Separator(slices.Clone(head), a, b)
		if !bytes.HasPrefix(s, head) || bytes.Compare(a, s[4:]) > 0 || bytes.Compare(s[4:], b) >= 0 ||
			len(s)-4 > len(a) {
			t.Fatalf("separator of %x and %x is %x", a, b, s)
		}
	})
}

// TestAfter checks that After returns the first key after all keys with a prefix.
func TestAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, rest := short(t, "prefix"), short(t, "rest")
		after := After(slices.Clone(prefix))
		key := append(slices.Clone(prefix), rest...)
		if after != nil && (bytes.Compare(key, after) >= 0 || bytes.HasPrefix(after, prefix) && len(prefix) > 0) {
			t.Fatalf("after %x: got %x, want a key after %x", prefix, after, key)
		}
		if after == nil && slices.ContainsFunc(prefix, func(b byte) bool { return b != 0xff }) {
			t.Fatalf("nothing after %x", prefix)
		}
	})
}

// TestSpan checks that a token span contains exactly the keys of its tokens. A boundary inside a token must divide the
// token's keys.
func TestSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tokens.Draw(t, "a"), tokens.Draw(t, "b")
		r := token.Between(token.Token(min(a, b)), token.Token(max(a, b)))
		s := TokenSpan(FirstTable, r)
		if got := s.Tokens(); got != r {
			t.Fatalf("%v became %v", r, got)
		}
		tok, pk := token.Token(tokens.Draw(t, "tok")), short(t, "pk")
		lower, upper := s.Bounds()
		key := AppendRow(nil, FirstTable, tok, pk, nil)
		inside := bytes.Compare(lower, key) <= 0 && (upper == nil || bytes.Compare(key, upper) < 0)
		if want := r.Contains(tok); s.Holds(At(tok, pk)) != want || inside != want {
			t.Fatalf("%v in %v: %v, by bounds %v, want %v", tok, r, s.Holds(At(tok, pk)), inside, want)
		}
		cut := AppendPosition(nil, tok, short(t, "cut"))
		left, right := Span{Table: FirstTable, End: cut}, Span{Table: FirstTable, Begin: cut}
		if left.Holds(At(tok, pk)) == right.Holds(At(tok, pk)) {
			t.Fatalf("%x is in both or neither of %v and %v", pk, left, right)
		}
		if !left.Tokens().Contains(tok) && left.Holds(At(tok, pk)) || !right.Tokens().Contains(tok) {
			t.Fatalf("the tokens of %v and %v do not cover %v", left, right, tok)
		}
	})
}

// TestMeta checks that a partition's metadata survives its encoding. No prefix of the encoding may be accepted.
func TestMeta(t *testing.T) {
	m := NewMeta(1<<40, Span{Table: 2000, Begin: []byte{1}})
	if m.Applied != 10 || m.Term != 5 || m.Epoch != 1 {
		t.Errorf("initial meta %+v", m)
	}
	m.Voters = []Member{{1, [16]byte{1}}, {1 << 60, [16]byte{15: 2}}}
	m.LearnersNext = []Member{{3, [16]byte{3}}}
	m.AutoLeave = true
	m.Children = []Child{{7, Span{Table: 2000, Begin: []byte{1, 2}, End: []byte{3}}, 2, 12}}
	m.Parents, m.Region, m.Swept, m.FeedLow, m.Feature = []Parent{{9, 8, 7}}, "here", -3, 1<<40, 3
	m.MaxTimestamp, m.SchemaVersion = -5, 99
	m.Frozen, m.Absorbed, m.Begun = 1<<33, []Absorbed{{8, 1 << 30, 3, 12}, {9, 1, 2, 300}}, Begun{1 << 20, 3}
	b := m.Append(nil)
	got, err := DecodeMeta(b)
	if err != nil || !gocmp.Equal(got, m, gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })) {
		t.Errorf("%v\n%s", err, gocmp.Diff(m, got))
	}
	for i := range b {
		if _, err := DecodeMeta(b[:i]); err == nil {
			t.Errorf("%d of %d bytes decode", i, len(b))
		}
	}
}

// TestMetaOfLaterBuilds checks that a decoder preserves unknown optional fields byte for byte. It must reject unknown
// required fields and other formats as newer.
func TestMetaOfLaterBuilds(t *testing.T) {
	m := NewMeta(7, Span{Table: 2000})
	m.Region = "here"
	with := func(must bool) []byte {
		b := m.Append(nil)
		w := codec.Writer(b[:len(b)-1])
		w.Field(77, false, []byte("later"))
		w.Field(78, must, nil)
		w.EndFields()
		return w
	}
	got, err := DecodeMeta(with(false))
	if err != nil || !bytes.Equal(got.Append(nil), with(false)) || got.Region != "here" {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := DecodeMeta(with(true)); !errors.Is(err, feature.ErrNewer) ||
		!strings.Contains(err.Error(), "(field 78)") {
		t.Errorf("%v", err)
	}
	b := m.Append(nil)
	b[0]++
	if _, err := DecodeMeta(b); !errors.Is(err, feature.ErrNewer) ||
		!strings.Contains(err.Error(), "(format 3); this version supports 2") {
		t.Errorf("%v", err)
	}
	b[0] = 1
	if _, err := DecodeMeta(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// FuzzParse checks that no input makes the decoders panic.
func FuzzParse(f *testing.F) {
	f.Add(AppendRow(nil, FirstTable, 5, []byte("pk"), []byte("ck")))
	f.Add(AppendIndex(nil, FirstTable, []byte("v"), 5, []byte("pk"), nil))
	m := NewMeta(1, Span{Table: 2000})
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := Parse(b); ok && Split(b) != p.PrefixLen && p.Table&WholeKey == 0 {
			t.Errorf("%x splits at %d, not %d", b, Split(b), p.PrefixLen)
		}
		_, _ = ParseIndex(b)
		_, _ = DecodeMeta(b)
		_, _ = DecodeReplica(b)
	})
}

// TestWideSpan checks spans of a table on the wide ring whose boundary is between two positions with the same first
// half. Such a span must contain the positions on its side. Keys of rows and of index entries must have the correct
// position.
func TestWideSpan(t *testing.T) {
	const table, index = FirstTable | WideRing, (FirstTable + 1) | WideRing
	at := func(low uint64) Position { return Position{Ring: 7, Low: low, Key: []byte("k")} }
	left, right := Span{Table: table, End: at(5).Boundary(table)}, Span{Table: table, Begin: at(5).Boundary(table)}
	for low := range uint64(10) {
		row := append(append(AppendTable(nil, table), at(low).Boundary(table)...), Row)
		p, ok := Parse(row)
		if !ok || p.Position().Compare(at(low)) != 0 {
			t.Fatalf("key %x is at %v, want %v", row, p.Position(), at(low))
		}
		entry := append(AppendIndexValue(nil, index, []byte("v")), at(low).Boundary(table)...)
		e, ok := ParseIndex(entry)
		if !ok || e.Position().Compare(at(low)) != 0 {
			t.Fatalf("entry %x is at %v, want %v", entry, e.Position(), at(low))
		}
		if left.Holds(p.Position()) != (low < 5) || right.Holds(e.Position()) != (low >= 5) {
			t.Errorf("place %d: left %v, right %v", low, left.Holds(p.Position()), right.Holds(e.Position()))
		}
	}
}
