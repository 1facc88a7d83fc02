// SPDX-License-Identifier: Apache-2.0

package epk

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/token"
)

// TestHashes compares the hashes with results of @azure/cosmos 4.9.3.
func TestHashes(t *testing.T) {
	for _, c := range []struct {
		scheme Scheme
		key    Key
		want   string
	}{
		{V2, Key{Text("Andrew")}, "08633A606C1425CA74A29E0C2086BD63"},
		{V2, Key{Text("Beef Products")}, "25A9CBD6DFF28C58A72C215D299ECFEC"},
		{V2, Key{Text("theo")}, "2D6CD1B66D83CD322704F334799E29A2"},
		{V2, Key{Float(1)}, "20CD98B339BA78A5D0CF6953B87070B0"},
		{V2, Key{Bool(true)}, "0E711127C5B5A8E4726AC6DD306A3E59"},
		{V2, Key{{Kind: Null}}, "378867E4430E67857ACE5C908374FE16"},
		{V2, Key{{}}, "11622DAA78F835834610ABE56EFF5CB5"},
		{V1, Key{Text("Andrew")}, "05C1D5FD1B291008426F6573667800"},
		{V1, Key{Float(1)}, "05C1ED172B6B2605BFF0"},
		// Version 1 uses the first hundred characters of a string, followed by an end mark.
		{V1, Key{Text(strings.Repeat("a", 1024))}, "05C1EB5921F70608" + strings.Repeat("62", 100) + "00"},
		{V1, Key{Text(strings.Repeat("a", 101))}, "05C1EB5921F70608" + strings.Repeat("62", 100) + "00"},
		{V1, Key{Text(strings.Repeat("a", 100))}, "05C1EB5921F70608" + strings.Repeat("62", 100) + "00"},
		{MultiHash, Key{Text("theo"), Float(1)}, "2D6CD1B66D83CD322704F334799E29A220CD98B339BA78A5D0CF6953B87070B0"},
	} {
		if got := c.scheme.Hex(c.key); got != c.want {
			t.Errorf("%d %v: %s, want %s", c.scheme, c.key, got, c.want)
		}
	}
}

// TestEqualValues checks that a number has one key regardless of its notation. Texts must be parsable again.
func TestEqualValues(t *testing.T) {
	for text, want := range map[string]Value{
		"1": Float(1), "0": Float(math.Copysign(0, -1)), "1.5": Float(1.5), "100000000000000000000": Float(1e20),
		`"a\"b\\c\u000a"`: Text("a\"b\\c\n"), `""`: Text(""), "{}": {}, "null": {Kind: Null}, "true": Bool(true),
	} {
		if got := want.String(); got != text {
			t.Errorf("%v has the text %s", want, got)
		}
		if got, err := ParseValue([]byte(text)); err != nil || got.String() != text {
			t.Errorf("ParseValue(%s) = %v, %v", text, got, err)
		}
	}
	if V2.Hex(Key{Float(0)}) != V2.Hex(Key{Float(math.Copysign(0, -1))}) {
		t.Error("0 and -0 are two keys")
	}
	for _, bad := range []string{"", "1.0", "1e0", "[]", `"a`, `"\n"`, "nul", " 1", `"\u00`, `"\`} {
		if v, err := ParseValue([]byte(bad)); err == nil {
			t.Errorf("ParseValue(%q) = %v", bad, v)
		}
	}
}

func drawValue(t *rapid.T) Value {
	switch Kind(rapid.IntRange(0, int(String)).Draw(t, "kind")) {
	case None:
		return Value{}
	case Null:
		return Value{Kind: Null}
	case False:
		return Bool(false)
	case True:
		return Bool(true)
	case Number:
		return Float(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, 1e21, 1e-7})).Draw(t, "number"))
	}
	return Text(rapid.String().Draw(t, "text"))
}

// TestTokensAreInOrder checks that tokens are in the order of the hashes, and that a key is in the range of its
// prefix. The bytes of a key must be parsable again. The token and the hash of a key must be on the same side of a
// boundary.
func TestTokensAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]Scheme{V1, V2, MultiHash}).Draw(t, "scheme")
		draw := func() Key {
			k := Key{drawValue(t)}
			if s == MultiHash {
				k = append(k, drawValue(t))
			}
			return k
		}
		a, b := draw(), draw()
		ha, hb := s.Hash(nil, a), s.Hash(nil, b)
		ta, tb := s.Token(a), s.Token(b)
		if c := ta.Compare(tb); c != 0 && c != bytes.Compare(ha, hb) {
			t.Fatalf("%v %x and %v %x are in the wrong order", a, ha, b, hb)
		}
		back, err := ParseKey(AppendKey(nil, a), len(a))
		if err != nil || s.Token(back) != ta || s.KeyToken(AppendKey(nil, a), len(a)) != ta {
			t.Fatalf("%v: %v, %v", a, back, err)
		}
		at := rapid.OneOf(rapid.Uint64(), rapid.Just(tb.Position())).Draw(t, "boundary")
		low, err := ParseRange(s.Boundary(at), End)
		if err != nil || low.Holds(ha) != (ta.Position() >= at) {
			t.Fatalf("%v of %x: boundary %s at %x, %v", a, ta.Position(), s.Boundary(at), at, err)
		}
		for _, r := range []Range{low, s.Prefix(a[:1]), s.Prefix(b[:1]), {Min: ha, Max: hb}, {Min: hb}, {Max: hb},
			{Min: ha[:1], Max: hb[:2]}} {
			tokens, ok := s.Tokens(r)
			if r.Holds(ha) && !(ok && tokens.Contains(ta)) {
				t.Fatalf("%v with %x is in %x to %x, but not in %v, %v", a, ha, r.Min, r.Max, tokens, ok)
			}
			if ok && !tokens.Valid() {
				t.Fatalf("%x to %x: %v is no range", r.Min, r.Max, tokens)
			}
		}
		if !s.Prefix(a[:1]).Holds(ha) {
			t.Fatalf("%v is not in the range of its own prefix", a)
		}
	})
}

// TestRangesOfRing checks how the ends of the ring are represented. Invalid ranges must be rejected.
func TestRangesOfRing(t *testing.T) {
	for _, s := range []Scheme{V1, V2, MultiHash} {
		if s.Boundary(0) != "" {
			t.Errorf("%d begins at %s", s, s.Boundary(0))
		}
		all, err := ParseRange("", End)
		if r, ok := s.Tokens(all); err != nil || !ok || r != token.Full {
			t.Errorf("%d: the whole ring is %v", s, r)
		}
		if _, ok := s.Tokens(Range{Min: []byte{0xff}}); ok {
			t.Errorf("partition %d has keys after its end", s)
		}
	}
	half, _ := hex.DecodeString(V2.Boundary(1 << 63))
	if r, ok := V2.Tokens(Range{Max: half}); !ok || r.Begin != 0 || r.Limit != 1<<63+1 {
		t.Errorf("the first half of the ring is %v", r)
	}
	for _, bad := range []string{"x", "0"} {
		if _, err := ParseRange(bad, End); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := ParseKey([]byte("x"), 2); err == nil {
		t.Error("a key of one value was accepted as a key of two values")
	}
}
