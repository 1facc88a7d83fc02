// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestDoubleFunctionsAreNearest compares exp, log, and log10 of doubles with 256-bit results that are rounded once.
func TestDoubleFunctionsAreNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	xs := []float64{1, 0.1, 1e-310, 5e-324, 1.5, 10, 1000, 1 + 0x1p-52, 1 - 0x1p-53, math.MaxFloat64, 0x1p-1022}
	for range 400 {
		xs = append(xs, r.Float64(), 1+(r.Float64()-0.5)/50, math.Pow(10, float64(r.IntN(600)-300))*(1+r.Float64()))
	}
	for _, x := range xs {
		ln := naturalLog(newBig(0).SetFloat64(x))
		if want, _ := ln.Float64(); doubleLog(x) != want {
			t.Errorf("log(%v) is %v, not %v", x, doubleLog(x), want)
		}
		if want, _ := newBig(0).Quo(ln, ln10).Float64(); doubleLog10(x) != want {
			t.Errorf("log10(%v) is %v, not %v", x, doubleLog10(x), want)
		}
		for _, x := range []float64{x, -x, math.Mod(x, 1) * 709, math.Mod(x, 1) * -745.2} {
			if math.Abs(x) > 745.2 || x > 709 || x == 0 {
				continue
			}
			whole, scale := new(big.Int), int32(0)
			exact, _ := new(big.Float).SetFloat64(x).SetPrec(2000).Rat(nil)
			for bits := exact.Denom().BitLen() - 1; scale < int32(bits); { // the denominator is a power of two
				scale = int32(bits)
				whole.Mul(exact.Num(), new(big.Int).Exp(big.NewInt(5), big.NewInt(int64(bits)), nil))
			}
			if scale == 0 {
				whole = exact.Num()
			}
			d, err := decimalExp(cqltype.DecimalValue{Unscaled: whole, Scale: scale})
			if err != nil {
				t.Fatal(err)
			}
			if want := float64OfDecimal(d); doubleExp(x) != want {
				t.Errorf("exp(%v) is %v, not %v", x, doubleExp(x), want)
			}
		}
	}
	for _, tc := range []struct{ got, want float64 }{
		{doubleExp(math.Inf(-1)), 0}, {doubleExp(math.Inf(1)), math.Inf(1)},
		{doubleLog(0), math.Inf(-1)}, {doubleLog10(math.Inf(1)), math.Inf(1)}, {doubleExp(0), 1},
	} {
		if tc.got != tc.want {
			t.Errorf("%v instead of %v", tc.got, tc.want)
		}
	}
}
