// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/bulk/text"
)

func drawType(t *rapid.T, depth int) *cqltype.Type {
	if depth == 0 || rapid.Bool().Draw(t, "native") {
		return cqltype.Native(cqltype.Kind(rapid.IntRange(int(cqltype.Ascii), int(cqltype.Varint)).Draw(t, "kind")))
	}
	part := func() *cqltype.Type { return drawType(t, depth-1) }
	switch rapid.IntRange(0, 5).Draw(t, "composed") {
	case 0:
		return cqltype.ListOf(part())
	case 1:
		return cqltype.SetOf(part())
	case 2:
		return cqltype.MapOf(part(), part())
	case 3:
		return cqltype.TupleOf(part(), part())
	case 4:
		return cqltype.VectorOf(part(), rapid.IntRange(1, 3).Draw(t, "dimension"))
	}
	return cqltype.UDTOf("ks", "u", []string{"a", "B c", `d"e`}, []*cqltype.Type{part(), part(), part()})
}

func drawValue(t *rapid.T, typ *cqltype.Type) []byte {
	values := func(n int, nulls bool, of func(i int) *cqltype.Type) [][]byte {
		l := make([][]byte, n)
		for i := range l {
			if !nulls || rapid.IntRange(0, 3).Draw(t, "null") > 0 {
				l[i] = drawValue(t, of(i))
			}
		}
		return l
	}
	first := func(int) *cqltype.Type { return typ.Elems[0] }
	each := func(i int) *cqltype.Type { return typ.Elems[i] }
	count := func() int { return rapid.IntRange(0, 3).Draw(t, "count") }
	switch typ.Kind {
	case cqltype.List:
		return typ.AppendCollection(nil, values(count(), false, first)...)
	case cqltype.Set:
		return typ.SortedSet(values(count(), false, first))
	case cqltype.Map:
		return typ.SortedMap(values(2*count(), false, func(i int) *cqltype.Type { return typ.Elems[i%2] }))
	case cqltype.Tuple, cqltype.UDT:
		return typ.AppendTuple(nil, values(len(typ.Elems), true, each)...)
	case cqltype.Vector:
		return typ.AppendVector(nil, values(typ.Dimension, false, first)...)
	}
	return drawNative(t, typ)
}

func drawNative(t *rapid.T, typ *cqltype.Type) []byte {
	runes := "ab\x00\x01\t\r\n'\"\\,;:|{}[]() é日🙂"
	switch typ.Kind {
	case cqltype.Ascii:
		runes = "ab\x00\x01\n'\"\\,:{}"
		fallthrough
	case cqltype.Text:
		l := []string{"null", "NULL", "NaN", "0x", "", " "}
		return []byte(rapid.OneOf(rapid.SampledFrom(l),
			rapid.StringOfN(rapid.RuneFrom([]rune(runes)), 0, 6, -1)).Draw(t, "text"))
	case cqltype.Blob:
		return rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "blob")
	case cqltype.Boolean:
		return cqltype.EncodeBoolean(rapid.Bool().Draw(t, "boolean"))
	case cqltype.Inet:
		n := rapid.SampledFrom([]int{4, 16}).Draw(t, "inet")
		return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xff}), n, n).Draw(t, "address")
	case cqltype.UUID, cqltype.Timeuuid:
		u := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")
		u[6] = u[6]&0xf | 0x10
		return u
	case cqltype.Varint:
		return cqltype.EncodeVarint(drawInt(t))
	case cqltype.Decimal:
		return cqltype.EncodeDecimal(cqltype.DecimalValue{Unscaled: drawInt(t),
			Scale: rapid.Int32Range(-50, 50).Draw(t, "scale")})
	case cqltype.Duration:
		d := cqltype.DurationValue{Months: rapid.Int32Range(0, 30).Draw(t, "months"),
			Days: rapid.Int32Range(0, 9).Draw(t, "days"), Nanos: rapid.Int64Range(0, math.MaxInt64).Draw(t, "nanos")}
		if rapid.Bool().Draw(t, "zero") {
			d = cqltype.DurationValue{}
		}
		return cqltype.EncodeDuration(d)
	case cqltype.Float, cqltype.Double:
		special := []float64{0, math.Copysign(0, -1), 1.5, math.Inf(1), math.Inf(-1), math.NaN()}
		return typ.Kind.FromFloat64(rapid.OneOf(rapid.Float64(), rapid.SampledFrom(special)).Draw(t, "float"))
	case cqltype.Time:
		v, _ := typ.Kind.FromInt64(rapid.Int64Range(0, 86400e9-1).Draw(t, "time"))
		return v
	case cqltype.Date:
		v, _ := typ.Kind.FromInt64(int64(rapid.OneOf(rapid.Int32Range(-30000, 30000), rapid.Int32()).Draw(t, "date")))
		return v
	}
	limit := map[cqltype.Kind]int64{cqltype.Tinyint: math.MaxInt8, cqltype.Smallint: math.MaxInt16,
		cqltype.Int: math.MaxInt32}[typ.Kind]
	if limit == 0 {
		limit = math.MaxInt64
	}
	v, _ := typ.Kind.FromInt64(rapid.Int64Range(-limit-1, limit).Draw(t, "number"))
	if rapid.IntRange(0, 9).Draw(t, "empty") == 0 && typ.Validate([]byte{}) == nil {
		return []byte{}
	}
	return v
}

func drawInt(t *rapid.T) *big.Int {
	v := big.NewInt(rapid.Int64().Draw(t, "varint"))
	return v.Lsh(v, uint(rapid.IntRange(0, 100).Draw(t, "shift")))
}

func same(t *cqltype.Type, a, b []byte) bool {
	return (a == nil) == (b == nil) && t.Compare(a, b) == 0 && t.Format(a) == t.Format(b)
}

// TestRoundTrip checks T1: a value of any type must be equal after it has been written and read. Values are written as
// CSV fields in any dialect and as members of JSON objects. The JSON output is valid.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 3)
		v := drawValue(t, typ)
		if v == nil || typ.Validate(v) != nil {
			t.Skip("an empty value, which not all vectors take")
		}
		content := text.Content(nil, typ, v)
		back, err := text.Parse(typ, string(content))
		if err != nil || !same(typ, v, back) {
			t.Fatalf("%s: %q is %q, %v; want %q", typ, content, typ.Format(back), err, typ.Format(v))
		}
		d := text.Dialect{Delimiter: rapid.SampledFrom([]byte(",;|\t")).Draw(t, "delimiter"), Quote: '"',
			Escape: rapid.SampledFrom([]byte(`"\`)).Draw(t, "escape"),
			Null:   rapid.SampledFrom([]string{"", "null", "NULL"}).Draw(t, "null")}
		record := append(d.AppendField(nil, content, false), d.Delimiter)
		record = d.AppendField(record, nil, true)
		fields, err := d.Fields(nil, string(record))
		if err != nil || len(fields) != 2 || fields[0] != (text.Field{Text: string(content)}) || !fields[1].Null {
			t.Fatalf("%q is %+v, %v", record, fields, err)
		}
		if !d.Quotes().Feed(record) {
			t.Fatalf("%q ends within quotes", record)
		}
		line := text.Object(nil, []string{"A b", "c"}, []*cqltype.Type{typ, typ}, [][]byte{v, nil})
		if !json.Valid(line) {
			t.Fatalf("not JSON: %s", line)
		}
		n := 0
		err = text.Members(string(line), func(name, value string) error {
			n++
			back, err := text.Member(typ, value)
			if err == nil && (cqltype.JSONName(name) != "A b" || !same(typ, v, back)) {
				t.Fatalf("%s in %s is %q", name, line, typ.Format(back))
			}
			return err
		})
		if err != nil || n != 1 {
			t.Fatalf("%s: %d members, %v", line, n, err)
		}
	})
}

// TestOthers checks that values are read in the formats of cqlsh and DSBulk and in formats that people write.
func TestOthers(t *testing.T) {
	m := cqltype.MapOf(cqltype.Native(cqltype.Text), cqltype.ListOf(cqltype.Native(cqltype.Int)))
	u := cqltype.UDTOf("ks", "u", []string{"a", "b"},
		[]*cqltype.Type{cqltype.Native(cqltype.Int), cqltype.Native(cqltype.Text)})
	for _, c := range []struct {
		typ        *cqltype.Type
		text, want string
	}{
		{m, `{'a': [1,2], 'b''c' : []}`, `{'a': [1, 2], 'b''c': []}`},
		{m, ` {"a":[1, 2],"b\u0027c":[]} `, `{'a': [1, 2], 'b''c': []}`},
		{u, `{b: 'x'}`, `{a: null, b: 'x'}`},
		{u, `{"b":"x","a":null}`, `{a: null, b: 'x'}`},
		{cqltype.SetOf(cqltype.Native(cqltype.Int)), `[3, 1, 3]`, `{1, 3}`},
		{cqltype.MapOf(cqltype.TupleOf(cqltype.Native(cqltype.Int)), cqltype.Native(cqltype.Int)),
			`{"[1]": 2}`, `{(1): 2}`},
		{cqltype.Native(cqltype.Boolean), "True", "true"},
		{cqltype.Native(cqltype.Double), "nan", "NaN"},
		{cqltype.Native(cqltype.Timestamp), "2020-01-02 03:04:05.006000+0000", "'2020-01-02T03:04:05.006Z'"},
	} {
		wire, err := text.Parse(c.typ, c.text)
		if err != nil || c.typ.Format(wire) != c.want {
			t.Errorf("%s is %s, %v; want %s", c.text, c.typ.Format(wire), err, c.want)
		}
	}
}

// TestMistakes checks that invalid text is rejected with an error that states the reason.
func TestMistakes(t *testing.T) {
	l := cqltype.ListOf(cqltype.Native(cqltype.Int))
	for _, c := range []struct {
		typ        *cqltype.Type
		text, want string
	}{
		{l, "[1", "expected a comma"},
		{l, "[null]", "an element is null"},
		{l, "[1] 2", "follows the end"},
		{l, "1", "expected a bracket"},
		{cqltype.Native(cqltype.Blob), "ff", "expected 0x"},
		{cqltype.VectorOf(cqltype.Native(cqltype.Float), 2), "[1]", "there are 1 elements"},
		{cqltype.UDTOf("ks", "u", []string{"a"}, []*cqltype.Type{l}), "{b: 1}", "unknown field"},
		{l, "['1", "unterminated string"},
	} {
		if _, err := text.Parse(c.typ, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
	d := text.Dialect{Delimiter: ',', Quote: '"', Escape: '"'}
	for record, want := range map[string]string{`"a`: "not closed", `"a"b`: "follows the closing quote",
		`a"b`: "unexpected quote"} {
		if _, err := d.Fields(nil, record); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", record, err, want)
		}
	}
}

// FuzzParse checks T3: no text causes a panic.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a": [1]}`, `{'a': null}`, `"[1]"`, `a,"b""c"`, strings.Repeat("[", 100)} {
		f.Add(s)
	}
	i := cqltype.Native(cqltype.Int)
	types := []*cqltype.Type{cqltype.ListOf(cqltype.ListOf(i)), cqltype.MapOf(cqltype.SetOf(i), i),
		cqltype.TupleOf(i, i), cqltype.VectorOf(i, 2), cqltype.UDTOf("k", "u", []string{"a"}, []*cqltype.Type{i})}
	f.Fuzz(func(_ *testing.T, s string) {
		for _, t := range types {
			_, _ = text.Parse(t, s)
		}
		_, _ = text.Dialect{Delimiter: ',', Quote: '"', Escape: '\\'}.Fields(nil, s)
		_ = text.Members(s, func(_, v string) error { _, err := text.Member(types[0], v); return err })
	})
}
