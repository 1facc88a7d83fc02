// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

var errShort error = &dberr.Protocol{Message: "Invalid message: the body ends too early"}

// cursor decodes primitives from the start of b. After the first failure, b is empty, err is set, and all methods
// return zero values. Therefore, a decoder needs to check for errors only once.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

func (c *cursor) u8() byte {
	if len(c.b) < 1 {
		c.fail(errShort)
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

func (c *cursor) u16() uint16 {
	if len(c.b) < 2 {
		c.fail(errShort)
		return 0
	}
	v := binary.BigEndian.Uint16(c.b)
	c.b = c.b[2:]
	return v
}

func (c *cursor) i32() int32 {
	if len(c.b) < 4 {
		c.fail(errShort)
		return 0
	}
	v := int32(binary.BigEndian.Uint32(c.b))
	c.b = c.b[4:]
	return v
}

func (c *cursor) i64() int64 {
	if len(c.b) < 8 {
		c.fail(errShort)
		return 0
	}
	v := int64(binary.BigEndian.Uint64(c.b))
	c.b = c.b[8:]
	return v
}

// take returns the next n bytes. The capacity of the result is limited, so an append cannot overwrite the bytes that
// follow.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail(errShort)
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) uuid() (id [16]byte) {
	copy(id[:], c.take(16))
	return id
}

// str decodes a [string] or [short bytes].
func (c *cursor) str() []byte { return c.take(int(c.u16())) }

// longStr decodes a [long string].
func (c *cursor) longStr() []byte { return c.take(int(c.i32())) }

// bytes decodes [bytes]. Unset values exist in version 4 and later.
func (c *cursor) bytes() []byte {
	n := c.i32()
	if n < 0 {
		return nil
	}
	return c.take(int(n))
}

// count decodes the number of items, which is a [short]. Each item has at least size bytes. count fails if the input
// is too short for the items.
func (c *cursor) count(size int) int {
	n := int(c.u16())
	if n*size > len(c.b) {
		c.fail(errShort)
		return 0
	}
	return n
}

func (c *cursor) stringList() []string {
	n := c.count(2)
	if n == 0 {
		return nil
	}
	l := make([]string, 0, n)
	for range n {
		l = append(l, string(c.str()))
	}
	return l
}

// boundValue decodes a [value]. Unset values exist from version 4 on.
func (c *cursor) boundValue(version uint8) (v []byte, unset bool) {
	switch n := c.i32(); {
	case n >= 0:
		return c.take(int(n)), false
	case n == -1:
		return nil, false
	case n == -2 && version >= V4:
		return nil, true
	default:
		c.fail(dberr.Protocolf("Invalid ByteBuf length %d", n))
		return nil, false
	}
}

// boundValues decodes n values and appends them to values. If names is not nil, it also decodes names. If any value is
// unset, it appends n flags to unset. Otherwise, it appends no flags.
func (c *cursor) boundValues(version uint8, n int, values [][]byte, names *[][]byte, unset []bool) ([][]byte, []bool) {
	base := len(unset)
	for i := range n {
		if names != nil {
			*names = append(*names, c.str())
		}
		v, u := c.boundValue(version)
		values = append(values, v)
		if !u {
			continue
		}
		for len(unset) < base+n {
			unset = append(unset, false)
		}
		unset[base+i] = true
	}
	return values, unset
}
