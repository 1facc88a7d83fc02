// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"
	"math/rand/v2"

	"github.com/ilion-db/ilion/internal/model/document"
)

// mathFunctions contains the mathematical functions. The functions return Undefined for arguments that are not numbers
// and for results that JSON cannot represent.
var mathFunctions = map[string]builtin{
	"ABS":     number1(math.Abs),
	"ACOS":    number1(math.Acos),
	"ASIN":    number1(math.Asin),
	"ATAN":    number1(math.Atan),
	"ATN2":    number2(math.Atan2),
	"CEILING": number1(math.Ceil),
	"COS":     number1(math.Cos),
	"COT":     number1(func(f float64) float64 { return 1 / math.Tan(f) }),
	"DEGREES": number1(func(f float64) float64 { return f * 180 / math.Pi }),
	"EXP":     number1(math.Exp),
	"FLOOR":   number1(math.Floor),
	"LOG": pure(1, 2, func(a []document.Value) document.Value {
		if !all(a, document.Number) {
			return undefined
		}
		v := math.Log(a[0].Float())
		if len(a) == 2 {
			v /= math.Log(a[1].Float())
		}
		return document.NumberValue(v)
	}),
	"LOG10": number1(math.Log10),
	"NUMBERBIN": pure(1, 2, func(a []document.Value) document.Value {
		size := 1.0
		if len(a) == 2 {
			size = a[1].Float()
		}
		if !all(a, document.Number) || size == 0 {
			return undefined
		}
		return document.NumberValue(math.Floor(a[0].Float()/size) * size)
	}),
	"PI":      pure(0, 0, func([]document.Value) document.Value { return document.NumberValue(math.Pi) }),
	"POWER":   number2(math.Pow),
	"RADIANS": number1(func(f float64) float64 { return f * math.Pi / 180 }),
	"RAND": {f: func(*env, []document.Value) document.Value {
		return document.NumberValue(rand.Float64())
	}, volatile: true},
	"ROUND": pure(1, 2, func(a []document.Value) document.Value {
		if !all(a, document.Number) {
			return undefined
		}
		if len(a) == 1 {
			return document.NumberValue(math.Round(a[0].Float()))
		}
		n, ok := integer(a[1])
		if !ok || n < -308 || n > 308 {
			return undefined
		}
		scale := math.Pow(10, float64(n))
		return document.NumberValue(math.Round(a[0].Float()*scale) / scale)
	}),
	"SIGN": number1(func(f float64) float64 {
		switch {
		case f > 0:
			return 1
		case f < 0:
			return -1
		}
		return 0
	}),
	"SIN":    number1(math.Sin),
	"SQRT":   number1(math.Sqrt),
	"SQUARE": number1(func(f float64) float64 { return f * f }),
	"TAN":    number1(math.Tan),
	"TRUNC":  number1(math.Trunc),
}

func number1(f func(float64) float64) builtin {
	return pure(1, 1, func(a []document.Value) document.Value {
		if a[0].Kind() != document.Number {
			return undefined
		}
		return document.NumberValue(f(a[0].Float()))
	})
}

func number2(f func(x, y float64) float64) builtin {
	return pure(2, 2, func(a []document.Value) document.Value {
		if !all(a, document.Number) {
			return undefined
		}
		return document.NumberValue(f(a[0].Float(), a[1].Float()))
	})
}

// integerFunctions contains functions that use 64-bit arithmetic with wraparound. The functions return Undefined for
// arguments that are not integers.
var integerFunctions = map[string]builtin{
	"INTADD":           integer2(func(x, y int64) (int64, bool) { return x + y, true }),
	"INTSUB":           integer2(func(x, y int64) (int64, bool) { return x - y, true }),
	"INTMUL":           integer2(func(x, y int64) (int64, bool) { return x * y, true }),
	"INTBITAND":        integer2(func(x, y int64) (int64, bool) { return x & y, true }),
	"INTBITOR":         integer2(func(x, y int64) (int64, bool) { return x | y, true }),
	"INTBITXOR":        integer2(func(x, y int64) (int64, bool) { return x ^ y, true }),
	"INTBITLEFTSHIFT":  integer2(func(x, y int64) (int64, bool) { return x << uint64(y&63), true }),
	"INTBITRIGHTSHIFT": integer2(func(x, y int64) (int64, bool) { return x >> uint64(y&63), true }),
	"INTDIV": integer2(func(x, y int64) (int64, bool) {
		if y == 0 {
			return 0, false
		}
		return x / y, true
	}),
	"INTMOD": integer2(func(x, y int64) (int64, bool) {
		if y == 0 {
			return 0, false
		}
		return x % y, true
	}),
	"INTBITNOT": pure(1, 1, func(a []document.Value) document.Value {
		x, ok := int64Of(a[0])
		if !ok {
			return undefined
		}
		return document.IntegerValue(^x)
	}),
}

func integer2(f func(x, y int64) (int64, bool)) builtin {
	return pure(2, 2, func(a []document.Value) document.Value {
		x, ok1 := int64Of(a[0])
		y, ok2 := int64Of(a[1])
		if !ok1 || !ok2 {
			return undefined
		}
		v, ok := f(x, y)
		if !ok {
			return undefined
		}
		return document.IntegerValue(v)
	})
}

// int64Of returns the value of a 64-bit integer.
func int64Of(v document.Value) (int64, bool) {
	if v.Kind() != document.Number {
		return 0, false
	}
	return v.Int()
}
