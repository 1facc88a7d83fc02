// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"math/big"
	"strings"
	"testing"
)

// TestLongNumbers checks that numbers that take too long to format are rejected. The numbers are given as bytes and as
// text. The longest number that is accepted as text must also be accepted as bytes.
func TestLongNumbers(t *testing.T) {
	varint, decimal := Native(Varint), Native(Decimal)
	for _, c := range []struct {
		digits int
		ok     bool
	}{{digitsMax, true}, {digitsMax + 1, false}, {5_000_000, false}} {
		text := strings.Repeat("9", c.digits)
		for _, typ := range []*Type{varint, decimal} {
			wire, err := numberFromText(typ, text)
			if (err == nil) != c.ok {
				t.Errorf("%s of %d digits: %v", typ, c.digits, err)
			}
			if err == nil && typ.Validate(wire) != nil {
				t.Errorf("%s of %d digits is read from text, but not valid", typ, c.digits)
			}
		}
	}
	for _, n := range []int{NumberBytesMax, NumberBytesMax + 1, 4 << 20} {
		wire := EncodeVarint(new(big.Int).Lsh(big.NewInt(1), uint(8*n-2)))
		if ok := n <= NumberBytesMax; (varint.Validate(wire) == nil) != ok ||
			(decimal.Validate(append(make([]byte, 4), wire...)) == nil) != ok {
			t.Errorf("%d bytes: %v", n, varint.Validate(wire))
		}
	}
}
