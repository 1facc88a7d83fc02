// SPDX-License-Identifier: Apache-2.0

package expr

import "math"

// doubleDouble is a double-double number. Its value is the exact sum of two doubles. low is at most half a unit in the
// last place of high. The precision is about 105 bits. Functions of doubles use this type for intermediate results and
// round the final result once. Java's functions return the nearest double in all compared samples, but math.Exp may
// return the second-nearest double.
type doubleDouble struct{ high, low float64 }

func (a doubleDouble) value() float64 { return a.high + a.low }

// exactSum returns the exact sum of two doubles. exactSumFast returns the same result but requires |a| >= |b|.
func exactSum(a, b float64) doubleDouble {
	s := a + b
	t := s - a
	return doubleDouble{s, (a - (s - t)) + (b - t)}
}

func exactSumFast(a, b float64) doubleDouble {
	s := a + b
	return doubleDouble{s, b - (s - a)}
}

func exactProduct(a, b float64) doubleDouble {
	p := a * b
	return doubleDouble{p, math.FMA(a, b, -p)}
}

func (a doubleDouble) plus(b doubleDouble) doubleDouble {
	s, t := exactSum(a.high, b.high), exactSum(a.low, b.low)
	s = exactSumFast(s.high, s.low+t.high)
	return exactSumFast(s.high, s.low+t.low)
}

func (a doubleDouble) times(b doubleDouble) doubleDouble {
	p := exactProduct(a.high, b.high)
	return exactSumFast(p.high, p.low+(a.high*b.low+a.low*b.high))
}

func (a doubleDouble) over(b float64) doubleDouble {
	q := a.high / b
	rest := math.FMA(-q, b, a.high) + a.low
	return exactSumFast(q, rest/b)
}

var (
	ln2Twofold     = doubleDouble{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	perLn10Twofold = doubleDouble{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57} // 1 / ln 10
)

// expDoubleDouble returns e^x * 2^-power for |x| < 746.
func expDoubleDouble(x float64) (result doubleDouble, power int) {
	power = int(math.Round(x / math.Ln2))
	k := float64(power)
	r := exactSum(x, 0).plus(ln2Twofold.times(doubleDouble{-k, 0}))
	const halvings, terms = 6, 14
	r = doubleDouble{math.Ldexp(r.high, -halvings), math.Ldexp(r.low, -halvings)}
	// Computing e^r - 1 instead of e^r keeps the low digits during squaring, because (1 + s)^2 - 1 = 2s + s^2.
	s := r
	power1 := r
	for n := 2; n <= terms; n++ {
		power1 = power1.times(r).over(float64(n))
		s = s.plus(power1)
	}
	for range halvings {
		s = doubleDouble{2 * s.high, 2 * s.low}.plus(s.times(s))
	}
	return s.plus(doubleDouble{1, 0}), power
}

// doubleExp returns the double nearest to e^x.
func doubleExp(x float64) float64 {
	const finite = 746 // beyond this limit, e^x is 0 or infinite
	if x != x || math.Abs(x) >= finite {
		return math.Exp(x)
	}
	y, power := expDoubleDouble(x)
	return scale(y, power)
}

// scale returns y * 2^power. The result is rounded only once, even if it is subnormal.
func scale(y doubleDouble, power int) float64 {
	v := y.value()
	const least = -1022
	if power >= least+2 {
		return math.Ldexp(v, power)
	}
	// v is already rounded, and Ldexp rounds v again. If v is halfway between two results, the remainder of y
	// determines the result.
	r := math.Ldexp(v, power)
	rest := (y.high - v) + y.low
	if back := math.Ldexp(r, -power); math.Abs(v-back) == math.Ldexp(1, -1075-power) && rest != 0 {
		if rest > 0 == (back < v) {
			return math.Ldexp(math.Nextafter(v, math.Copysign(math.Inf(1), rest)), power)
		}
	}
	return r
}

// logDoubleDouble returns the natural logarithm of a finite positive number.
func logDoubleDouble(x float64) doubleDouble {
	const near = 0x1p-6
	if f := x - 1; math.Abs(f) < near { // 2 artanh(f / (2 + f)), because the difference below would lose precision
		z := quotientOf(doubleDouble{f, 0}, exactSum(2, f))
		square, power, sum := z.times(z), z, z
		for n := 3; n <= 17; n += 2 {
			power = power.times(square)
			sum = sum.plus(power.over(float64(n)))
		}
		return doubleDouble{2 * sum.high, 2 * sum.low}
	}
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	y := doubleDouble{}
	if m != 1 {
		if math.Abs(m-1) < near {
			y = logDoubleDouble(m)
		} else { // one step of Newton's method doubles the number of digits
			first := math.Log(m)
			back, power := expDoubleDouble(first)
			back = doubleDouble{math.Ldexp(back.high, power), math.Ldexp(back.low, power)}
			difference := doubleDouble{m, 0}.plus(doubleDouble{-back.high, -back.low})
			y = exactSum(first, 2*difference.value()/(m+back.value()))
		}
	}
	return y.plus(ln2Twofold.times(doubleDouble{float64(e), 0}))
}

func quotientOf(a, b doubleDouble) doubleDouble {
	q := a.high / b.high
	rest := a.plus(b.times(doubleDouble{-q, 0}))
	return exactSumFast(q, rest.value()/b.high)
}

// doubleLog and doubleLog10 return the double that is nearest to the logarithm.
func doubleLog(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x)
	}
	return logDoubleDouble(x).value()
}

func doubleLog10(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log10(x)
	}
	return logDoubleDouble(x).times(perLn10Twofold).value()
}
