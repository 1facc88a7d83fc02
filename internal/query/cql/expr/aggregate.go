// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Aggregate is an aggregate call in a SELECT clause. It is immutable. An Accumulator holds the state of a group.
type Aggregate struct {
	fn   *function
	args []Term
}

// Type returns the type of the aggregate's result.
func (a *Aggregate) Type() *cqltype.Type { return a.fn.result }

// New starts the aggregation of a group.
func (a *Aggregate) New() *Accumulator {
	return &Accumulator{aggregate: a, state: a.fn.state(a.fn)}
}

// Accumulator holds the state of an aggregate for one group of rows. It is not safe for concurrent use.
type Accumulator struct {
	aggregate *Aggregate
	state     accumulator
	// held is the number of bytes that the meter counts for the state and the result.
	held int
}

// Add adds the row in b.Row to the group. It does not retain the row.
func (a *Accumulator) Add(b *Bindings) error {
	if f, ok := a.state.(*folding); ok {
		return a.addAll(f, b)
	}
	var v []byte
	for _, t := range a.aggregate.args {
		var state State
		var err error
		if v, state, err = t.Eval(b); err != nil {
			return err
		}
		if state != Value {
			return nil // nulls are ignored
		}
	}
	if err := b.Meter.Step(1 + len(v)/stepBytes); err != nil {
		return err
	}
	if err := a.hold(b, len(v)); err != nil {
		return err
	}
	return a.state.add(v)
}

// hold adjusts the meter to the size of the state or the result.
func (a *Accumulator) hold(b *Bindings, size int) error {
	if size <= a.held {
		return nil
	}
	more := size - a.held
	a.held = size
	return b.Meter.Keep(2 * more)
}

// addAll adds a row to a user-defined aggregate, which also receives null arguments.
func (a *Accumulator) addAll(f *folding, b *Bindings) error {
	var room [4][]byte
	values := room[:0]
	for _, t := range a.aggregate.args {
		v, state, err := t.Eval(b)
		if err != nil {
			return err
		}
		if state == Unset {
			return dberr.Invalidf("Invalid unset value for argument in call to function %s", a.aggregate.fn.name)
		}
		values = append(values, v)
	}
	if err := f.addAll(b.Meter, values); err != nil {
		return err
	}
	return a.hold(b, len(f.state))
}

// Result returns the current value, or nil for null. The caller owns the bytes.
func (a *Accumulator) Result(b *Bindings) ([]byte, error) {
	if f, ok := a.state.(*folding); ok {
		v, err := f.finish(b.Meter)
		if err == nil {
			err = a.hold(b, len(v))
		}
		return v, err
	}
	return a.state.result()
}

// Reset discards the state and starts the next group.
func (a *Accumulator) Reset() { a.state = a.aggregate.fn.state(a.aggregate.fn) }

// aggregateResult is a selector term that returns the result of an aggregate.
type aggregateResult struct {
	typ   *cqltype.Type
	index int
}

func (a *aggregateResult) Type() *cqltype.Type { return a.typ }

func (a *aggregateResult) Eval(b *Bindings) ([]byte, State, error) {
	v := b.Aggregates[a.index]
	return v, stateOf(v), nil
}

// accumulator is the state of one aggregate function. The values are never null but may be empty.
type accumulator interface {
	add(v []byte) error
	result() ([]byte, error)
}

// countRows implements count(*) and count(1).
var countRows = &function{name: "countRows", result: tBigint, state: func(*function) accumulator {
	return new(counter)
}}

func aggregateFunctions() []*function {
	var fs []*function
	for k := cqltype.Ascii; k <= cqltype.Varint; k++ {
		t := cqltype.Native(k)
		fs = append(fs,
			&function{name: "count", args: types(t), result: tBigint, state: func(*function) accumulator {
				return new(counter)
			}},
			extremeFunction("max", t), extremeFunction("min", t))
	}
	for _, t := range types(tTinyint, tSmallint, tInt, tBigint, tFloat, tDouble, tDecimal, tVarint, tCounter) {
		for _, name := range []string{"sum", "avg"} {
			fs = append(fs, &function{name: name, args: types(t), result: t, state: newTotal(t, name == "avg")})
		}
	}
	return fs
}

// extremeFunction returns the overload of max or min for a type.
func extremeFunction(name string, t *cqltype.Type) *function {
	sign := 1
	if name == "min" {
		sign = -1
	}
	return &function{name: name, args: types(t), result: t, state: func(*function) accumulator {
		return &extreme{typ: t, sign: sign}
	}}
}

type counter struct{ n int64 }

func (c *counter) add([]byte) error        { c.n++; return nil }
func (c *counter) result() ([]byte, error) { return wrap(tBigint, c.n), nil }

// extreme implements max (sign 1) and min (sign -1).
type extreme struct {
	typ  *cqltype.Type
	sign int
	best []byte
	any  bool
}

func (e *extreme) add(v []byte) error {
	if !e.any || e.typ.Compare(v, e.best)*e.sign > 0 {
		e.best, e.any = append(e.best[:0], v...), true
	}
	return nil
}

func (e *extreme) result() ([]byte, error) {
	if !e.any {
		return nil, nil
	}
	return append([]byte{}, e.best...), nil
}

// newTotal returns a constructor for the state of a sum or an average.
func newTotal(t *cqltype.Type, average bool) func(*function) accumulator {
	return func(*function) accumulator {
		switch t.Kind {
		case cqltype.Float, cqltype.Double:
			return &floatTotal{typ: t, average: average}
		case cqltype.Decimal:
			return &decimalTotal{average: average, value: cqltype.DecimalValue{Unscaled: new(big.Int)}}
		case cqltype.Varint:
			return &bigTotal{typ: t, average: average}
		case cqltype.Bigint, cqltype.Counter:
			if average {
				return &bigTotal{typ: t, average: true} // the sum may exceed 64 bits, but the average cannot
			}
		}
		return &integerTotal{typ: t, average: average}
	}
}

// integerTotal computes an integer sum or average. Like Java integers, the sum wraps around.
type integerTotal struct {
	typ     *cqltype.Type
	average bool
	sum, n  int64
}

func (s *integerTotal) add(v []byte) error {
	if i, ok := s.typ.Kind.Int64(v); ok {
		s.sum += i
		s.n++
	}
	return nil
}

func (s *integerTotal) result() ([]byte, error) {
	if s.average && s.n > 0 {
		return wrap(s.typ, s.sum/s.n), nil
	}
	return wrap(s.typ, s.sum), nil
}

type bigTotal struct {
	typ     *cqltype.Type
	average bool
	sum     big.Int
	n       int64
}

func (s *bigTotal) add(v []byte) error {
	if i := toBig(s.typ, v); i != nil {
		s.sum.Add(&s.sum, i)
		s.n++
	}
	return checkLength(&s.sum)
}

func (s *bigTotal) result() ([]byte, error) {
	v := &s.sum
	if s.average && s.n > 0 {
		v = new(big.Int).Quo(v, big.NewInt(s.n))
	}
	if s.typ.Kind == cqltype.Varint {
		return cqltype.EncodeVarint(v), nil
	}
	return wrap(s.typ, lowBits(v)), nil
}

// floatTotal computes a sum in double precision with Neumaier's variant of Kahan's compensated summation.
type floatTotal struct {
	typ                       *cqltype.Type
	average                   bool
	sum, compensation, simple float64
	n                         int64
	// exact is the sum of an average that exceeds the range of doubles.
	exact *cqltype.DecimalValue
}

func (s *floatTotal) add(v []byte) error {
	f, ok := s.typ.Kind.Float64(v)
	if !ok {
		return nil
	}
	s.n++
	if s.exact != nil {
		return s.addExact(f)
	}
	before := s.sum
	s.simple += f
	t := s.sum + f
	if math.Abs(s.sum) >= math.Abs(f) {
		s.compensation += (s.sum - t) + f
	} else {
		s.compensation += (f - t) + s.sum
	}
	s.sum = t
	if s.average && math.IsInf(t, 0) && !math.IsInf(f, 0) && !math.IsInf(before, 0) {
		d, err := decimalOfFloat(before)
		if err != nil {
			return err
		}
		s.exact = &d
		return s.addExact(f)
	}
	return nil
}

func (s *floatTotal) addExact(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s.exact, s.sum, s.simple = nil, f, f
		return nil
	}
	d, err := decimalOfFloat(f)
	if err != nil {
		return err
	}
	d, err = decimalResult('+', *s.exact, d)
	s.exact = &d
	return err
}

func (s *floatTotal) result() ([]byte, error) {
	total := s.sum + s.compensation
	if math.IsNaN(total) {
		total = s.simple
	}
	if s.average && s.n > 0 {
		if s.exact != nil {
			q, err := quotient(*s.exact, cqltype.DecimalValue{Unscaled: big.NewInt(s.n)}, s.exact.Scale, true)
			if err != nil {
				return nil, err
			}
			total = float64OfDecimal(q)
		} else {
			total /= float64(s.n)
		}
	}
	if s.typ.Kind == cqltype.Float {
		return fromFloat32(float32(total)), nil
	}
	return fromFloat64(total), nil
}

// decimalTotal computes a sum or an average. As in Cassandra, each value updates the average. The average is rounded to
// the scale of the difference between the value and the average.
type decimalTotal struct {
	average bool
	value   cqltype.DecimalValue
	n       int64
}

func (s *decimalTotal) add(v []byte) error {
	d, ok := cqltype.DecodeDecimal(v)
	if !ok {
		return nil
	}
	s.n++
	var err error
	if s.average {
		if d, err = decimalResult('-', d, s.value); err != nil {
			return err
		}
		if d, err = quotient(d, cqltype.DecimalValue{Unscaled: big.NewInt(s.n)}, d.Scale, true); err != nil {
			return err
		}
	}
	s.value, err = decimalResult('+', s.value, d)
	return err
}

func (s *decimalTotal) result() ([]byte, error) { return cqltype.EncodeDecimal(s.value), nil }
