// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// value is a run-time value. n holds a primitive. For float and double, n holds the bit pattern. r holds a reference. A
// nil r represents null.
type value struct {
	n int64
	r any
}

// These types represent referenced objects. Strings are represented by Go strings. Boxes, dates, UUIDs, and addresses
// are comparable values.
type (
	box struct {
		kind kind
		n    int64
	}
	date      int64 // milliseconds since the epoch
	localDate int64 // days since the epoch
	uuidValue [16]byte
	inet      string // 4 or 16 bytes
	list      struct {
		elems []any
		fixed bool
	}
	// dict is a map in insertion order. If all values are nil, dict is a set.
	dict struct {
		keys, values []any
		index        map[any]int
		fixed, isSet bool
	}
	entry struct {
		of         *dict
		key, value any
	}
	record struct {
		typ    *cqltype.Type
		fields []any
	}
	buffer struct {
		bytes []byte
		pos   int
	}
	array struct {
		elem *jtype
		of   []value
	}
	builder  struct{ b []byte }
	iterator struct {
		next func() (any, bool)
		head any
		more bool
	}
	// context is the object udfContext, which creates values of the function's types.
	context struct{ program *Program }
)

func ofInt(n int64) value      { return value{n: n} }
func ofRef(r any) value        { return value{r: r} }
func ofFloat(f float64) value  { return value{n: int64(math.Float64bits(f))} }
func (v value) float() float64 { return math.Float64frombits(uint64(v.n)) }

func ofBool(b bool) value {
	if b {
		return value{n: 1}
	}
	return value{}
}

func (v value) str() string { return v.r.(string) }

// boxing converts a primitive to a box.
func (v value) boxing(k kind) value { return value{r: box{k, v.n}} }

// convert converts a primitive to a different kind according to Java's rules.
func convert(v value, from, to kind) value {
	if from == to || to == kBoolean {
		return v
	}
	if from == kFloat || from == kDouble {
		f := v.float()
		switch to {
		case kDouble:
			return v
		case kFloat:
			return ofFloat(float64(float32(f)))
		case kLong:
			return ofInt(saturate(f, math.MinInt64, math.MaxInt64))
		}
		return narrow(saturate(f, math.MinInt32, math.MaxInt32), to)
	}
	switch to {
	case kFloat:
		return ofFloat(float64(float32(v.n)))
	case kDouble:
		return ofFloat(float64(v.n))
	}
	return narrow(v.n, to)
}

// narrow truncates an integer to the low bits of a smaller type.
func narrow(n int64, to kind) value {
	switch to {
	case kByte:
		return ofInt(int64(int8(n)))
	case kShort:
		return ofInt(int64(int16(n)))
	case kChar:
		return ofInt(int64(uint16(n)))
	case kInt:
		return ofInt(int64(int32(n)))
	}
	return ofInt(n)
}

func saturate(f float64, least, most int64) int64 {
	switch {
	case f != f:
		return 0
	case f >= float64(most):
		return most
	case f <= float64(least):
		return least
	}
	return int64(f)
}

// units returns the length of a string in UTF-16 units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// units returns the length of a string in UTF-16 units. It consumes the steps for computing the length.
func (f *frame) units(s string) int64 {
	f.step(len(s) / 64)
	return int64(units(s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// slice returns the part of a string between two positions in UTF-16 units. Both positions must be valid.
func slice(s string, begin, end int) string {
	if isASCII(s) {
		return s[begin:end]
	}
	return string(utf16.Decode(utf16.Encode([]rune(s))[begin:end]))
}

// text returns a primitive in Java's format.
func text(v value, k kind) string {
	switch k {
	case kBoolean:
		if v.n != 0 {
			return "true"
		}
		return "false"
	case kChar:
		return string(utf16.Decode([]uint16{uint16(v.n)}))
	case kFloat:
		return javaFloat(cqltype.Native(cqltype.Float), v.float())
	case kDouble:
		return javaFloat(cqltype.Native(cqltype.Double), v.float())
	}
	return big.NewInt(v.n).String()
}

func javaFloat(t *cqltype.Type, f float64) string {
	switch {
	case f != f:
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return t.Text(t.Kind.FromFloat64(f))
}

// enter limits the recursion depth of functions that traverse a value. It also consumes a step.
func (f *frame) enter() func() {
	f.step(1)
	if f.deep++; f.deep > depthMax {
		panic(exhausted{what: "values nested more than 100 levels deep"})
	}
	return func() { f.deep-- }
}

// string returns the result of toString for a reference. For null, it returns "null".
func (f *frame) string(r any) string {
	if s, ok := r.(string); ok {
		return s
	}
	defer f.enter()()
	var s string
	switch r := r.(type) {
	case nil:
		return "null"
	case box:
		return text(value{n: r.n}, r.kind)
	case *list:
		s = f.join(r.elems, "[", "]")
	case *dict:
		if r.isSet {
			s = f.join(r.keys, "[", "]")
			break
		}
		parts := make([]any, len(r.keys))
		for i, k := range r.keys {
			key, v := f.string(k), f.string(r.values[i])
			f.alloc(len(key) + len(v) + 32)
			parts[i] = key + "=" + v
		}
		s = f.join(parts, "{", "}")
	case *entry:
		key, v := f.string(r.key), f.string(r.value)
		f.alloc(len(key) + len(v))
		s = key + "=" + v
	case date:
		return time.UnixMilli(int64(r)).UTC().Format("Mon Jan 02 15:04:05 UTC 2006")
	case localDate:
		return cqltype.Native(cqltype.Date).Text(dayBytes(int64(r)))
	case uuidValue:
		return cqltype.Native(cqltype.UUID).Text(r[:])
	case inet:
		return "/" + cqltype.Native(cqltype.Inet).Text([]byte(r))
	case *big.Int:
		f.digits(r)
		return r.String()
	case cqltype.DecimalValue:
		f.digits(r.Unscaled)
		return r.String()
	case cqltype.DurationValue:
		return r.String()
	case *record:
		s = r.typ.Format(f.program.toWire(f, r.typ, r))
	case *builder:
		f.step(len(r.b) >> 6)
		s = string(r.b)
	case *Thrown:
		return r.Error()
	case *buffer:
		s = "java.nio.HeapByteBuffer[pos=0 lim=" + itoa(len(r.bytes)) + " cap=" + itoa(len(r.bytes)) + "]"
	default:
		return "java.lang.Object@0"
	}
	f.alloc(len(s))
	return s
}

func (f *frame) join(elems []any, open, end string) string {
	f.alloc(16 * len(elems))
	parts := make([]string, len(elems))
	for i, e := range elems {
		parts[i] = f.string(e)
		f.alloc(len(parts[i]) + 2)
	}
	return open + strings.Join(parts, ", ") + end
}

func itoa(n int) string { return big.NewInt(int64(n)).String() }

// equalityKey returns a comparable key. Two references have the same key if and only if they are equal.
func (f *frame) equalityKey(r any) any {
	switch r := r.(type) {
	case nil, string, box, date, localDate, uuidValue, inet:
		return r
	case *big.Int:
		f.digits(r)
		return [2]string{"BigInteger", r.String()}
	case cqltype.DecimalValue:
		f.digits(r.Unscaled)
		return [2]string{"BigDecimal", r.Unscaled.String() + "/" + itoa(int(r.Scale))}
	case cqltype.DurationValue:
		return [2]string{"Duration", r.String()}
	case *list:
		return [2]string{"List", f.keys(r.elems)}
	case *dict: // equality does not depend on the order of the elements
		parts := make([]any, len(r.keys))
		for i, k := range r.keys {
			parts[i] = f.string(k)
			if !r.isSet {
				parts[i] = f.keys([]any{k, r.values[i]})
			}
		}
		slices.SortFunc(parts, func(a, b any) int {
			f.step(1 + min(len(a.(string)), len(b.(string)))/64)
			return strings.Compare(a.(string), b.(string))
		})
		return [2]string{"Map", f.keys(parts)}
	case *record:
		return [2]string{"record", f.string(r)}
	case *buffer:
		f.alloc(len(r.bytes))
		return [2]string{"ByteBuffer", string(r.bytes)}
	case *entry:
		return [2]string{"Entry", f.string(r)}
	}
	return r // other objects are compared by identity
}

func (f *frame) keys(elems []any) string {
	var b strings.Builder
	for _, e := range elems {
		s := f.string(e)
		f.alloc(2*len(s) + 16)
		b.WriteString(itoa(len(s)) + ":" + s)
	}
	return b.String()
}

// equal reports whether two references are equal according to Java's method equals.
func (f *frame) equal(a, b any) bool {
	f.step(1)
	if s, ok := a.(string); ok {
		f.step(len(s) / 64)
	}
	return f.equalityKey(a) == f.equalityKey(b)
}
