// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// maxTTL is 20 years in seconds.
const maxTTL = 20 * 365 * 24 * 60 * 60

// usingClause holds the values of USING TIMESTAMP, TTL, and TIMEOUT. A missing value is nil.
type usingClause struct{ timestamp, ttl, timeout expr.Term }

// bindUsing binds the USING clause of a statement or batch.
func bindUsing(s *parser.Using, env *expr.Env) (u usingClause, err error) {
	if s.Timestamp != nil {
		r := expr.Receiver{Name: "[timestamp]", Type: cqltype.Native(cqltype.Bigint)}
		if u.timestamp, err = expr.Bind(s.Timestamp, r, env); err != nil {
			return u, err
		}
	}
	if s.TTL != nil {
		r := expr.Receiver{Name: "[ttl]", Type: cqltype.Native(cqltype.Int)}
		if u.ttl, err = expr.Bind(s.TTL, r, env); err != nil {
			return u, err
		}
	}
	u.timeout, err = expr.BindTimeout(s.Timeout, env)
	return u, err
}

// evalTimestamp returns the timestamp in microseconds. If the clause does not set a timestamp, evalTimestamp returns
// fallback.
func (u *usingClause) evalTimestamp(b *expr.Bindings, fallback int64) (int64, error) {
	if u.timestamp == nil {
		return fallback, nil
	}
	v, state, err := u.timestamp.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == expr.Null:
		return 0, dberr.Invalidf("Invalid null value of timestamp")
	case state == expr.Unset:
		return fallback, nil
	}
	t, ok := u.timestamp.Type().Kind.Int64(v)
	switch {
	case !ok:
		return 0, dberr.Invalidf("Invalid timestamp value: 0x%x", v)
	case t == row.Unstamped:
		return 0, dberr.Invalidf("Out of bound timestamp, must be in [%d, %d]", row.Unstamped+1, row.NoExpiry)
	}
	return t, nil
}

// evalTTL returns the TTL in seconds. If the clause does not set a TTL, evalTTL returns fallback.
func (u *usingClause) evalTTL(b *expr.Bindings, fallback int32) (int32, error) {
	if u.ttl == nil {
		return fallback, nil
	}
	v, state, err := u.ttl.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == expr.Unset:
		return fallback, nil
	case state == expr.Null:
		return 0, nil
	}
	ttl, ok := u.ttl.Type().Kind.Int64(v)
	switch {
	case !ok:
		return 0, dberr.Invalidf("Invalid timestamp value: 0x%x", v)
	case ttl < 0:
		return 0, dberr.Invalidf("A TTL must be greater or equal to 0, but was %d", ttl)
	case ttl > maxTTL:
		return 0, dberr.Invalidf("ttl is too large. requested (%d) maximum (%d)", ttl, maxTTL)
	}
	return int32(ttl), nil
}
