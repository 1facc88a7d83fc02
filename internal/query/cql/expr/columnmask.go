// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// defaultMask is the function that MASKED WITH DEFAULT uses.
const defaultMask = "mask_default"

// Mask is a bound column mask. It is immutable.
type Mask struct {
	fn *function
	// args holds the values of all arguments except the first argument. The first argument is the value that is masked.
	args [][]byte
	// err is the reason why the mask cannot be applied, or nil.
	err error
}

// MaskOf binds the mask of a masked column in the environment's table. If the mask cannot be bound, every call of Apply
// returns the error. Therefore, the unmasked value is never visible.
func MaskOf(c *schema.Column, env *Env) *Mask {
	m := &Mask{args: c.Mask.Values}
	m.fn, m.err = env.maskFunction(c)
	return m
}

func (e *Env) maskFunction(c *schema.Column) (*function, error) {
	m, ks := c.Mask, e.Keyspace
	types := []*cqltype.Type{c.Type}
	for _, spec := range m.Types {
		t, err := spec.Bind(ks.Name, ks.Types)
		if err != nil {
			return nil, err
		}
		types = append(types, t)
	}
	if m.Keyspace == schema.NativeMasks {
		if f := factories[m.Function]; f != nil && f.required <= len(types) && len(types) <= len(f.params) {
			return f.build(f.name, types)
		}
	} else if f := ks.MaskFunction(m, c.Type); f != nil && e.Functions != nil {
		e.calls.mask(f)
		return e.invoked(&function{nulls: f.Nulls, user: f})
	}
	return nil, dberr.Invalidf("Unable to find masking function for %s, no declared function matches the signature %s",
		c.Name, MaskText(m, ks))
}

// Apply returns the masked form of a value. A nil value represents null.
func (m *Mask) Apply(v []byte, by *meter.Meter) ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	var room [4][]byte
	args := append(append(room[:0], v), m.args...)
	if !m.fn.nulls && slices.ContainsFunc(args, func(a []byte) bool { return a == nil }) {
		return nil, nil
	}
	b := &Bindings{Meter: by}
	if err := m.fn.charge(b, args); err != nil {
		return nil, err
	}
	return m.fn.call(b, args)
}

// Masks holds the bound masks of a table's columns. For a table without masks, Masks is nil.
type Masks map[*schema.Column]*Mask

// MasksOf binds the masks of all columns of the environment's table.
func MasksOf(env *Env) Masks {
	if !env.Table.Masked() {
		return nil
	}
	masks := Masks{}
	for c := range env.Table.Columns() {
		if c.Mask != nil {
			masks[c] = MaskOf(c, env)
		}
	}
	return masks
}

// MaskText returns a mask in the notation of DESCRIBE, such as system.mask_inner(1, null).
func MaskText(m *schema.Mask, ks *schema.Keyspace) string {
	args := make([]string, len(m.Values))
	for i, v := range m.Values {
		args[i] = cqltype.Native(cqltype.Blob).Format(v)
		if t, err := m.Types[i].Bind(ks.Name, ks.Types); err == nil {
			args[i] = t.Format(v)
		}
	}
	return cqltype.QuoteName(m.Keyspace) + "." + cqltype.QuoteName(m.Function) + "(" + strings.Join(args, ", ") + ")"
}

// maskedColumn is the scope of a mask. It contains only the masked column. The type's name is used as the column's
// name.
type maskedColumn struct{ typ *cqltype.Type }

// Column implements Scope.
func (m maskedColumn) Column(parser.Ident) (int, *cqltype.Type, error) { return 0, m.typ, nil }

// CellMeta implements Scope.
func (m maskedColumn) CellMeta(parser.CellMetaKind, parser.Ident) (int, *cqltype.Type, error) {
	return 0, nil, dberr.Invalidf("Invalid argument of a masking function")
}

// CellMetas implements Scope.
func (m maskedColumn) CellMetas(parser.CellMetaKind, parser.Ident) (CellMetas, error) {
	return CellMetas{}, dberr.Invalidf("Invalid argument of a masking function")
}

// BindMask binds MASKED WITH for a column of a table. Errors are *dberr.Invalid with Cassandra's error texts.
func BindMask(m *parser.Mask, table, column string, t *cqltype.Type, env *Env) (*schema.MaskSpec, error) {
	name := m.Function
	if name.Name.Name == "" {
		name.Name.Name = defaultMask
	}
	text := (&printer{}).functionName(&parser.FunctionCall{Name: name}) + "(" + (&printer{}).list(m.Args) + ")"
	if containsMarker(m.Args...) {
		return nil, dberr.Invalidf("Bind variables are not supported in the mask of column %s: %s", column, text)
	}
	if name.Name.Name == "token" && (!name.HasKeyspace() || name.Keyspace.Name == schema.NativeMasks) {
		return nil, dberr.Invalidf("The receiver table %s.%s specified by call to function system.token hasn't been found",
			env.keyspaceName(), table)
	}
	value := &parser.Column{Name: parser.Ident{Name: t.JavaClass()}}
	call := &parser.FunctionCall{Name: name, Args: append([]parser.Term{value}, m.Args...)}
	f, err := (&inference{env: env, scope: maskedColumn{t}}).resolveCall(call, t)
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return nil, dberr.Invalidf("Unable to find masking function for %s, no declared function matches the signature %s",
			column, text)
	case f.state != nil:
		return nil, dberr.Invalidf("Aggregate function %s cannot be used for masking table columns", text)
	case f.user == nil && !strings.HasPrefix(f.name, "mask_"):
		return nil, dberr.Invalidf("Not-masking function %s cannot be used for masking table columns", text)
	case f.user != nil && f.user.Keyspace != env.Keyspace.Name:
		return nil, dberr.Invalidf("Masking function %s doesn't belong to the same keyspace as the table %s.%s", text,
			env.keyspaceName(), table)
	case !f.result.Equal(t):
		return nil, dberr.Invalidf("Masking function %s return type is %s. This is different to the type of the masked "+
			"column %s of type %s. Masking functions can only be attached to table columns if they return the same data "+
			"type as the masked column.", text, f.result, column, t)
	}
	out := &schema.MaskSpec{Column: schema.SpecOf(t)}
	out.Keyspace, out.Function = schema.NativeMasks, f.name
	if f.user != nil {
		if !sameValues(f.args[0], t) {
			return nil, dberr.Invalidf("Masking function %s takes %s, and column %s is of type %s: a masking function must "+
				"accept the type of the column", text, f.args[0], column, t)
		}
		out.Keyspace = f.user.Keyspace
	}
	terms, err := (&binder{inference: inference{env: env}}).bindAll(m.Args, func(i int) Receiver {
		return Receiver{Name: "arg" + itoa(i+1) + "(" + f.qualified() + ")", Type: f.args[i+1]}
	})
	if err != nil {
		return nil, err
	}
	for i, term := range terms {
		v, _, err := term.Eval(&Bindings{})
		if err != nil {
			return nil, err
		}
		out.Types, out.Values = append(out.Types, schema.SpecOf(f.args[i+1])), append(out.Values, v)
	}
	return out, nil
}
