// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// opKind is the effect of an operation on a column.
type opKind uint8

const (
	setCell           opKind = iota // c = value for a single-cell column
	setCells                        // c = value for a multi-cell column
	addElements                     // c = c + value for a set or map
	removeElements                  // c = c - value for a set or map
	appendElements                  // c = c + value for a list
	prependElements                 // c = value + c
	setElement                      // c[key] = value for a map
	setField                        // c.field = value
	deleteColumn                    // DELETE c
	deleteElement                   // DELETE c[key] for a set or map
	deleteField                     // DELETE c.field
	addCounter                      // c = c + value
	subtractCounter                 // c = c - value
	setListElement                  // c[index] = value for a list
	discardElements                 // c = c - value for a list
	deleteListElement               // DELETE c[index] for a list
	addValue                        // c = c + value for a number or text
)

// readsRow reports whether the effect depends on the stored row.
func (k opKind) readsRow() bool { return k >= addCounter }

// operation is a change of one column.
type operation struct {
	kind   opKind
	column *schema.Column
	// key is the map key, set element, or list index. path is the encoded field of a user-defined type.
	key   expr.Term
	path  []byte
	value expr.Term
	// indexes holds the indexes on the column.
	indexes []*index
	// put is true for an append or prepend in a statement that also uses list indexes. The list indexes include the
	// added elements, so the leader must apply the operations in statement order.
	put bool
	// keyed reports whether the column is a key column of a materialized view.
	keyed bool
}

// addOperation adds an operation on a column.
func (p *Plan) addOperation(o operation) {
	for _, ix := range p.indexes {
		if ix.column == o.column {
			o.indexes = append(o.indexes, ix)
		}
	}
	p.ops = append(p.ops, o)
}

// touches reports whether the operations change static columns and regular columns.
func (p *Plan) touches() (static, regular bool) {
	for i := range p.ops {
		if p.ops[i].column.Kind == schema.Static {
			static = true
		} else {
			regular = true
		}
	}
	return static, regular
}

// bindSet binds c = value.
func bindSet(c *schema.Column, t parser.Term, env *expr.Env) (operation, error) {
	v, err := expr.Bind(t, expr.ForColumn(c), env)
	if err != nil {
		return operation{}, err
	}
	if c.Type.Kind == cqltype.Counter {
		return operation{}, dberr.Invalidf("Cannot set the value of counter column %s (counters can only be "+
			"incremented/decremented, not set)", c.Name)
	}
	return setOperation(c, v), nil
}

func setOperation(c *schema.Column, v expr.Term) operation {
	o := operation{kind: setCell, column: c, value: v}
	if c.Type.MultiCell() {
		o.kind = setCells
	}
	return o
}

// bindAssignment binds an assignment of UPDATE. conditional reports whether the UPDATE has an IF clause.
func bindAssignment(a *parser.Assignment, c *schema.Column, conditional bool, env *expr.Env) (operation, error) {
	value := expr.Text(a.Value)
	if t := c.Type; conditional && a.Kind == parser.AddTo && !t.IsCollection() && t.Kind != cqltype.Counter &&
		t.Kind != cqltype.Tuple {
		return bindAddValue(a, c, value, env)
	}
	switch a.Kind {
	case parser.AddTo:
		return bindAdd(a, c, c.Name+" = "+c.Name+" + "+value, env)
	case parser.SubtractFrom:
		return bindSubtract(a, c, c.Name+" = "+c.Name+" - "+value, env)
	case parser.Prepend:
		return bindPrepend(a, c, c.Name+" = "+value+" - "+c.Name, env) // Cassandra's text contains a minus sign
	case parser.SetElement:
		return bindSetElement(a, c, c.Name+"["+expr.Text(a.Key)+"] = "+value, env)
	case parser.SetField:
		return bindSetField(a, c, c.Name+"."+a.Field.Name+" = "+value, env)
	}
	return bindSet(c, a.Value, env)
}

func invalid(text, what string, c *schema.Column) error {
	return dberr.Invalidf("Invalid operation (%s) for %s column %s", text, what, c.Name)
}

// checkArithmetic rejects + and - on columns that are neither counters nor multi-cell collections.
func checkArithmetic(c *schema.Column, text string) error {
	t := c.Type
	switch {
	case t.IsCollection() && !t.MultiCell():
		return invalid(text, "frozen collection", c)
	case t.IsCollection() || t.Kind == cqltype.Counter:
		return nil
	case t.Kind == cqltype.Tuple:
		return invalid(text, "tuple", c)
	}
	return invalid(text, "non counter", c)
}

func bindAdd(a *parser.Assignment, c *schema.Column, text string, env *expr.Env) (o operation, err error) {
	if err := checkArithmetic(c, text); err != nil {
		return o, err
	}
	o = operation{kind: addElements, column: c}
	switch c.Type.Kind {
	case cqltype.Counter:
		o.kind = addCounter
	case cqltype.List:
		o.kind = appendElements
	}
	o.value, err = expr.Bind(a.Value, expr.ForColumn(c), env)
	if failed := (*dberr.FunctionFailure)(nil); err != nil && c.Type.Kind == cqltype.Map && !errors.As(err, &failed) {
		err = dberr.Invalidf("Value for a map addition has to be a map, but was: '%s'", expr.Text(a.Value))
	}
	return o, err
}

func bindSubtract(a *parser.Assignment, c *schema.Column, text string, env *expr.Env) (o operation, err error) {
	if err := checkArithmetic(c, text); err != nil {
		return o, err
	}
	o = operation{kind: removeElements, column: c}
	receiver := expr.ForColumn(c)
	switch c.Type.Kind {
	case cqltype.Counter:
		o.kind = subtractCounter
	case cqltype.List:
		o.kind = discardElements
	case cqltype.Map: // the operand is a set of keys
		receiver.Type = cqltype.SetOf(c.Type.Elems[0])
	}
	if o.value, err = expr.Bind(a.Value, receiver, env); err != nil && c.Type.Kind == cqltype.Map {
		err = dberr.Invalidf("Value for a map substraction has to be a set, but was: '%s'", expr.Text(a.Value))
	}
	return o, err
}

// bindAddValue binds c = c + value in a conditional UPDATE. A conditional UPDATE always reads the row.
func bindAddValue(a *parser.Assignment, c *schema.Column, value string, env *expr.Env) (o operation, err error) {
	if !c.Type.Kind.Sums() {
		return o, dberr.Invalidf("Invalid operation (%s = %s + %s) for non-numeric and non-text type %s", c.Name, c.Name,
			value, c.Name)
	}
	o = operation{kind: addValue, column: c}
	o.value, err = expr.Bind(a.Value, expr.ForColumn(c), env)
	return o, err
}

// checkAnalyzedAdd rejects an addition to a text column with an analyzed index. The leader creates the index entry but
// does not analyze texts.
func (o *operation) checkAnalyzedAdd() error {
	for _, ix := range o.indexes {
		if o.kind == addValue && ix.Analysis().Any() {
			return dberr.Invalidf("Column %[2]s has the analyzed index %[1]s: it can be set to a value but not appended to",
				ix.Name, o.column.Name)
		}
	}
	return nil
}

func bindPrepend(a *parser.Assignment, c *schema.Column, text string, env *expr.Env) (o operation, err error) {
	o = operation{kind: prependElements, column: c}
	if o.value, err = expr.Bind(a.Value, expr.ForColumn(c), env); err != nil {
		return o, err
	}
	if c.Type.Kind != cqltype.List {
		return o, invalid(text, "non list", c)
	}
	if !c.Type.MultiCell() {
		return o, invalid(text, "frozen list", c)
	}
	return o, nil
}

func bindSetElement(a *parser.Assignment, c *schema.Column, text string, env *expr.Env) (o operation, err error) {
	switch {
	case !c.Type.IsCollection():
		return o, invalid(text, "non collection", c)
	case !c.Type.MultiCell():
		return o, invalid(text, "frozen collection", c)
	case c.Type.Kind == cqltype.Set:
		return o, invalid(text, "set", c)
	}
	o = operation{kind: setElement, column: c}
	if c.Type.Kind == cqltype.List {
		o.kind = setListElement
	}
	receiver := expr.ForColumn(c)
	if o.key, err = expr.Bind(a.Key, receiver.Key(), env); err != nil {
		return o, err
	}
	o.value, err = expr.Bind(a.Value, receiver.Element(), env)
	return o, err
}

func bindSetField(a *parser.Assignment, c *schema.Column, text string, env *expr.Env) (o operation, err error) {
	switch {
	case c.Type.Kind != cqltype.UDT:
		return o, invalid(text, "non-UDT", c)
	case !c.Type.MultiCell():
		return o, invalid(text, "frozen UDT", c)
	}
	i := c.Type.FieldIndex(a.Field.Name)
	if i < 0 {
		return o, noField(c, a.Field)
	}
	o = operation{kind: setField, column: c, path: row.FieldPath(i)}
	o.value, err = expr.Bind(a.Value, expr.ForColumn(c).Field(i), env)
	return o, err
}

func noField(c *schema.Column, name parser.Ident) error {
	return dberr.Invalidf("UDT column %s does not have a field named %s", c.Name, name.Name)
}

// bindDeletion binds the target of a DELETE.
func bindDeletion(d *parser.DeleteTarget, c *schema.Column, env *expr.Env) (o operation, err error) {
	o = operation{kind: deleteColumn, column: c}
	switch {
	case d.Key != nil:
		if !c.Type.IsCollection() {
			return o, dberr.Invalidf("Invalid deletion operation for non collection column %s", c.Name)
		}
		if !c.Type.MultiCell() {
			return o, dberr.Invalidf("Invalid deletion operation for frozen collection column %s", c.Name)
		}
		o.kind = deleteElement
		if c.Type.Kind == cqltype.List {
			o.kind = deleteListElement
		}
		o.key, err = expr.Bind(d.Key, expr.ForColumn(c).Key(), env)
	case d.Field.Name != "":
		if c.Type.Kind != cqltype.UDT {
			return o, dberr.Invalidf("Invalid field deletion operation for non-UDT column %s", c.Name)
		}
		if !c.Type.MultiCell() {
			return o, dberr.Invalidf("Frozen UDT column %s does not support field deletions", c.Name)
		}
		i := c.Type.FieldIndex(d.Field.Name)
		if i < 0 {
			return o, noField(c, d.Field)
		}
		o.kind, o.path = deleteField, row.FieldPath(i)
	}
	return o, err
}
