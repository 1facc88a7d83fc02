// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

var udtAB = UDTOf("ks", "u", []string{"a", "b"}, []*Type{Native(Int), Native(Text)})

// TestFromJSONRecorded compares FromJSON with recorded values and errors of Cassandra 4.0. An expected value that is
// not hexadecimal is an error text.
func TestFromJSONRecorded(t *testing.T) {
	for _, c := range []struct {
		typ  *Type
		text string
		want string
	}{
		{Native(Int), `"44"`, "0000002c"},
		{Native(Int), `null`, "null"},
		{Native(Int), `"x"`, "Unable to make int from 'x'"},
		{Native(Int), `1.5`, "Expected an int value, but got a Double: 1.5"},
		{Native(Int), `9999999999`, "Expected an int value, but got a Long: 9999999999"},
		{Native(Bigint), `9223372036854775808`, "Expected a bigint value, but got a BigInteger: 9223372036854775808"},
		{Native(Bigint), `9223372036854775807`, "7fffffffffffffff"},
		{Native(Text), `5`, "Expected a UTF-8 string, but got a Integer: 5"},
		{Native(Ascii), `3`, "Expected an ascii string, but got a Integer: 3"},
		{Native(Ascii), `"שלום"`,
			"Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1"},
		{Native(Boolean), `1`, "Expected a boolean value, but got a Integer: 1"},
		{Native(Boolean), `"true"`, "01"},
		{Native(Double), `"1.5"`, "3ff8000000000000"},
		{Native(Decimal), `1.10`, "000000010b"},
		{Native(Varint), `12345678901234567890`, "00ab54a98ceb1f0ad2"},
		{Native(Varint), `""`, "Value '' is not a valid representation of a varint value"},
		{Native(Date), `2147483648`, "Expected a string representation of a date value, but got a Long: 2147483648"},
		{Native(Date), `"nope"`, "Unable to coerce 'nope' to a formatted date (long)"},
		{Native(Timestamp), `"nope"`, "Unable to parse a date/time from 'nope'"},
		{Native(Timestamp), `"2014-01-01 12:15:45.000Z"`, "000001434dbb1d68"},
		{Native(Timestamp), `1296705900000`, "0000012de9b1cde0"},
		{Native(Duration), `"1h30m"`, "0000fc09d29229e000"},
		{Native(Duration), `"nope"`, "invalid: Unable to convert 'nope' to a duration"},
		{Native(Blob), `"xyz"`,
			"Value 'xyz' is not a valid blob representation: String representation of blob is missing 0x prefix: xyz"},
		{Native(Blob), `"0xz"`, "Value '0xz' is not a valid blob representation: cannot parse 'z' as hex bytes"},
		{Native(Blob), `"0xcafe"`, "cafe"},
		{Native(UUID), `"nope"`, "Unable to make UUID from 'nope'"},
		{Native(Inet), `"nope"`, "Unable to make inet address from 'nope'"},
		{ListOf(Native(Int)), `[3, 1]`, "0000000200000004000000030000000400000001"},
		{ListOf(Native(Int)), `1`, "Expected a list, but got a Integer: 1"},
		{ListOf(Native(Int)), `[null]`, "Invalid null element in list"},
		{SetOf(Native(Text)), `["b", "a", "b"]`, "0000000200000001610000000162"},
		{MapOf(Native(Int), Native(Text)), `{"2": "b", "1": "a"}`,
			"000000020000000400000001000000016100000004000000020000000162"},
		{MapOf(Native(Int), Native(Text)), `[1]`, "Expected a map, but got a ArrayList: [1]"},
		{TupleOf(Native(Int), Native(Text)), `[1, "x", 2]`, "Tuple contains extra items (expected 2): [1, x, 2]"},
		{TupleOf(Native(Int), Native(Text)), `[1]`, "Tuple is missing items (expected 2): [1]"},
		{TupleOf(Native(Int), Native(Text)), `[]`, "Tuple is missing items (expected 2): []"},
		{TupleOf(Native(Int), Native(Text)), `"[1]"`, "Tuple is missing items (expected 2): [1]"},
		{ListOf(TupleOf(Native(Int), Native(Int))), `[[1, 2], [3]]`, "Tuple is missing items (expected 2): [3]"},
		{TupleOf(Native(Text), Native(Int)), `[null, 2]`, "ffffffff0000000400000002"},
		{TupleOf(Native(Int), Native(Text)), `"x"`,
			"Error decoding JSON string: Unrecognized token 'x': was expecting ('true', 'false' or 'null')\n at " +
				"[Source: (String)\"x\"; line: 1, column: 3]"},
		{udtAB, `{"nosuch": 1}`, "Unknown field 'nosuch' in value of user defined type u"},
		{udtAB, `1`, "Expected a map, but got a Integer: 1"},
		{udtAB, `{"b": "only"}`, "ffffffff000000046f6e6c79"},
		{MapOf(TupleOf(Native(Text), Native(Int)), Native(Int)), `{"[\"hello\", 3]": 7}`,
			"00000001000000110000000568656c6c6f00000004000000030000000400000007"},
	} {
		v, err := ParseJSON(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		wire, err := c.typ.FromJSON(v)
		got := hex.EncodeToString(wire)
		if bad, ok := errors.AsType[*JSONValueError](err); ok {
			got = bad.Text(true) // the error text of 4.0
		} else if bad, ok := errors.AsType[*dberr.Invalid](err); ok {
			got = "invalid: " + bad.Message
		} else if wire == nil {
			got = "null"
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.typ, c.text, got, c.want)
		}
	}
}

// TestParseJSONRecorded compares the parser's errors with Cassandra's texts, including positions.
func TestParseJSONRecorded(t *testing.T) {
	for _, c := range []struct{ text, class, want string }{ // the error texts of 4.0
		{"dog", jsonParse, "Unrecognized token 'dog': was expecting ('true', 'false' or 'null')\n at [Source: " +
			"(String)\"dog\"; line: 1, column: 7]"},
		{"bad json", jsonParse,
			"Unrecognized token 'bad': was expecting ('true', 'false' or 'null')\n at [Source: (String)\"bad json\"; line: 1, column: 4]"},
		{"{17: 3}", jsonParse,
			"Unexpected character ('1' (code 49)): was expecting double-quote to start field name\n at [Source: " +
				"(String)\"{17: 3}\"; line: 1, column: 3]"},
		{`{"k": 1`, jsonEOF,
			"Unexpected end-of-input: expected close marker for Object (start marker at [Source: (String)\"{\"k\": " +
				"1\"; line: 1, column: 1])\n at [Source: (String)\"{\"k\": 1\"; line: 1, column: 22]"},
		{"", jsonMismatch, "No content to map due to end-of-input\n at [Source: (String)\"\"; line: 1, column: 0]"},
	} {
		_, err := ParseJSON(c.text)
		bad, ok := errors.AsType[*JSONError](err)
		if !ok || bad.Class != c.class || bad.Text(true) != c.want {
			t.Errorf("%q: %v\nwant %s", c.text, err, c.want)
		}
	}
	for text, want := range map[string]string{ // the error texts of 5.0
		"dog": "Unrecognized token 'dog': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or " +
			"'false')\n at [Source: (String)\"dog\"; line: 1, column: 4]",
		`{"k": 1`: "Unexpected end-of-input: expected close marker for Object (start marker at [Source: " +
			"(String)\"{\"k\": 1\"; line: 1, column: 1])\n at [Source: (String)\"{\"k\": 1\"; line: 1, column: 8]",
	} {
		if _, err := ParseJSON(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
	_, err := ParseJSONMap("[]", true)
	if want := "Could not decode JSON string as a map: " +
		"com.fasterxml.jackson.databind.exc.MismatchedInputException: Cannot deserialize instance of " +
		"`java.util.LinkedHashMap` out of START_ARRAY token\n at [Source: (String)\"[]\"; line: 1, column: 1]. " +
		"(String was: [])"; err == nil || err.Error() != want {
		t.Errorf("[]: %v\nwant %s", err, want)
	}
	if o, err := ParseJSONMap("null", false); o != nil || err != nil {
		t.Errorf("null: %v, %v", o, err)
	}
	if o, err := ParseJSONMap(`{"k": 10, "K": "a", "k": 11}`, false); err != nil || len(o.Names) != 2 ||
		o.Values[0] != json.Number("11") {
		t.Errorf("a duplicate name: %v, %v", o, err)
	}
	if _, err := ParseJSON(strings.Repeat("[", 100000)); err == nil {
		t.Error("depth is not limited")
	}
}

// TestParseJSONErrors checks the text and the position of each syntax error.
func TestParseJSONErrors(t *testing.T) {
	for _, c := range []struct {
		text, says   string
		line, column int
	}{
		{`[1 2]`, "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries", 1, 5},
		{"[1,", "expected close marker for Array", 1, 4},
		{`[,]`, "Unexpected character (',' (code 44)): expected a valid value", 1, 3},
		{`[1,]`, "Unexpected character (']' (code 93)): expected a valid value", 1, 5},
		{`{"a":1,}`, "Unexpected character ('}' (code 125)): was expecting double-quote to start field name", 1, 9},
		{`{"a" 1}`, "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value", 1, 7},
		{"{\"a\":", "expected close marker for Object", 1, 6},
		{`{"a":1 "b":2}`, "Unexpected character ('\"' (code 34)): was expecting comma to separate Object entries", 1, 9},
		{`{a:1}`, "Unexpected character ('a' (code 97)): was expecting double-quote to start field name", 1, 3},
		{"[[{\"a\":[1]", "expected close marker for Object", 1, 11},
		{`-x`, "Unexpected character ('x' (code 120)): in numeric value, a digit must follow", 1, 3},
		{`1.`, "Unexpected end-of-input in numeric value", 1, 3},
		{`[1e]`, "Unexpected character (']' (code 93)): in numeric value, a digit must follow", 1, 5},
		{`-01`, "Invalid numeric value: Leading zeroes not allowed", 1, 3},
		{`[00]`, "Invalid numeric value: Leading zeroes not allowed", 1, 3},
		{`1x`, "Unexpected character ('x' (code 120)): Expected space separating root-level values", 1, 3},
		{`"a`, "Unexpected end-of-input in VALUE_STRING", 1, 3},
		{"\"a\n\"", "Illegal unquoted character ((CTRL-CHAR, code 10)): has to be escaped", 2, 1},
		{`"\q"`, "Unrecognized character escape 'q' (code 113)", 1, 4},
		{`"\`, "Unexpected end-of-input in character escape sequence", 1, 3},
		{`"\u12`, "Unexpected end-of-input in character escape sequence", 1, 6},
		{`"\u12g4"`, "Unexpected character ('1' (code 49)): expected a hex-digit for character escape sequence", 1, 5},
		{`"\ud83d\u12"  `, "Unexpected character ('1' (code 49)): expected a hex-digit for character escape sequence", 1, 11},
		{`nullx`, "Unrecognized token 'nullx'", 1, 6},
		{`[tru]`, "Unrecognized token 'tru'", 1, 5},
		{`#`, "Unexpected character ('#' (code 35)): expected a valid value", 1, 2},
		{"[\n  1,\n  oops]", "Unrecognized token 'oops'", 3, 7},
	} {
		_, err := ParseJSON(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf("line: %d, column: %d]", c.line, c.column)) {
			t.Errorf("%q: %v\nwant %s at %d:%d", c.text, err, c.says, c.line, c.column)
		}
	}
}

// TestAppendJSONRecorded compares toJson with recorded results of Cassandra 4.0.
func TestAppendJSONRecorded(t *testing.T) {
	for _, c := range []struct {
		typ  *Type
		wire string
		want string
	}{
		{Native(Text), hex.EncodeToString([]byte("quote \" back \\ tab\tnl")), `"quote \" back \\ tab\tnl"`},
		{Native(Text), hex.EncodeToString([]byte("é日本🙂/\x01\x1f")), `"é日本🙂/\u0001\u001F"`},
		{Native(Text), "", `""`},
		{Native(Blob), "00ff", `"0x00ff"`},
		{Native(Double), "54b249ad2594c37d", "1.0E100"},
		{Native(Float), "3f8ccccd", "1.1"},
		{Native(Float), "4cbebc20", "1.0E8"},
		{Native(Double), "7ff8000000000000", "null"},
		{Native(Float), "7f800000", "null"},
		{Native(Decimal), "00000003044c", "1.100"},
		{Native(Decimal), "ffffffe201", "1E+30"},
		{Native(Inet), "20010db8000000000000000000000001", `"2001:db8:0:0:0:0:0:1"`},
		{Native(Timestamp), "0000012de9b1e885", `"2011-02-03 04:05:06.821Z"`},
		{Native(Time), "000000000000007b", `"00:00:00.000000123"`},
		{Native(Duration), "0204fc09d29229e000", `"1mo2d1h30m"`},
		{Native(Double), "405edd2f1a9fbe77", "123.456"},
		{MapOf(Native(Text), ListOf(Native(Int))),
			"0000000200000001610000000400000000000000037822790000000c000000010000000400000001",
			`{"a": [], "x\"y": [1]}`},
		{MapOf(Native(Int), Native(Boolean)), "0000000100000004000000010000000101", `{"1": true}`},
		{MapOf(TupleOf(Native(Text), Native(Int)), Native(Int)),
			"00000001000000110000000568656c6c6f00000004000000030000000400000007", `{"[\"hello\", 3]": 7}`},
		{TupleOf(Native(Text), Native(Int)), "0000000568656c6c6f", `["hello", null]`},
		{UDTOf("ks", "u", []string{"a", "B"}, []*Type{Native(Int), Native(Text)}), "0000000400000001",
			`{"a": 1, "\"B\"": null}`},
	} {
		if got := string(c.typ.AppendJSON(nil, unhex(c.wire))); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.typ, c.wire, got, c.want)
		}
	}
	if got := string(Native(Int).AppendJSON(nil, nil)); got != "null" {
		t.Errorf("null is %s", got)
	}
}

// TestJSONRoundTrip checks that AppendJSON produces valid JSON. It also checks that FromJSON accepts this JSON after
// this package's parser or encoding/json has parsed it.
func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawType(t, 2)
		wire := drawValue(t, typ)
		text := typ.AppendJSON(nil, wire)
		v, err := ParseJSON(string(text))
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s: %x is %s: %v", typ, wire, text, err)
		}
		got, err := typ.FromJSON(v)
		if !exactInJSON(typ, wire) {
			return
		}
		if err != nil || typ.Compare(got, wire) != 0 {
			t.Fatalf("%s: %x is %s, which reads as %x, %v", typ, wire, text, got, err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var std any
		if err := decoder.Decode(&std); err != nil {
			t.Fatal(err)
		}
		if again, err := typ.FromJSON(std); err != nil || typ.Compare(again, got) != 0 {
			t.Fatalf("%s: %s reads as %x, through encoding/json as %x, %v", typ, text, got, again, err)
		}
	})
}

// exactInJSON reports whether a value's JSON form is lossless. It returns false for empty values, NaN, decimals (which
// are converted to doubles), IPv4-mapped IPv6 addresses, and zero durations.
func exactInJSON(typ *Type, wire []byte) bool {
	if len(wire) == 0 {
		return wire == nil || typ.Kind == Text || typ.Kind == Ascii || typ.Kind == Blob
	}
	switch typ.Kind {
	case Decimal, Inet:
		return false
	case Duration:
		return !bytes.Equal(wire, []byte{0, 0, 0})
	case Float, Double:
		v, _ := typ.Kind.Float64(wire)
		return v == v && !math.IsInf(v, 0)
	}
	for i, v := range typ.Elements(wire) {
		if len(typ.Elems) > 0 && !exactInJSON(typ.elemType(i), v) {
			return false
		}
	}
	return true
}

// FuzzJSON checks that no text causes a panic, and that accepted values are valid for the type. The test also checks
// that encoding/json accepts every accepted text up to the end of the value.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a": 1, "B": ["x", null]}`, `[1, "x", 2.5e3]`, `"\ud83d\ude42\u0041\ud800"`, `-0`,
		`"0xcafe"`, `{"1": true}`, `[1,`, `"P1Y"`, `01`, `1 2`, `{"a":{"a":[[[]]]}}`} {
		for kind := Ascii; kind <= UDT; kind++ {
			f.Add(uint8(kind), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		v, err := ParseJSON(text)
		if err != nil {
			return
		}
		var std any
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&std); err != nil &&
			!strings.Contains(err.Error(), "cannot unmarshal number") &&
			!strings.Contains(err.Error(), "exceeded max depth") {
			t.Fatalf("%q accepted as %v: %v", text, v, err)
		}
		typ := fuzzType(kind)
		wire, err := typ.FromJSON(v)
		if err != nil {
			return
		}
		if err := typ.Validate(wire); err != nil {
			t.Fatalf("%s: %q gives %x: %v", typ, text, wire, err)
		}
	})
}
