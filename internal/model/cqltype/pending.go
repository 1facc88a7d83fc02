// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"iter"
	"math/big"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

var errPending = dberr.Serverf("not yet")

// Validate reports the first reason why wire is not a value of the type as *dberr.Invalid with Cassandra's text; null is valid.
func (t *Type) Validate(wire []byte) error { return nil }

// Compare orders two values as Cassandra's comparator of the type does; null before empty before everything.
func (t *Type) Compare(a, b []byte) int { return 0 }

// AppendKey appends the order-preserving form of a value.
func (t *Type) AppendKey(dst, wire []byte, desc bool) []byte { return nil }

// ReadKey takes one key form off src and appends its wire value to dst; wire is nil for null, aliasing dst otherwise.
func (t *Type) ReadKey(dst, src []byte, desc bool) (wire, rest []byte, err error) {
	return nil, nil, errPending
}

// SkipKey takes one key form off src.
func (t *Type) SkipKey(src []byte, desc bool) (rest []byte, err error) { return nil, errPending }

// AfterPrefix returns the smallest string greater than every string with the prefix, nil if there is none. It may change prefix in place.
func AfterPrefix(prefix []byte) []byte { return nil }

// Constant is the kind of a literal in CQL text.
type Constant uint8

// The kinds of constants.
const (
	StringConst Constant = iota + 1
	IntegerConst
	FloatConst // includes NaN, Infinity and their negatives
	BooleanConst
	UUIDConst
	HexConst
	DurationConst
)

// String is the name as error texts have it: STRING, INTEGER, ...
func (c Constant) String() string { return "" }

// Preferred is the type a constant has where nothing asks for another.
func (c Constant) Preferred(text string) *Type { return nil }

// Fit says how well a constant goes with a type.
type Fit uint8

// The fits, worst first.
const (
	NoFit Fit = iota
	WeakFit
	ExactFit
)

// Fits says whether the constant can be a value of the type.
func (t *Type) Fits(c Constant, text string) Fit { return NoFit }

// ConstantError says that a constant does not go with a type; the planner adds the receiver's name.
type ConstantError struct {
	Constant Constant
	Text     string
	Type     *Type
}

func (e *ConstantError) Error() string { return "" }

// FromConstant gives the wire form: *ConstantError if the kinds do not go together, *dberr.Invalid if the text does not parse.
func (t *Type) FromConstant(c Constant, text string) ([]byte, error) { return nil, errPending }

// FromText reads a value from the text inside a string literal or JSON string (any native type).
func (t *Type) FromText(text string) ([]byte, error) { return nil, errPending }

// Format is the CQL literal of a value.
func (t *Type) Format(wire []byte) string { return "" }

// Text is a native value as CAST(.. AS text) shows it: without quotes.
func (t *Type) Text(wire []byte) string { return "" }

// AppendJSON appends Cassandra's JSON form.
func (t *Type) AppendJSON(dst, wire []byte) []byte { return nil }

// AppendJSONString appends a quoted JSON string.
func AppendJSONString(dst []byte, s string) []byte { return nil }

// JSONObject is a parsed JSON object, members in order, the last of equal names only.
type JSONObject struct {
	Names  []string
	Values []any
}

// JSONError is a text that is not JSON. Message is what Cassandra's parser says, Class the Java class of its exception.
type JSONError struct{ Class, Message string }

func (e *JSONError) Error() string { return e.Message }

// JSONValueError is JSON that is not a value of the type: Cassandra's MarshalException, to be prefixed by the caller.
type JSONValueError struct{ Message string }

func (e *JSONValueError) Error() string { return e.Message }

// ParseJSON gives nil, bool, string, json.Number, []any or *JSONObject; errors are *JSONError.
func ParseJSON(text string) (any, error) { return nil, errPending }

// FromJSON encodes what ParseJSON (or encoding/json with UseNumber) returned: *JSONValueError or *dberr.Invalid.
func (t *Type) FromJSON(v any) ([]byte, error) { return nil, errPending }

// Count is the number of elements of a collection (pairs of a map).
func (t *Type) Count(wire []byte) int { return 0 }

// Elements yields the elements of a list or set, the components of a tuple or UDT (nil = null; missing ones too).
func (t *Type) Elements(wire []byte) iter.Seq2[int, []byte] { return nil }

// Entries yields the pairs of a map.
func (t *Type) Entries(wire []byte) iter.Seq2[[]byte, []byte] { return nil }

// Element is the i-th element of a list or set, component of a tuple or field of a UDT; nil if null or missing.
func (t *Type) Element(wire []byte, i int) []byte { return nil }

// Lookup finds the value of a key of a map, or the element itself in a set; ok is false if there is none.
func (t *Type) Lookup(wire, key []byte) (value []byte, ok bool) { return nil, false }

// AppendCollection appends a list, or a set or map that is in order already (keys and values in turn).
func (t *Type) AppendCollection(dst []byte, elems ...[]byte) []byte { return nil }

// AppendTuple appends a tuple or UDT; nil is null.
func (t *Type) AppendTuple(dst []byte, components ...[]byte) []byte { return nil }

// SortedSet builds a set's wire form: in order of the elements, each once.
func (t *Type) SortedSet(elems [][]byte) []byte { return nil }

// SortedMap builds a map's wire form from keys and values in turn: in order of the keys, the last of equal ones wins.
func (t *Type) SortedMap(pairs [][]byte) []byte { return nil }

// Canonical returns the value with sets and maps in order, at any depth: what a bound value must become. It returns wire if nothing changes.
func (t *Type) Canonical(wire []byte) []byte { return wire }

// Int64 reads tinyint, smallint, int, bigint, counter, timestamp (ms), time (ns), date (days since epoch); ok is false for null or empty.
func (t *Type) Int64(wire []byte) (v int64, ok bool) { return 0, false }

// FromInt64 is the inverse of Int64; ok is false if v is out of range.
func (t *Type) FromInt64(v int64) (wire []byte, ok bool) { return nil, false }

// Float64 reads float and double.
func (t *Type) Float64(wire []byte) (v float64, ok bool) { return 0, false }

// DecodeVarint reads a varint; nil for null or empty.
func DecodeVarint(wire []byte) *big.Int { return nil }

// EncodeVarint writes a varint in the fewest bytes.
func EncodeVarint(v *big.Int) []byte { return nil }

// DecimalValue is Unscaled * 10^-Scale.
type DecimalValue struct {
	Unscaled *big.Int
	Scale    int32
}

// DecodeDecimal reads a decimal; ok is false for null, empty or invalid.
func DecodeDecimal(wire []byte) (d DecimalValue, ok bool) { return DecimalValue{}, false }

// EncodeDecimal writes a decimal.
func EncodeDecimal(d DecimalValue) []byte { return nil }

// ParseDecimal reads a decimal's text, such as 1.10 or 1E+30.
func ParseDecimal(s string) (DecimalValue, bool) { return DecimalValue{}, false }

// String is the text as java.math.BigDecimal writes it.
func (d DecimalValue) String() string { return "" }

// DurationValue is a duration; the three have the same sign.
type DurationValue struct {
	Months, Days int32
	Nanos        int64
}

// DecodeDuration reads a duration; ok is false for null or invalid.
func DecodeDuration(wire []byte) (d DurationValue, ok bool) { return DurationValue{}, false }

// EncodeDuration writes a duration.
func EncodeDuration(d DurationValue) []byte { return nil }

// ParseDuration reads any of the forms that CQL knows; errors are *dberr.Invalid.
func ParseDuration(s string) (DurationValue, error) { return DurationValue{}, errPending }

// String is the text as Cassandra shows it, such as 1mo2d3h.
func (d DurationValue) String() string { return "" }

// ParseTimestamp reads a timestamp string, in milliseconds since the epoch.
func ParseTimestamp(s string) (int64, error) { return 0, errPending }

// ParseUUID reads the canonical text of a UUID.
func ParseUUID(s string) ([16]byte, bool) { return [16]byte{}, false }

// FormatUUID writes the canonical text.
func FormatUUID(u [16]byte) string { return "" }

// TimeUUIDs makes unique, increasing version 1 UUIDs. Safe for concurrent use.
type TimeUUIDs struct{}

// NewTimeUUIDs makes a source for a node id and clock sequence.
func NewTimeUUIDs(node [6]byte, clockSequence uint16) *TimeUUIDs { return nil }

// Next is a UUID of the time, or later by as much as it takes to be greater than the last one.
func (g *TimeUUIDs) Next(unixNanos int64) [16]byte { return [16]byte{} }

// MinTimeUUID is the smallest timeuuid of a millisecond, MaxTimeUUID the greatest.
func MinTimeUUID(unixMillis int64) [16]byte { return [16]byte{} }

// MaxTimeUUID is the greatest timeuuid of a millisecond.
func MaxTimeUUID(unixMillis int64) [16]byte { return [16]byte{} }

// TimeUUIDMillis is the time of a version 1 UUID, in milliseconds since the epoch.
func TimeUUIDMillis(u [16]byte) int64 { return 0 }
