// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

func bigOf(n int64) *big.Int { return big.NewInt(n) }

func decimalOf(n int64) cqltype.DecimalValue { return cqltype.DecimalValue{Unscaled: big.NewInt(n)} }

func decimalFloat(d cqltype.DecimalValue) float64 {
	v, _ := strconv.ParseFloat(d.Unscaled.String()+"e"+strconv.FormatInt(-int64(d.Scale), 10), 64)
	return v
}

// numberClass returns the class of a number that is not boxed.
func numberClass(r any) string {
	switch r.(type) {
	case *big.Int:
		return "BigInteger"
	case cqltype.DecimalValue:
		return "BigDecimal"
	case cqltype.DurationValue:
		return "Duration"
	case *context:
		return "UDFContext"
	}
	return "Object"
}

// numberOf returns a number as a double and as a long.
func numberOf(r any) (float64, int64) {
	switch r := r.(type) {
	case box:
		if r.kind == kFloat || r.kind == kDouble {
			v := value{n: r.n}
			return v.float(), convert(v, kDouble, kLong).n
		}
		return float64(r.n), r.n
	case *big.Int:
		v, _ := new(big.Float).SetInt(r).Float64()
		return v, int64(new(big.Int).And(r, new(big.Int).SetUint64(math.MaxUint64)).Uint64())
	case cqltype.DecimalValue:
		v := decimalFloat(r)
		return v, convert(ofFloat(v), kDouble, kLong).n
	}
	return 0, 0
}

func numberFormat(s any) {
	panic(&Thrown{"java.lang.NumberFormatException", "For input string: \"" + s.(string) + "\"", true})
}

// integerText parses a text in the same way as Integer.parseInt and similar methods.
func integerText(f *frame, v value, base, bits int) int64 {
	s, ok := v.r.(string)
	if !ok {
		panic(&Thrown{"java.lang.NumberFormatException", "Cannot parse null string: null", true})
	}
	f.step(len(s) / 16)
	n, err := strconv.ParseInt(s, base, bits)
	if err != nil || strings.Contains(s, "_") {
		numberFormat(s)
	}
	return n
}

func floatText(f *frame, v value, bits int) value {
	s := trim(notNull(f, v))
	f.step(len(s) / 4)
	if s == "" {
		panic(&Thrown{"java.lang.NumberFormatException", "empty String", true})
	}
	plain := strings.TrimRight(s, "fFdD")
	n, err := strconv.ParseFloat(plain, bits)
	lower := strings.ToLower(strings.Trim(s, "+-"))
	if err != nil && !math.IsInf(n, 0) || strings.ContainsAny(s, "_xX") || lower == "inf" ||
		lower == "nan" && s != "NaN" {
		numberFormat(s)
	}
	return ofFloat(n)
}

func init() {
	unary := func(name string, do func(float64) float64) {
		def("Math", "static "+name+"(double)double", func(_ *frame, a []value) value {
			return ofFloat(do(a[0].float()))
		})
	}
	for name, do := range map[string]func(float64) float64{"sqrt": math.Sqrt, "cbrt": math.Cbrt, "exp": math.Exp,
		"log": math.Log, "log10": math.Log10, "sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "asin": math.Asin,
		"acos": math.Acos, "atan": math.Atan, "sinh": math.Sinh, "cosh": math.Cosh, "tanh": math.Tanh,
		"ceil": math.Ceil, "floor": math.Floor, "rint": math.RoundToEven, "expm1": math.Expm1, "log1p": math.Log1p,
		"toRadians": func(v float64) float64 { return v / 180 * math.Pi },
		"toDegrees": func(v float64) float64 { return v * 180 / math.Pi },
		"signum": func(v float64) float64 {
			if v > 0 {
				return 1
			}
			if v < 0 {
				return -1
			}
			return v
		}} {
		unary(name, do)
	}
	for name, do := range map[string]func(a, b float64) float64{"pow": math.Pow, "atan2": math.Atan2,
		"hypot": math.Hypot} {
		def("Math", "static "+name+"(double,double)double", func(_ *frame, a []value) value {
			return ofFloat(do(a[0].float(), a[1].float()))
		})
	}
	def("Math", "static round(float)int", func(_ *frame, a []value) value {
		return ofInt(saturate(math.Floor(a[0].float()+0.5), math.MinInt32, math.MaxInt32))
	})
	def("Math", "static round(double)long", func(_ *frame, a []value) value {
		return ofInt(saturate(math.Floor(a[0].float()+0.5), math.MinInt64, math.MaxInt64))
	})
	for _, t := range []*jtype{jInt, jLong} {
		name := t.name
		def("Math", "static abs("+name+")"+name, func(_ *frame, a []value) value {
			return narrow(max(a[0].n, -a[0].n), t.kind)
		})
		def("Math", "static max("+name+","+name+")"+name, func(_ *frame, a []value) value {
			return ofInt(max(a[0].n, a[1].n))
		})
		def("Math", "static min("+name+","+name+")"+name, func(_ *frame, a []value) value {
			return ofInt(min(a[0].n, a[1].n))
		})
		exact(t, "addExact", (*big.Int).Add)
		exact(t, "subtractExact", (*big.Int).Sub)
		exact(t, "multiplyExact", (*big.Int).Mul)
		for _, by := range []string{"floorDiv", "floorMod"} {
			def("Math", "static "+by+"("+name+","+name+")"+name, func(_ *frame, a []value) value {
				q, r := integers["/"](a[0].n, a[1].n), integers["%"](a[0].n, a[1].n)
				if r != 0 && (r < 0) != (a[1].n < 0) {
					q, r = q-1, r+a[1].n
				}
				if by == "floorMod" {
					q = r
				}
				return narrow(q, t.kind)
			})
		}
	}
	for _, t := range []string{"float", "double"} {
		def("Math", "static abs("+t+")"+t, func(_ *frame, a []value) value { return ofFloat(math.Abs(a[0].float())) })
		def("Math", "static max("+t+","+t+")"+t, func(_ *frame, a []value) value {
			return ofFloat(math.Max(a[0].float(), a[1].float()))
		})
		def("Math", "static min("+t+","+t+")"+t, func(_ *frame, a []value) value {
			return ofFloat(math.Min(a[0].float(), a[1].float()))
		})
	}
	def("Math", "static toIntExact(long)int", func(_ *frame, a []value) value {
		if narrow(a[0].n, kInt) != a[0] {
			throw("ArithmeticException", "integer overflow")
		}
		return a[0]
	})
	defBoxes()
	defCharacters()
	defBig()
}

// exact defines an operation that throws an exception on overflow.
func exact(t *jtype, name string, do func(z, a, b *big.Int) *big.Int) {
	what := map[string]string{"int": "integer", "long": "long"}[t.name]
	def("Math", "static "+name+"("+t.name+","+t.name+")"+t.name, func(_ *frame, a []value) value {
		x := do(new(big.Int), big.NewInt(a[0].n), big.NewInt(a[1].n))
		if !x.IsInt64() || narrow(x.Int64(), t.kind).n != x.Int64() {
			throw("ArithmeticException", "%s overflow", what)
		}
		return ofInt(x.Int64())
	})
}

func defBoxes() {
	for _, to := range []string{"byte", "short", "int", "long", "float", "double"} {
		k := primitiveTypes[to].kind
		def("Number", to+"Value()"+to, func(f *frame, a []value) value {
			switch r := a[0].r.(type) {
			case *big.Int:
				f.digits(r)
			case cqltype.DecimalValue:
				f.digits(r.Unscaled)
			}
			d, n := numberOf(a[0].r)
			b, isBox := a[0].r.(box)
			if k == kFloat || k == kDouble {
				return convert(ofFloat(d), kDouble, k)
			}
			if isBox && (b.kind == kFloat || b.kind == kDouble) {
				return convert(ofFloat(d), kDouble, k)
			}
			return narrow(n, k)
		})
	}
	for name, t := range unboxes {
		k, p := t.kind, t.name
		def(name, "static valueOf("+p+")"+name, func(_ *frame, a []value) value { return a[0].boxing(k) })
		def(name, "new("+p+")"+name, func(_ *frame, a []value) value { return a[0].boxing(k) })
		def(name, p+"Value()"+p, func(_ *frame, a []value) value { return ofInt(a[0].r.(box).n) })
		def(name, "static toString("+p+")String", func(f *frame, a []value) value { return f.newString(text(a[0], k)) })
		order := func(a, b value) value {
			if k == kFloat || k == kDouble {
				t := cqltype.Native(cqltype.Double)
				return ofInt(int64(t.Compare(t.Kind.FromFloat64(a.float()), t.Kind.FromFloat64(b.float()))))
			}
			switch {
			case k == kChar || k == kByte || k == kShort:
				return ofInt(a.n - b.n)
			case a.n < b.n:
				return ofInt(-1)
			case a.n > b.n:
				return ofInt(1)
			}
			return ofInt(0)
		}
		def(name, "static compare("+p+","+p+")int", func(_ *frame, a []value) value { return order(a[0], a[1]) })
		def(name, "compareTo("+name+")int", func(f *frame, a []value) value {
			b, ok := a[1].r.(box)
			if !ok {
				f.throwNull("Cannot read field \"value\"", "the argument of compareTo")
			}
			return order(ofInt(a[0].r.(box).n), ofInt(b.n))
		})
		def(name, "static hashCode("+p+")int", func(f *frame, a []value) value { return f.hash(box{k, a[0].n}) })
	}
	for name, parse := range map[string]string{"Byte": "parseByte", "Short": "parseShort", "Integer": "parseInt",
		"Long": "parseLong"} {
		t := unboxes[name]
		bits := map[kind]int{kByte: 8, kShort: 16, kInt: 32, kLong: 64}[t.kind]
		def(name, "static "+parse+"(String)"+t.name, func(f *frame, a []value) value {
			return ofInt(integerText(f, a[0], 10, bits))
		})
		def(name, "static "+parse+"(String,int)"+t.name, func(f *frame, a []value) value {
			if a[1].n < 2 || a[1].n > 36 {
				throw("NumberFormatException", "radix %d out of range", a[1].n)
			}
			return ofInt(integerText(f, a[0], int(a[1].n), bits))
		})
		def(name, "static valueOf(String)"+name, func(f *frame, a []value) value {
			return ofInt(integerText(f, a[0], 10, bits)).boxing(t.kind)
		})
	}
	for name, bits := range map[string]int{"Float": 32, "Double": 64} {
		t := unboxes[name]
		def(name, "static parse"+name+"(String)"+t.name, func(f *frame, a []value) value {
			return floatText(f, a[0], bits)
		})
		def(name, "static valueOf(String)"+name, func(f *frame, a []value) value {
			return floatText(f, a[0], bits).boxing(t.kind)
		})
		def(name, "static isNaN("+t.name+")boolean", func(_ *frame, a []value) value {
			return ofBool(math.IsNaN(a[0].float()))
		})
		def(name, "isNaN()boolean", func(_ *frame, a []value) value {
			return ofBool(math.IsNaN(value{n: a[0].r.(box).n}.float()))
		})
		def(name, "static isInfinite("+t.name+")boolean", func(_ *frame, a []value) value {
			return ofBool(math.IsInf(a[0].float(), 0))
		})
	}
	def("Boolean", "static parseBoolean(String)boolean", func(_ *frame, a []value) value {
		s, ok := a[0].r.(string)
		return ofBool(ok && strings.EqualFold(s, "true"))
	})
	for _, name := range []string{"Integer", "Long"} {
		t := unboxes[name]
		for method, base := range map[string]int{"toHexString": 16, "toBinaryString": 2, "toOctalString": 8} {
			def(name, "static "+method+"("+t.name+")String", func(f *frame, a []value) value {
				u := uint64(a[0].n)
				if t == jInt {
					u = uint64(uint32(a[0].n))
				}
				return f.newString(strconv.FormatUint(u, base))
			})
		}
		def(name, "static signum("+t.name+")int", func(_ *frame, a []value) value { return ofInt(sign(a[0].n)) })
		def(name, "static max("+t.name+","+t.name+")"+t.name, func(_ *frame, a []value) value {
			return ofInt(max(a[0].n, a[1].n))
		})
		def(name, "static min("+t.name+","+t.name+")"+t.name, func(_ *frame, a []value) value {
			return ofInt(min(a[0].n, a[1].n))
		})
		def(name, "static sum("+t.name+","+t.name+")"+t.name, func(_ *frame, a []value) value {
			return narrow(a[0].n+a[1].n, t.kind)
		})
	}
}

func sign(n int64) int64 {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}
