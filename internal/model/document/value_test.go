// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string) Value {
	t.Helper()
	v, err := Parse([]byte(text), Limits{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestParse checks which texts are accepted, and the text of each resulting value. The test also checks the positions
// of errors in rejected texts.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                           `{"a":1}`,
		" \n{ \"b\" : 1.50 , \"a\":1E2 }\t": `{ "b" : 1.50 , "a":1E2 }`,
		`12345678901234567890.10`:           `12345678901234567890.10`,
		`"\ud83d\ude00\u0041"`:              `"\ud83d\ude00\u0041"`,
		`"\ud83d"`:                          `"\ud83d"`,
		`{"a":1,"b":2,"a":3}`:               `{"a":3,"b":2}`,
		`[{"a":1,"\u0061":2}, 1 ]`:          `[{"a":2},1]`,
		`{"a":{"x":1,"x":2},"b": [ 1 ]}`:    `{"a":{"x":2},"b":[1]}`,
		`-0`:                                `-0`,
		"\"\u007f\u2028\"":                  "\"\u007f\u2028\"",
		``:                                  `!0: unexpected end of the text: expected a value`,
		`{"a":1,}`:                          `!7: expected a quoted member name, but found '}'`,
		`{'a':1}`:                           `!1: expected a quoted member name, but found '\''`,
		`{"a" 1}`:                           `!5: expected a colon after the member name, but found '1'`,
		`[1 2]`:                             `!3: expected a comma or ] after an element, but found '2'`,
		`{"a":1 "b"}`:                       `!7: expected a comma or } after a member, but found '"'`,
		`01`:                                `!2: a number cannot have leading zeros`,
		`1.`:                                `!2: expected a digit after the decimal point, but found the end of the text`,
		`-`:                                 `!1: expected a digit, but found the end of the text`,
		`1e`:                                `!2: expected a digit in the exponent, but found the end of the text`,
		`1e400`:                             `!0: the number exceeds the range of a double`,
		`nul`:                               `!0: expected a value: unknown word that begins with null`,
		`NaN`:                               `!0: a value cannot begin with 'N'`,
		`1 1`:                               `!2: unexpected data after the value`,
		`"a`:                                `!2: unexpected end of the text in a string`,
		"\"a\nb\"":                          `!2: a control character in a string must be escaped, as in \u000a`,
		`"\x"`:                              `!2: a backslash before 'x' is not a valid escape`,
		`"\u12g4"`:                          `!5: \u must be followed by four hexadecimal digits`,
		"\"ab\xff\"":                        `!3: invalid UTF-8`,
		"\"\xed\xa0\x80\"":                  `!1: invalid UTF-8`,
		strings.Repeat("[", 129):            `!128: arrays and objects are nested more than 128 levels deep`,
	} {
		got := ""
		v, err := Parse([]byte(text), Limits{})
		if e, ok := errors.AsType[*SyntaxError](err); ok {
			got = fmt.Sprintf("!%d: %s", e.Offset, e.Message)
		} else {
			got = v.String()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if _, err := Parse([]byte(`"123456"`), Limits{Size: 7}); err == nil {
		t.Error("a text above the limit was accepted")
	} else if _, ok := errors.AsType[*SizeError](err); !ok {
		t.Errorf("%v is not a SizeError", err)
	}
	if _, err := Parse([]byte(strings.Repeat("[", 128)+strings.Repeat("]", 128)), Limits{}); err != nil {
		t.Errorf("128 levels: %v", err)
	}
}

// TestManyMembers checks that parsing an object with very many names, including a duplicate name, does not compare all
// pairs of names.
func TestManyMembers(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 100_000 {
		fmt.Fprintf(&b, `"n%d":%d,`, i, i)
	}
	b.WriteString(`"n500":"last"}`)
	v := mustParse(t, b.String())
	if got := v.Get("n500").Str(); got != "last" || v.Len() != 100_000 {
		t.Fatalf("n500 is %q of %d members", got, v.Len())
	}
}

// TestLookups checks that members and elements are found, regardless of the text before them.
func TestLookups(t *testing.T) {
	v := mustParse(t, `{ "s" : "x\"}{" , "long":"`+strings.Repeat("y", 40)+`\\\"`+strings.Repeat("z", 40)+`", "n":-1.5e2,
		"a":[1,"]",[2,{"b":3}],null], "o":{"a b":true,"\u0065":"\n"}, "i":123456789012345, "last":false}`)
	for _, c := range []struct{ got, want string }{
		{v.Get("s").Str(), `x"}{`},
		{v.Get("long").Str()[39:43], `y\"z`},
		{fmt.Sprint(v.Get("n").Float()), "-150"},
		{fmt.Sprint(v.Get("i").Float()), fmt.Sprint(123456789012345.0)},
		{v.Get("a").Index(2).Index(1).Get("b").String(), "3"},
		{v.Get("a").Index(3).String(), "null"},
		{v.Get("a").Index(4).String(), "undefined"},
		{v.Get("a").Index(-1).String(), "undefined"},
		{v.Get("o").Get("e").Str(), "\n"},
		{v.Get("o").Get("a b").String(), "true"},
		{v.Get("o").Get("\\u0065").String(), "undefined"},
		{v.Get("last").String(), "false"},
		{v.Get("s").Get("x").String(), "undefined"},
		{fmt.Sprint(v.Len(), v.Get("a").Len(), v.Get("s").Len()), "7 4 0"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// TestIntegers checks that integers keep all their digits. It also checks which numbers are 64-bit integers.
func TestIntegers(t *testing.T) {
	for _, n := range []int64{0, -1, 1 << 53, 1<<53 + 1, -1 << 63, 1<<63 - 1} {
		if v := IntegerValue(n); v.String() != fmt.Sprint(n) {
			t.Errorf("%d is written %v", n, v)
		}
		if got, ok := mustParse(t, fmt.Sprint(n)).Int(); got != n || !ok {
			t.Errorf("%d is read %d, %v", n, got, ok)
		}
	}
	for text, want := range map[string]string{"1.0": "1 true", "1e3": "1000 true", "1.5": "0 false", "1e19": "0 false",
		`"1"`: "0 false", "9223372036854775808": "0 false"} {
		n, ok := mustParse(t, text).Int()
		if got := fmt.Sprint(n, ok); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// TestClone checks that changes to the text's memory do not affect a clone.
func TestClone(t *testing.T) {
	text := []byte(`{"a":[1,"x"],"b":"y"}`)
	v := View(text)
	computed := ObjectValue([]Member{{"in", v.Get("a")}, {"s", v.Get("b")}})
	clones := []Value{v.Clone(), computed.Clone()}
	for i := range text {
		text[i] = '#'
	}
	if clones[0].String() != `{"a":[1,"x"],"b":"y"}` || clones[1].String() != `{"in":[1,"x"],"s":"y"}` {
		t.Errorf("the clones are %v and %v", clones[0], clones[1])
	}
	if n := clones[1].Size(); n < 20 || n > 1000 {
		t.Errorf("its size is %d", n)
	}
}

// anyValue draws computed values of limited depth.
func anyValue(depth int) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		n := 4
		if depth > 0 {
			n = 6
		}
		switch rapid.IntRange(0, n).Draw(t, "kind") {
		case 0:
			return NullValue
		case 1, 2:
			return BooleanValue(rapid.Bool().Draw(t, "b"))
		case 3:
			return NumberValue(rapid.Float64().Draw(t, "n"))
		case 4:
			return StringValue(strings.ToValidUTF8(rapid.String().Draw(t, "s"), "?"))
		case 5:
			return ArrayValue(rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "a"))
		}
		var members []Member
		for _, name := range rapid.SliceOfN(rapid.StringMatching(`[a-c"\\é]{0,2}`), 0, 4).Draw(t, "names") {
			members = append(members, Member{name, anyValue(depth-1).Draw(t, "member")})
		}
		return ObjectValue(members)
	})
}

// TestTextAndTreeAgree checks that a value equals the parsed form of its text. encoding/json must decode the same
// value.
func TestTextAndTreeAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "v")
		text := v.String()
		back, err := Parse([]byte(text), Limits{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !Equal(v, back) || Compare(back, v) != 0 {
			t.Fatalf("%s is not equal to its text", text)
		}
		var std any
		if err := json.Unmarshal([]byte(text), &std); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, _ := json.Marshal(std)
		if w := mustParseString(string(again)); !Equal(v, w) {
			t.Fatalf("%s became %s", text, again)
		}
		if c := string(back.AppendCanonical(nil)); c != string(v.AppendCanonical(nil)) {
			t.Fatalf("%s and its text differ in canonical form", text)
		}
	})
}

func mustParseString(s string) Value {
	v, _ := Parse([]byte(s), Limits{})
	return v
}

// TestOrderIsTotal checks that Compare is antisymmetric, transitive, and consistent with Equal.
func TestOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(anyValue(2), 3, 8).Draw(t, "values")
		slices.SortFunc(all, Compare)
		for i := range all {
			for j := range all {
				c, d := Compare(all[i], all[j]), Compare(all[j], all[i])
				if c != -d || (c == 0) != Equal(all[i], all[j]) || i < j && c > 0 {
					t.Fatalf("%v and %v: %d, %d", all[i], all[j], c, d)
				}
			}
		}
	})
}

// FuzzLookup checks that lookups in a text never panic, even if the text has not been parsed. Parse must accept only
// JSON.
func FuzzLookup(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"\\u00"}]}`,
		`{"a":`, `["`, `{"\`, `{"a":1,"a":{"b":2}}`, `[[[`, `"\ud83d\u`, "{}", `1e999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, v := range []Value{View(text), viewString("{" + string(text)), viewString("[" + string(text))} {
			v.Get("a").Index(1).Get("b").Str()
			v.Len()
			v.Float()
			v.AppendCanonical(nil)
			Without(v, "a")
			With(v, "a", NullValue)
			var c Cursor
			c.Reset(v)
			c.Get("b").Get("a")
			c.Get("a")
		}
		v, err := Parse(text, Limits{})
		if err != nil {
			return
		}
		if !json.Valid([]byte(v.String())) {
			t.Fatalf("%q was accepted", text)
		}
		if w, err := Parse([]byte(v.String()), Limits{}); err != nil || w.String() != v.String() {
			t.Fatalf("%q is not accepted again: %v", v.String(), err)
		}
	})
}

// TestCursor checks that a cursor returns the same values as Get, in any order of lookups.
func TestCursor(t *testing.T) {
	var c Cursor
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(2).Draw(t, "object")
		if rapid.Bool().Draw(t, "text") {
			v = mustParseString(v.String())
		}
		c.Reset(v)
		for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "c", "aa", `"`, `\`,
			"é"})).Draw(t, "names") {
			if got, want := c.Get(name), v.Get(name); got.String() != want.String() || got.Kind() != want.Kind() {
				t.Fatalf("%q of %v is %v, not %v", name, v, got, want)
			}
		}
	})
}
