// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestFromConstantRecorded compares constants with recorded values and errors of Cassandra 4.0. An expected value that
// is not hexadecimal is an error text.
func TestFromConstantRecorded(t *testing.T) {
	for _, c := range []struct {
		constant Constant
		text     string
		kind     Kind
		want     string
	}{
		{IntegerConst, "128", Tinyint, "Unable to make byte from '128'"},
		{IntegerConst, "-129", Tinyint, "Unable to make byte from '-129'"},
		{IntegerConst, "32768", Smallint, "Unable to make short from '32768'"},
		{IntegerConst, "9999999999", Int, "Unable to make int from '9999999999'"},
		{FloatConst, "1.5", Int, `Invalid FLOAT constant (1.5) for "c" of type int`},
		{StringConst, "1", Int, `Invalid STRING constant (1) for "c" of type int`},
		{BooleanConst, "true", Int, `Invalid BOOLEAN constant (true) for "c" of type int`},
		{HexConst, "0x01", Int, `Invalid HEX constant (0x01) for "c" of type int`},
		{FloatConst, "1e3", Bigint, `Invalid FLOAT constant (1e3) for "c" of type bigint`},
		{IntegerConst, "5", UUID, `Invalid INTEGER constant (5) for "c" of type uuid`},
		{StringConst, "1d", Duration, `Invalid STRING constant (1d) for "c" of type duration`},
		{StringConst, "1.5", Decimal, `Invalid STRING constant (1.5) for "c" of type decimal`},

		{FloatConst, "1.5", Decimal, "000000010f"},
		{FloatConst, "-0.0", Decimal, "0000000100"},
		{IntegerConst, "1", Decimal, "0000000001"},
		{FloatConst, "1e10", Decimal, "fffffff601"},
		{FloatConst, "123456789012345678901234567890.123456789", Decimal, "000000095ce0e9a56015fec5aadfa328ae398115"},
		{FloatConst, "NaN", Decimal, "unable to make BigDecimal from 'NaN'"},
		{FloatConst, "-0.0", Double, "8000000000000000"},
		{FloatConst, "-nan", Double, "7ff8000000000000"},
		{FloatConst, "NaN", Float, "7fc00000"},
		{FloatConst, "-Infinity", Float, "ff800000"},
		{FloatConst, "1e10", Float, "501502f9"},
		{FloatConst, "1E-10", Double, "3ddb7cdfd9d7bdbb"},
		{FloatConst, "3.4028235E38", Float, "7f7fffff"},
		{IntegerConst, "-1", Double, "bff0000000000000"},

		{StringConst, "é", Ascii,
			"Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1"},
		{StringConst, "", Text, ""},
		{HexConst, "0XdeadBEEF00", Blob, "deadbeef00"},
		{HexConst, "0x", Blob, ""},
		{HexConst, "0xABC", Blob, "cannot parse 'ABC' as hex bytes"},
		{BooleanConst, "True", Boolean, "01"},
		{UUIDConst, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", UUID, "ffffffffffffffffffffffffffffffff"},
		{UUIDConst, "6b8b4567-327b-43c6-a456-426614174000", Timeuuid, "TimeUUID supports only version 1 UUIDs"},

		{IntegerConst, "0", Timestamp, "0000000000000000"},
		{StringConst, "2011-02-03", Timestamp, "0000012de8d18000"},
		{StringConst, "2011-02-03 04:05+0000", Timestamp, "0000012de9b1cde0"},
		{StringConst, "2011-02-03 04:05:00+0000", Timestamp, "0000012de9b1cde0"},
		{StringConst, "2011-02-03 04:05:00.000+0000", Timestamp, "0000012de9b1cde0"},
		{StringConst, "2011-02-03T04:05+0000", Timestamp, "0000012de9b1cde0"},
		{StringConst, "2011-02-03T04:05:00.123Z", Timestamp, "0000012de9b1ce5b"},
		{StringConst, "2011-02-03T04:05:00.123+02:00", Timestamp, "0000012de943f15b"},
		{StringConst, "2011-02-03+0100", Timestamp, "0000012de89a9180"},
		{StringConst, "2011-02-03 04:05:00 UTC", Timestamp, "0000012de9b1cde0"},
		{StringConst, "1969-12-31 23:59:59.999+0000", Timestamp, "ffffffffffffffff"},
		{StringConst, "1299038700000", Timestamp, "0000012e74bd81e0"},
		{StringConst, "2011-02-30", Timestamp, "0000012e69907c00"}, // February 30 becomes the last day of the month
		{StringConst, "", Timestamp, ""},
		{StringConst, "yesterday", Timestamp, "Unable to parse a date/time from 'yesterday'"},
		{StringConst, "2011-13-03", Timestamp, "Unable to parse a date/time from '2011-13-03'"},
		{StringConst, "2011-02-03 25:00:00", Timestamp, "Unable to parse a date/time from '2011-02-03 25:00:00'"},
		{StringConst, "2011-02-03 04:05 Nowhere", Timestamp,
			"Unable to parse a date/time from '2011-02-03 04:05 Nowhere'"},

		{StringConst, "1970-01-01", Date, "80000000"},
		{StringConst, "2026-02-28", Date, "80005020"},
		{StringConst, "1969-12-31", Date, "7fffffff"},
		{IntegerConst, "2147483648", Date, "80000000"},
		{StringConst, "-5877641-06-23", Date, "00000000"},
		{StringConst, "2024-02-29", Date, "80004d46"},
		{StringConst, "2023-02-29", Date, "Unable to coerce '2023-02-29' to a formatted date (long)"},
		{IntegerConst, "4294967296", Date, "Unable to make unsigned int (for date) from: '4294967296'"},
		{IntegerConst, "-1", Date, "Unable to make unsigned int (for date) from: '-1'"},
		{StringConst, "", Date, "Unable to coerce '' to a formatted date (long)"},

		{StringConst, "23:59:59.999999999", Time, "00004e94914effff"},
		{StringConst, "08:12:54.1", Time, "00001ae5c1b99d00"},
		{IntegerConst, "86400000000000", Time, "Unable to make long (for time) from: '86400000000000'"},
		{StringConst, "24:00:00", Time, "(TimeType) Unable to coerce '24:00:00' to a formatted time (long)"},
		{StringConst, "10:60:00", Time, "(TimeType) Unable to coerce '10:60:00' to a formatted time (long)"},
		{StringConst, "10:00", Time, "(TimeType) Unable to coerce '10:00' to a formatted time (long)"},
		{StringConst, "10:00:00.1234567890", Time,
			"(TimeType) Unable to coerce '10:00:00.1234567890' to a formatted time (long)"},
		{StringConst, "", Time, "(TimeType) Unable to coerce '' to a formatted time (long)"},

		{DurationConst, "1y2mo3w4d5h6m7s8ms9us10ns", Duration, "1c32fc2168cdf9d664"},
		{DurationConst, "-12h30m", Duration, "0000fc51dac2079fff"},
		{DurationConst, "89h4m48s", Duration, "0000fe024753fca5c000"},
		{DurationConst, "P3Y6M4DT12H30M5S", Duration, "5408fc51dd16138400"},
		{DurationConst, "P5W", Duration, "004600"},
		{DurationConst, "P0001-03-02T04:05:06", Duration, "1e04fc1ac003cfe800"},
		{DurationConst, "0d", Duration, "000000"},
		{DurationConst, "500µs", Duration, "0000cf4240"},
		{DurationConst, "-P1Y", Duration, "170000"},
		{DurationConst, "1d2y", Duration, "Invalid duration. The days should be after years"},
		{DurationConst, "1d1d", Duration, "Invalid duration. The days are specified multiple times"},
		{IntegerConst, "5", Duration, "Unable to convert '5' to a duration"},

		{StringConst, "127.0.0.1", Inet, "7f000001"},
		{StringConst, "2001:db8::ff00:42:8329", Inet, "20010db8000000000000ff0000428329"},
		{StringConst, "::ffff:10.0.0.1", Inet, "0a000001"},
		{StringConst, "xyz.invalid.", Inet, "Unable to make inet address from 'xyz.invalid.'"},
		{StringConst, "1.2.3.4.5", Inet, "Unable to make inet address from '1.2.3.4.5'"},
	} {
		wire, err := Native(c.kind).FromConstant(c.constant, c.text)
		got := hex.EncodeToString(wire)
		if bad, ok := errors.AsType[*ConstantError](err); ok {
			err = bad.For("c")
		}
		if invalid, ok := errors.AsType[*dberr.Invalid](err); ok {
			got = invalid.Message
		} else if err != nil {
			t.Errorf("%s %q: %T", c.constant, c.text, err)
		}
		if got != c.want {
			t.Errorf("%s %q as %s: %q, want %q", c.constant, c.text, Native(c.kind), got, c.want)
		}
		if err == nil && Native(c.kind).Validate(wire) != nil {
			t.Errorf("%s %q as %s: %x is not valid", c.constant, c.text, Native(c.kind), wire)
		}
	}
}

// TestTuplesFromConstants checks that a tuple accepts its text form as a constant, as in Cassandra.
func TestTuplesFromConstants(t *testing.T) {
	pair := TupleOf(Native(Int), Native(Text))
	for _, c := range []struct{ text, want string }{
		{"5", "0000000400000005"},
		{`5:a\:b`, "000000040000000500000003613a62"},
		{"@:x", "ffffffff0000000178"},
	} {
		if got, err := pair.FromConstant(StringConst, c.text); err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%q: %x, %v, want %s", c.text, got, err, c.want)
		}
	}
	if _, err := pair.FromConstant(StringConst, "1:2:3"); err == nil {
		t.Error("three components are accepted for two")
	}
}

// TestPreferred checks the preferred types of constants.
func TestPreferred(t *testing.T) {
	for _, c := range []struct {
		constant Constant
		text     string
		want     Kind
	}{
		{IntegerConst, "2147483647", Int},
		{IntegerConst, "2147483648", Bigint},
		{IntegerConst, "9223372036854775808", Varint},
		{FloatConst, "1.5", Double},
		{FloatConst, "1.10", Double},
		{FloatConst, "1e-310", Double},
		{FloatConst, "123456789.123456789", Decimal},
		{FloatConst, "NaN", Double},
		{FloatConst, "0.12345678901234567890", Decimal},
		{StringConst, "abc", Ascii},
		{StringConst, "é", Text},
		{HexConst, "0x00", Blob},
		{BooleanConst, "true", Boolean},
		{DurationConst, "1d", Duration},
	} {
		if got := c.constant.Preferred(c.text); got.Kind != c.want {
			t.Errorf("%s %s prefers %s", c.constant, c.text, got)
		}
	}
}

// TestFormat checks the results of Format and Text.
func TestFormat(t *testing.T) {
	address := UDTOf("ks", "address", []string{"street", "Zip"}, []*Type{Native(Text), Native(Int)})
	for _, c := range []struct {
		typ     *Type
		wire    string
		literal string
		text    string
	}{
		{Native(Text), "69742773", "'it''s'", "it's"},
		{Native(Blob), "cafe", "0xcafe", "0xcafe"},
		{Native(Blob), "", "0x", "0x"},
		{Native(Int), "fffffffb", "-5", "-5"},
		{Native(Float), "40490fdb", "3.1415927", "3.1415927"},
		{Native(Float), "dfd9fde5", "-3.1415926E19", "-3.1415926E19"},
		{Native(Double), "3ff0000000000000", "1.0", "1.0"},
		{Native(Double), "4170000000000000", "1.6777216E7", "1.6777216E7"},
		{Native(Double), "3f50624dd2f1a9fc", "0.001", "0.001"},
		{Native(Double), "7ff8000000000000", "NaN", "NaN"},
		{Native(Decimal), "ffffffe201", "1E+30", "1E+30"},
		{Native(Decimal), "00000003044c", "1.100", "1.100"},
		{Native(Decimal), "0000000a01", "1E-10", "1E-10"},
		{Native(Decimal), "00000002fb", "-0.05", "-0.05"},
		{Native(Varint), "018ee90ff6c373e0ee4e3f0ad2", "123456789012345678901234567890",
			"123456789012345678901234567890"},
		{Native(Boolean), "02", "true", "true"},
		{Native(Timestamp), "0000012de9b2b74d", "'2011-02-03T04:05:59.757Z'", "2011-02-03T04:05:59.757Z"},
		{Native(Timestamp), "7fffffffffffffff", "9223372036854775807", "+292278994-08-17T07:12:55.807Z"},
		{Native(Date), "80003aa0", "'2011-02-03'", "2011-02-03"},
		{Native(Date), "00000000", "'-5877641-06-23'", "-5877641-06-23"},
		{Native(Date), "ffffffff", "'+5881580-07-11'", "+5881580-07-11"},
		{Native(Time), "00000d6030ef2340", "'04:05:06.789000000'", "04:05:06.789000000"},
		{Native(Duration), "0000fc51dac2079fff", "-12h30m", "-12h30m"},
		{Native(Duration), "1c32fc2168cdf9d664", "1y2mo25d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"},
		{Native(Inet), "20010db8000000000000000000000001", "'2001:db8:0:0:0:0:0:1'", "2001:db8:0:0:0:0:0:1"},
		{Native(UUID), "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-426614174000",
			"123e4567-e89b-12d3-a456-426614174000"},
		{ListOf(Native(Int)), "0000000200000004000000030000000400000001", "[3, 1]", "[3, 1]"},
		{SetOf(Native(Text)), "000000010000000161", "{'a'}", "{'a'}"},
		{MapOf(Native(Text), Native(Int)), "0000000100000001610000000400000001", "{'a': 1}", "{'a': 1}"},
		{TupleOf(Native(Int), Native(Text)), "00000004ffffffffffffffff", "(-1, null)", "(-1, null)"},
		{address, "000000015300000004fffffffe", `{street: 'S', "Zip": -2}`, `{street: 'S', "Zip": -2}`},
	} {
		if got := c.typ.Format(unhex(c.wire)); got != c.literal {
			t.Errorf("%s %s: literal %s, want %s", c.typ, c.wire, got, c.literal)
		}
		if got := c.typ.Text(unhex(c.wire)); got != c.text {
			t.Errorf("%s %s: text %s, want %s", c.typ, c.wire, got, c.text)
		}
	}
	if got := Native(Int).Format(nil); got != "null" {
		t.Errorf("null is %s", got)
	}
}

// TestTextRoundTrip checks that FromText accepts the output of Text for every native value.
func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := drawNative(t)
		wire := drawValue(t, typ)
		if len(wire) == 0 || typ.Kind == Boolean && wire[0] > 1 {
			return
		}
		text := typ.Text(wire)
		switch typ.Kind {
		case Blob:
			text = text[2:]
		case Duration:
			if text == "" {
				return
			}
		}
		got, err := typ.FromText(text)
		if err != nil || typ.Compare(got, wire) != 0 && !(typ.Kind == Inet && len(got) == 4) {
			t.Fatalf("%s: %x is %q, which reads as %x, %v", typ, wire, text, got, err)
		}
	})
}

// FuzzText checks that no text causes a panic, and that accepted texts produce valid values.
func FuzzText(f *testing.F) {
	for _, text := range []string{"1e10", "-5877641-06-23", "2011-02-03T04:05:00.123+02:00", "P0001-03-02T04:05:06",
		"1y2mo3w4d5h6m7s8ms9us10ns", "::ffff:10.0.0.1", `1:a\:b:@`, "NaN", "2011-02-03 UTC", "1E+2147483647"} {
		for kind := Ascii; kind <= Tuple; kind++ {
			f.Add(uint8(kind), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		typ := fuzzType(kind)
		if wire, err := typ.FromText(text); err == nil {
			if err := typ.Validate(wire); err != nil {
				t.Fatalf("%s: %q gives %x: %v", typ, text, wire, err)
			}
		}
		for c := StringConst; c <= DurationConst; c++ {
			c.Preferred(text)
		}
	})
}

// TestHexConstantsAreNoTuples checks that the digits of a hexadecimal constant are not parsed as the text of a tuple.
func TestHexConstantsAreNoTuples(t *testing.T) {
	typ := TupleOf(Native(Int), Native(Text))
	if fit := typ.Fits(HexConst, "0x04"); fit != NoFit {
		t.Errorf("fit %v, want %v", fit, NoFit)
	}
	if v, err := typ.FromConstant(HexConst, "0x04"); err == nil {
		t.Errorf("the constant became %x", v)
	}
	if _, err := typ.FromConstant(StringConst, "4:a"); err != nil {
		t.Error(err)
	}
}
