// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

var integerTypes = []*cqltype.Type{tTinyint, tSmallint, tInt, tBigint, tVarint}

func drawNumber(t *rapid.T, typ *cqltype.Type) (*big.Int, []byte) {
	bits := 8 * width(typ)
	if typ == tVarint {
		bits = 200
	}
	n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 1, (bits+7)/8).Draw(t, "n"))
	n.Sub(n, new(big.Int).Lsh(bigOne, uint(bits-1)))
	if typ == tVarint {
		return n, cqltype.EncodeVarint(n)
	}
	return n, wrap(typ, n.Int64())
}

// TestIntegerOperations checks that an operation on integer types returns the low bits of the exact result in the wider
// type.
func TestIntegerOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(integerTypes).Draw(t, "left")
		r := rapid.SampledFrom(integerTypes).Draw(t, "right")
		op := rapid.SampledFrom([]byte("+-*/%")).Draw(t, "op")
		a, x := drawNumber(t, l)
		b, y := drawNumber(t, r)
		result := promote(l, r)
		got, err := operate(op, l, r, result, x, y)
		if b.Sign() == 0 && (op == '/' || op == '%') {
			if err == nil {
				t.Fatal("division by zero went through")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := new(big.Int)
		switch op {
		case '+':
			want.Add(a, b)
		case '-':
			want.Sub(a, b)
		case '*':
			want.Mul(a, b)
		case '/':
			want.Quo(a, b)
		case '%':
			want.Rem(a, b)
		}
		expected := cqltype.EncodeVarint(want)
		if result != tVarint {
			expected = wrap(result, lowBits(want))
		}
		if !bytes.Equal(got, expected) {
			t.Fatalf("%v %c %v = %x, want %x", a, op, b, got, expected)
		}
	})
}

// TestDecimalInvariants checks that the product of quotient and divisor equals the dividend except in the last place.
// Sums and remainders must be exact.
func TestDecimalInvariants(t *testing.T) {
	draw := func(t *rapid.T, label string) cqltype.DecimalValue {
		return cqltype.DecimalValue{Unscaled: big.NewInt(rapid.Int64().Draw(t, label)),
			Scale: rapid.Int32Range(-20, 40).Draw(t, label+" scale")}
	}
	rat := func(d cqltype.DecimalValue) *big.Rat {
		r := new(big.Rat).SetInt(d.Unscaled)
		p := new(big.Rat).SetInt(pow10(int(max(d.Scale, -d.Scale))))
		if d.Scale > 0 {
			return r.Quo(r, p)
		}
		return r.Mul(r, p)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := draw(t, "x"), draw(t, "y")
		sum, err := decimalResult('+', x, y)
		if err != nil || rat(sum).Cmp(new(big.Rat).Add(rat(x), rat(y))) != 0 {
			t.Fatalf("%v + %v = %v, %v", x, y, sum, err)
		}
		if y.Unscaled.Sign() == 0 {
			return
		}
		q, err := decimalResult('/', x, y)
		if err != nil {
			t.Fatal(err)
		}
		diff := new(big.Rat).Sub(rat(q), new(big.Rat).Quo(rat(x), rat(y)))
		if diff.Abs(diff).Cmp(rat(cqltype.DecimalValue{Unscaled: bigOne, Scale: max(q.Scale, decimalDigits)})) > 0 {
			t.Fatalf("%v / %v = %v is off by %v", x, y, q, diff)
		}
		rem, err := decimalResult('%', x, y)
		if err != nil || rem.Unscaled.CmpAbs(new(big.Int)) != 0 && rem.Unscaled.Sign() != x.Unscaled.Sign() {
			t.Fatalf("%v %% %v = %v, %v", x, y, rem, err)
		}
	})
}

// TestSumsAreIndependentOfOrder checks that integer, varint, and decimal sums do not depend on the order of the rows.
func TestSumsAreIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(integerTypes).Draw(t, "type")
		var values [][]byte
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			_, v := drawNumber(t, typ)
			values = append(values, v)
		}
		total := func(values [][]byte) string {
			s := newTotal(typ, false)(nil)
			for _, v := range values {
				if err := s.add(v); err != nil {
					t.Fatal(err)
				}
			}
			r, err := s.result()
			if err != nil {
				t.Fatal(err)
			}
			return string(r)
		}
		shuffled := rapid.Permutation(values).Draw(t, "order")
		if a, b := total(values), total(shuffled); a != b {
			t.Fatalf("%x and %x", a, b)
		}
	})
}

// TestDeepArithmeticBindsQuickly checks that binding nested operations does not try all combinations of overloads.
func TestDeepArithmeticBindsQuickly(t *testing.T) {
	term, n := mustTerm(t, "1"+strings.Repeat(" + 1", 100))
	bound, err := Bind(term, Receiver{Name: "v", Type: tDecimal}, testEnv(n))
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := bound.Eval(testBindings())
	if err != nil || tDecimal.Format(v) != "101.0" { // all sums except the first add an int to a decimal
		t.Fatalf("%s, %v", tDecimal.Format(v), err)
	}
}

// TestHugeNumbersAreRefused checks that a short statement cannot create a number with gigabytes of digits.
func TestHugeNumbersAreRefused(t *testing.T) {
	for _, text := range []string{"blobAsDecimal(0xc465360001) + 1", "blobAsDecimal(0xc465360001) / 3",
		"blobAsDecimal(0x8000000001) * blobAsDecimal(0x8000000001)"} {
		term, n := mustTerm(t, text)
		bound, err := Bind(term, Receiver{Name: "v", Type: tDecimal}, testEnv(n))
		if err == nil {
			_, _, err = bound.Eval(testBindings())
		}
		if _, ok := errors.AsType[*dberr.FunctionFailure](err); !ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzTerms checks that no term causes a panic during binding or evaluation. Results must be valid values of their
// types.
func FuzzTerms(f *testing.F) {
	for _, text := range []string{
		"1 + 2.5", "{'a': 1}", "[1, 2]", "blobAsInt(0x01)", "'2011-01-01' + 3mo", "fromJson('[1]')", "(int)-5 / 0",
		"token(1)", "{street: 'x'}",
		"minTimeuuid(9223372036854775807)", "1e9999 % 3", "-(5)", "now()", "-Infinity * 2",
		"blobAsDecimal(0x7fffffff01) + 1",
	} {
		f.Add(text)
	}
	types := append(integerTypes, tDecimal, tDouble, tFloat, tText, tAscii, tBlob, tTimestamp, tDate, tTime, tDuration,
		tTimeuuid, tUUID, tCounter,
		cqltype.ListOf(tInt), cqltype.SetOf(tDecimal), cqltype.MapOf(tText, tVarint), cqltype.TupleOf(tInt, tText),
		testKeyspace.Types["addr"])
	f.Fuzz(func(t *testing.T, text string) {
		term, markers, err := parser.ParseTerm(text)
		if err != nil || len(markers) > 0 {
			return
		}
		for _, typ := range types {
			bound, err := Bind(term, Receiver{Name: "v", Type: typ}, testEnv(0))
			if err != nil {
				continue
			}
			v, _, err := bound.Eval(testBindings())
			if err != nil {
				continue
			}
			if err := typ.Validate(v); err != nil {
				t.Errorf("%s as %s is %x: %v", text, typ, v, err)
			}
		}
		env := testEnv(0)
		if bound, err := BindSelector(term, &testScope{}, env); err == nil {
			_ = fmt.Sprint(bound.Type(), SelectorName(term, &testScope{}, env))
		}
	})
}
