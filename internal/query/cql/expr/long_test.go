// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math/big"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestLongResults checks that no arithmetic operation creates a number that exceeds the maximum size of a value.
func TestLongResults(t *testing.T) {
	large := new(big.Int).Lsh(bigOne, 8*cqltype.NumberBytesMax-2)
	if _, err := bigOp('+', large, bigOne); err != nil {
		t.Error(err)
	}
	sum := &bigTotal{typ: tVarint}
	var err error
	for range 4 {
		err = sum.add(cqltype.EncodeVarint(large))
	}
	if err == nil {
		t.Error("a sum grew without bound")
	}
	for _, op := range []byte("+-*") {
		if _, err := bigOp(op, large, new(big.Int).Mul(large, large)); err == nil {
			t.Errorf("%c made a varint that is too long", op)
		}
		if _, err := decimalResult(op, cqltype.DecimalValue{Unscaled: large, Scale: -10_000},
			cqltype.DecimalValue{Unscaled: large, Scale: 10_000}); err == nil {
			t.Errorf("%c made a decimal that is too long", op)
		}
	}
	// an exponent of one billion and one
	if _, err := decimalResult('+', cqltype.DecimalValue{Unscaled: bigOne, Scale: -1_000_000_000},
		cqltype.DecimalValue{Unscaled: bigOne}); err == nil {
		t.Error("a billion digits were written out")
	}
}
