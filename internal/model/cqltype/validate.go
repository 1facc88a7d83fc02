// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Validate returns a *dberr.Invalid with Cassandra's text if wire is not a value of the type. Null (nil) is valid for
// every type, but nulls inside collections are not.
func (t *Type) Validate(wire []byte) error {
	if wire == nil {
		return nil
	}
	switch t.Kind {
	case List, Set:
		return validateSequence(t, wire)
	case Map:
		return validateMap(t, wire)
	case Tuple, UDT:
		return validateTuple(t, wire)
	case Vector:
		return validateVector(t, wire)
	}
	return t.Kind.validate(wire)
}

// validate implements Type.Validate for values without components.
func (k Kind) validate(wire []byte) error {
	n := len(wire)
	switch k {
	case Ascii:
		for _, b := range wire {
			if b >= 0x80 {
				return dberr.Invalidf("Invalid byte for ascii: %d", int8(b))
			}
		}
	case Text:
		if !utf8.Valid(wire) && !validJavaUTF8(wire) {
			return dberr.Invalidf("String didn't validate.")
		}
	case Boolean:
		return checkWidth(n, n <= 1, "Expected 1 or 0 byte value (%d)")
	case Tinyint:
		return checkWidth(n, n == 1, "Expected 1 byte for a tinyint (%d)")
	case Smallint:
		return checkWidth(n, n == 2, "Expected 2 bytes for a smallint (%d)")
	case Int:
		return checkWidth(n, n == 4 || n == 0, "Expected 4 or 0 byte int (%d)")
	case Bigint, Counter:
		return checkWidth(n, n == 8 || n == 0, "Expected 8 or 0 byte long (%d)")
	case Timestamp:
		return checkWidth(n, n == 8 || n == 0, "Expected 8 or 0 byte long for date (%d)")
	case Date:
		return checkWidth(n, n == 4, "Expected 4 byte long for date (%d)")
	case Time:
		return checkWidth(n, n == 8, "Expected 8 byte long for time (%d)")
	case Float:
		return checkWidth(n, n == 4 || n == 0, "Expected 4 or 0 byte value for a float (%d)")
	case Double:
		return checkWidth(n, n == 8 || n == 0, "Expected 8 or 0 byte value for a double (%d)")
	case Varint:
		return checkWidth(n, n <= NumberBytesMax, "A varint of %d bytes is too long")
	case Decimal:
		if n > 4+NumberBytesMax {
			return dberr.Invalidf("A decimal of %d bytes is too long", n)
		}
		return checkWidth(n, n == 0 || n >= 4, "Expected 0 or at least 4 bytes (%d)")
	case UUID:
		return checkWidth(n, n == 16 || n == 0, "UUID should be 16 or 0 bytes (%d)")
	case Timeuuid:
		if n == 16 && wire[6]>>4 != 1 {
			return dberr.Invalidf("Invalid version for TimeUUID type.")
		}
		return checkWidth(n, n == 16 || n == 0, "UUID should be 16 or 0 bytes (%d)")
	case Inet:
		if n != 0 && n != 4 && n != 16 {
			return dberr.Invalidf("Expected 4 or 16 byte inetaddress; got %s", hex.EncodeToString(wire))
		}
	case Duration:
		return validateDuration(wire)
	case Empty:
		if n > 0 {
			return dberr.Invalidf("EmptyType only accept empty values")
		}
	}
	return nil
}

func checkWidth(n int, ok bool, format string) error {
	if ok {
		return nil
	}
	return dberr.Invalidf(format, n)
}

func validateDuration(wire []byte) error {
	if len(wire) < 3 {
		return dberr.Invalidf("Expected at least 3 bytes for a duration (%d)", len(wire))
	}
	months, days, nanos, ok := readDuration(wire)
	switch {
	case !ok:
		return dberr.Invalidf("Not enough bytes to read a duration")
	case months < math.MinInt32 || months > math.MaxInt32:
		return dberr.Invalidf("The duration months must be a 32 bits integer but was: %d", months)
	case days < math.MinInt32 || days > math.MaxInt32:
		return dberr.Invalidf("The duration days must be a 32 bits integer but was: %d", days)
	case (months < 0 || days < 0 || nanos < 0) && (months > 0 || days > 0 || nanos > 0):
		return dberr.Invalidf("The duration months, days and nanoseconds must be all of the same sign (%d, %d, %d)",
			months, days, nanos)
	}
	return nil
}

func validateSequence(t *Type, wire []byte) error {
	kind := "list"
	if t.Kind == Set {
		kind = "set"
	}
	c := sequence(wire)
	for {
		elem, more := c.next()
		if !more {
			break
		}
		if elem == nil {
			return dberr.Invalidf("Null value read when not allowed")
		}
		if err := t.Elems[0].Validate(elem); err != nil {
			return err
		}
	}
	return c.finish(kind)
}

func validateMap(t *Type, wire []byte) error {
	c := pairs(wire)
	for i := 0; ; i++ {
		elem, more := c.next()
		if !more {
			break
		}
		if elem == nil {
			return dberr.Invalidf("Null value read when not allowed")
		}
		if err := t.Elems[i%2].Validate(elem); err != nil {
			return err
		}
	}
	return c.finish("map")
}

func validateTuple(t *Type, wire []byte) error {
	for i, e := range t.Elems {
		if len(wire) == 0 {
			return nil // a value may have fewer fields than its type, because fields can be added later
		}
		name := "component"
		if t.Kind == UDT {
			name = "field " + t.Fields[i]
		}
		if len(wire) < 4 {
			return dberr.Invalidf("Not enough bytes to read size of %dth %s", i, name)
		}
		n := int32(binary.BigEndian.Uint32(wire))
		wire = wire[4:]
		if n < 0 {
			continue
		}
		if int64(n) > int64(len(wire)) {
			return dberr.Invalidf("Not enough bytes to read %dth %s", i, name)
		}
		if err := e.Validate(wire[:n:n]); err != nil {
			return err
		}
		wire = wire[n:]
	}
	if len(wire) > 0 {
		kind := "tuple"
		if t.Kind == UDT {
			kind = "UDT"
		}
		return dberr.Invalidf("Invalid remaining data after end of %s value", kind)
	}
	return nil
}

// validJavaUTF8 accepts valid UTF-8 and the additional bytes that Cassandra's validator accepts. These are C0 80 for
// NUL, and encoded surrogates.
func validJavaUTF8(b []byte) bool {
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			b = b[n:]
			continue
		}
		switch {
		case len(b) >= 2 && b[0] == 0xc0 && b[1] == 0x80:
			b = b[2:]
		case len(b) >= 3 && b[0] == 0xed && b[1] >= 0xa0 && b[1] <= 0xbf && b[2] >= 0x80 && b[2] <= 0xbf:
			b = b[3:]
		default:
			return false
		}
	}
	return true
}
