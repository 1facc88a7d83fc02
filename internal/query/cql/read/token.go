// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// tokenRestriction is a restriction on the token of the partition key. A nil bound is an open bound.
type tokenRestriction struct {
	equal     bool
	low, high *tokenBound
	text      string
}

type tokenBound struct {
	value     expr.Term
	inclusive bool
}

func (t *tokenRestriction) merge(o *tokenRestriction, table *schema.Table) (*tokenRestriction, error) {
	names := pkNames(table)
	switch {
	case t.equal:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes an Equal", names)
	case o.equal:
		return nil, dberr.Invalidf("Columns \"%s\" cannot be restricted by both an equality and an inequality relation",
			names)
	case t.low != nil && o.low != nil:
		return nil, dberr.Invalidf("More than one restriction was found for the start bound on %s", names)
	case t.high != nil && o.high != nil:
		return nil, dberr.Invalidf("More than one restriction was found for the end bound on %s", names)
	}
	out := &tokenRestriction{low: t.low, high: t.high, text: t.text + " AND " + o.text}
	if o.low != nil {
		out.low = o.low
	}
	if o.high != nil {
		out.high = o.high
	}
	return out, nil
}

// pkNames returns the names of the partition key columns.
func pkNames(table *schema.Table) string {
	names := make([]string, len(table.PartitionKey))
	for i, c := range table.PartitionKey {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// bindToken binds token(a, b) op value.
func bindToken(r *parser.Relation, env *expr.Env) (*tokenRestriction, error) {
	if r.Op == parser.NotEqual {
		return nil, relation.Unsupported(r)
	}
	columns := make([]*schema.Column, len(r.Columns))
	for i, name := range r.Columns {
		c, err := expr.FindColumn(env.Table, name)
		if err != nil {
			return nil, err
		}
		columns[i] = c
	}
	if r.Op != parser.Equal && !relation.IsSlice(r.Op) {
		return nil, dberr.Invalidf("%s cannot be used with the token function", r.Op)
	}
	if err := checkTokenColumns(columns, env.Table); err != nil {
		return nil, err
	}
	value, err := expr.Bind(r.Value, expr.Receiver{Name: "partition key token", Type: cqltype.Native(cqltype.Bigint)},
		env)
	if err != nil {
		return nil, err
	}
	out := &tokenRestriction{text: relation.Text(r)}
	bound := &tokenBound{value: value, inclusive: r.Op != parser.Less && r.Op != parser.Greater}
	switch r.Op {
	case parser.Equal:
		out.equal, out.low, out.high = true, bound, bound
	case parser.Greater, parser.GreaterEqual:
		out.low = bound
	default:
		out.high = bound
	}
	return out, nil
}

func checkTokenColumns(columns []*schema.Column, table *schema.Table) error {
	pk := table.PartitionKey
	seen := map[*schema.Column]bool{}
	twice, inOrder := false, len(columns) == len(pk)
	for i, c := range columns {
		twice = twice || seen[c]
		seen[c] = true
		inOrder = inOrder && c == pk[i]
	}
	if inOrder {
		return nil
	}
	for _, c := range pk {
		if !seen[c] {
			return dberr.Invalidf("The token() function must be applied to all partition key components or none of them")
		}
	}
	switch {
	case twice:
		return dberr.Invalidf("The token() function contains duplicate partition key components")
	case len(columns) != len(pk):
		return dberr.Invalidf("The token() function must contains only partition key components")
	}
	return dberr.Invalidf("The token function arguments must be in the partition key order: %s", pkNames(table))
}

// tokens evaluates the token restriction. If no token matches, none is true. As in Cassandra, the minimum token
// represents an open bound.
func (w *where) tokens(b *expr.Bindings) (r token.Range, none bool, err error) {
	if w.token == nil {
		return token.Full, false, nil
	}
	low, high := token.Min, token.Min
	lowIn, highIn := true, true
	if t := w.token.low; t != nil {
		if low, err = evalToken(t.value, b); err != nil {
			return r, false, err
		}
		lowIn = t.inclusive
	}
	if t := w.token.high; t != nil {
		if high, err = evalToken(t.value, b); err != nil {
			return r, false, err
		}
		highIn = t.inclusive
	}
	if low != token.Min && high != token.Min && (low > high || low == high && !(lowIn && highIn)) {
		return r, true, nil
	}
	if low != token.Min && !lowIn {
		if low == token.Max {
			return r, true, nil
		}
		low++
	}
	switch {
	case high == token.Min:
		high = token.Max
	case !highIn:
		high--
	}
	if low > high {
		return r, true, nil
	}
	return token.Between(low, high), false, nil
}

func evalToken(t expr.Term, b *expr.Bindings) (token.Token, error) {
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == expr.Unset:
		return 0, dberr.Invalidf("Invalid unset value for column partition key token")
	case len(v) != 8:
		return 0, dberr.Invalidf("Invalid null token value")
	}
	return token.Token(binary.BigEndian.Uint64(v)), nil
}
