// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// BindTimeout binds the duration of USING TIMEOUT. If t is nil, it returns nil. It also validates a constant duration.
func BindTimeout(t parser.Term, env *Env) (Term, error) {
	if t == nil {
		return nil, nil
	}
	bound, err := Bind(t, Receiver{Name: "[timeout]", Type: cqltype.Native(cqltype.Duration)}, env)
	if err != nil {
		return nil, err
	}
	if _, ok := bound.(*constant); ok {
		_, err = EvalTimeout(bound, nil)
	}
	return bound, err
}

// EvalTimeout returns the duration of USING TIMEOUT, or 0 if t is nil.
func EvalTimeout(t Term, b *Bindings) (time.Duration, error) {
	if t == nil {
		return 0, nil
	}
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == Unset:
		return 0, nil
	case state == Null || len(v) == 0:
		return 0, dberr.Invalidf("Invalid null value of timeout: use a duration such as 500ms")
	}
	d, ok := cqltype.DecodeDuration(v)
	switch {
	case !ok:
		return 0, dberr.Invalidf("Invalid timeout value: use a duration such as 500ms")
	case d.Months != 0 || d.Days != 0:
		return 0, dberr.Invalidf("Invalid timeout %s: a timeout cannot contain months, weeks, or days. "+
			"Use hours, minutes, seconds, and milliseconds", d)
	case d.Nanos < 0:
		return 0, dberr.Invalidf("Invalid timeout %s: a timeout cannot be negative", d)
	case d.Nanos%int64(time.Millisecond) != 0:
		return 0, dberr.Invalidf("Invalid timeout %s: a timeout must be a whole number of milliseconds", d)
	}
	// A timeout of 0 ms must differ from a missing timeout.
	return max(time.Duration(min(d.Nanos, math.MaxInt64/4)), 1), nil
}
