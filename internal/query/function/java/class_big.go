// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math/big"
	"unicode"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

func defCharacters() {
	for name, is := range map[string]func(r rune) bool{"isDigit": unicode.IsDigit, "isLetter": unicode.IsLetter,
		"isUpperCase": unicode.IsUpper, "isLowerCase": unicode.IsLower, "isWhitespace": unicode.IsSpace,
		"isLetterOrDigit": func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }} {
		def("Character", "static "+name+"(char)boolean", func(_ *frame, a []value) value {
			return ofBool(is(rune(a[0].n)))
		})
	}
	for name, to := range map[string]func(r rune) rune{"toUpperCase": unicode.ToUpper, "toLowerCase": unicode.ToLower} {
		def("Character", "static "+name+"(char)char", func(_ *frame, a []value) value {
			return ofInt(int64(uint16(to(rune(a[0].n)))))
		})
	}
	def("Character", "static getNumericValue(char)int", func(_ *frame, a []value) value {
		switch c := a[0].n; {
		case c >= '0' && c <= '9':
			return ofInt(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			return ofInt((c | 0x20) - 'a' + 10)
		}
		return ofInt(-1)
	})
}

// These constants limit BigInteger and BigDecimal. If a number exceeds a limit, the call ends.
const (
	digitsMax = 20_000
	bitsMax   = digitsMax * 10 / 3
)

func (f *frame) bigInt(n *big.Int) value {
	if n.BitLen() > bitsMax {
		panic(exhausted{what: "a number of more than 20000 digits"})
	}
	f.alloc(n.BitLen()/8 + 32)
	f.step(n.BitLen() / 64)
	return ofRef(n)
}

func (f *frame) decimal(unscaled *big.Int, scale int64) value {
	if scale > digitsMax || scale < -digitsMax {
		panic(exhausted{what: "a number of more than 20000 digits"})
	}
	f.bigInt(unscaled)
	return ofRef(cqltype.DecimalValue{Unscaled: unscaled, Scale: int32(scale)})
}

// rescale increases the scale of a decimal.
func (f *frame) rescale(d cqltype.DecimalValue, scale int64) *big.Int {
	by := scale - int64(d.Scale)
	if by > 2*digitsMax {
		panic(exhausted{what: "a number of more than 20000 digits"})
	}
	// A power of ten has about 3.4 bits per digit.
	bits := int(by) * 34 / 10
	f.alloc((d.Unscaled.BitLen() + 2*bits) / 8)
	f.numbers(d.Unscaled.BitLen(), 2*bits)
	return new(big.Int).Mul(d.Unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(by), nil))
}

func bigArg(f *frame, v value) *big.Int {
	n, ok := v.r.(*big.Int)
	if !ok {
		f.throwNull("Cannot read a field of a BigInteger", "the argument")
	}
	return n
}

func decimalArg(f *frame, v value) cqltype.DecimalValue {
	d, ok := v.r.(cqltype.DecimalValue)
	if !ok {
		f.throwNull("Cannot read a field of a BigDecimal", "the argument")
	}
	return d
}

func defBig() {
	def("BigInteger", "new(String)BigInteger", func(f *frame, a []value) value {
		s := notNull(f, a[0])
		n, ok := new(big.Int), false
		f.step(len(s))
		f.numbers(7 * min(len(s), digitsMax))
		if len(s) <= digitsMax {
			n, ok = n.SetString(s, 10)
		}
		if !ok {
			numberFormat(s)
		}
		return f.bigInt(n)
	})
	def("BigInteger", "static valueOf(long)BigInteger", func(f *frame, a []value) value {
		return f.bigInt(big.NewInt(a[0].n))
	})
	for name, do := range map[string]func(z, x, y *big.Int) *big.Int{"add": (*big.Int).Add, "subtract": (*big.Int).Sub,
		"multiply": (*big.Int).Mul, "divide": (*big.Int).Quo, "mod": (*big.Int).Mod, "remainder": (*big.Int).Rem,
		"and": (*big.Int).And, "or": (*big.Int).Or, "xor": (*big.Int).Xor} {
		def("BigInteger", name+"(BigInteger)BigInteger", func(f *frame, a []value) value {
			x, y := a[0].r.(*big.Int), bigArg(f, a[1])
			if y.Sign() == 0 && (name == "divide" || name == "mod" || name == "remainder") {
				throw("ArithmeticException", "BigInteger divide by zero")
			}
			f.numbers(x.BitLen(), y.BitLen())
			return f.bigInt(do(new(big.Int), x, y))
		})
	}
	def("BigInteger", "pow(int)BigInteger", func(f *frame, a []value) value {
		x := a[0].r.(*big.Int)
		if a[1].n < 0 {
			throw("ArithmeticException", "Negative exponent")
		}
		if int64(x.BitLen())*a[1].n > bitsMax && x.BitLen() > 1 {
			panic(exhausted{what: "a number of more than 20000 digits"})
		}
		if x.BitLen() <= 1 {
			return f.bigInt(new(big.Int).Exp(x, big.NewInt(a[1].n&1+2), nil))
		}
		f.numbers(2 * x.BitLen() * int(a[1].n))
		return f.bigInt(new(big.Int).Exp(x, big.NewInt(a[1].n), nil))
	})
	def("BigInteger", "negate()BigInteger", func(f *frame, a []value) value {
		return f.bigInt(new(big.Int).Neg(a[0].r.(*big.Int)))
	})
	def("BigInteger", "abs()BigInteger", func(f *frame, a []value) value {
		return f.bigInt(new(big.Int).Abs(a[0].r.(*big.Int)))
	})
	def("BigInteger", "signum()int", func(_ *frame, a []value) value { return ofInt(int64(a[0].r.(*big.Int).Sign())) })
	def("BigInteger", "compareTo(BigInteger)int", func(f *frame, a []value) value {
		x, y := a[0].r.(*big.Int), bigArg(f, a[1])
		f.step(min(x.BitLen(), y.BitLen()) / 64)
		return ofInt(int64(x.Cmp(y)))
	})
	def("BigDecimal", "new(String)BigDecimal", func(f *frame, a []value) value {
		s := notNull(f, a[0])
		f.step(len(s))
		f.numbers(7 * min(len(s), digitsMax))
		d, ok := cqltype.DecimalValue{}, false
		if len(s) <= digitsMax {
			d, ok = cqltype.ParseDecimal(s)
		}
		if !ok {
			numberFormat(s)
		}
		return f.decimal(d.Unscaled, int64(d.Scale))
	})
	def("BigDecimal", "static valueOf(long)BigDecimal", func(f *frame, a []value) value {
		return f.decimal(big.NewInt(a[0].n), 0)
	})
	def("BigDecimal", "new(int)BigDecimal", func(f *frame, a []value) value { return f.decimal(big.NewInt(a[0].n), 0) })
	def("BigDecimal", "static valueOf(double)BigDecimal", func(_ *frame, a []value) value {
		d, ok := cqltype.ParseDecimal(text(a[0], kDouble))
		if !ok {
			throw("NumberFormatException", "Infinite or NaN")
		}
		return ofRef(d)
	})
	sum := func(do func(z, x, y *big.Int) *big.Int) func(f *frame, a []value) value {
		return func(f *frame, a []value) value {
			x, y := a[0].r.(cqltype.DecimalValue), decimalArg(f, a[1])
			scale := int64(max(x.Scale, y.Scale))
			return f.decimal(do(new(big.Int), f.rescale(x, scale), f.rescale(y, scale)), scale)
		}
	}
	def("BigDecimal", "add(BigDecimal)BigDecimal", sum((*big.Int).Add))
	def("BigDecimal", "subtract(BigDecimal)BigDecimal", sum((*big.Int).Sub))
	def("BigDecimal", "multiply(BigDecimal)BigDecimal", func(f *frame, a []value) value {
		x, y := a[0].r.(cqltype.DecimalValue), decimalArg(f, a[1])
		f.numbers(x.Unscaled.BitLen(), y.Unscaled.BitLen())
		return f.decimal(new(big.Int).Mul(x.Unscaled, y.Unscaled), int64(x.Scale)+int64(y.Scale))
	})
	def("BigDecimal", "compareTo(BigDecimal)int", func(f *frame, a []value) value {
		t := cqltype.Native(cqltype.Decimal)
		x, y := a[0].r.(cqltype.DecimalValue), decimalArg(f, a[1])
		// A comparison rescales decimals of the same magnitude to the same scale.
		places := max(x.Scale, y.Scale) - min(x.Scale, y.Scale)
		f.numbers(x.Unscaled.BitLen(), y.Unscaled.BitLen(), int(places)*34/10)
		return ofInt(int64(t.Compare(cqltype.EncodeDecimal(x), cqltype.EncodeDecimal(y))))
	})
	def("BigDecimal", "negate()BigDecimal", func(f *frame, a []value) value {
		x := a[0].r.(cqltype.DecimalValue)
		return f.decimal(new(big.Int).Neg(x.Unscaled), int64(x.Scale))
	})
	def("BigDecimal", "abs()BigDecimal", func(f *frame, a []value) value {
		x := a[0].r.(cqltype.DecimalValue)
		return f.decimal(new(big.Int).Abs(x.Unscaled), int64(x.Scale))
	})
	def("BigDecimal", "signum()int", func(_ *frame, a []value) value {
		return ofInt(int64(a[0].r.(cqltype.DecimalValue).Unscaled.Sign()))
	})
	def("BigDecimal", "scale()int", func(_ *frame, a []value) value {
		return ofInt(int64(a[0].r.(cqltype.DecimalValue).Scale))
	})
}
