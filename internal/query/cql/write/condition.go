// SPDX-License-Identifier: Apache-2.0

package write

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// condition is one condition of an IF clause. It applies to a column, or to an element or field of a column.
type condition struct {
	column   *schema.Column
	operator command.Operator
	text     string // operator text
	element  expr.Term
	field    []byte // field index in wire format
	values   []expr.Term
	list     expr.Term // the list of IN ?
	// emptyIsNull reports whether an empty value is equal to null. It is true for multi-cell collections, because an
	// empty multi-cell collection has no cells.
	emptyIsNull bool
}

var operators = map[parser.Operator]command.Operator{
	parser.Equal: command.Equal, parser.NotEqual: command.NotEqual, parser.Less: command.Less,
	parser.LessEqual: command.LessOrEqual,
	parser.Greater:   command.Greater, parser.GreaterEqual: command.GreaterOrEqual, parser.In: command.In,
	parser.Contains: command.Contains, parser.ContainsKey: command.ContainsKey,
}

func (p *Plan) checkConditionalTimestamp() error {
	if p.using.timestamp != nil {
		return dberr.Invalidf("Cannot provide custom timestamp for conditional updates")
	}
	return nil
}

// bindIf binds the IF clause of UPDATE and DELETE.
func (p *Plan) bindIf(ifExists bool, conditions []parser.Condition, env *expr.Env) error {
	if !ifExists && len(conditions) == 0 {
		return nil
	}
	p.conditional = true
	if err := p.checkConditionalTimestamp(); err != nil {
		return err
	}
	if ifExists {
		p.exists = mustExist
		return nil
	}
	for i := range conditions {
		c, err := expr.FindColumn(p.table, conditions[i].Column)
		if err != nil {
			return err
		}
		bound, err := bindCondition(&conditions[i], c, env)
		if err != nil {
			return err
		}
		if c.Kind <= schema.Clustering {
			return dberr.Invalidf("PRIMARY KEY column '%s' cannot have IF conditions", c.Name)
		}
		p.conditions = append(p.conditions, bound)
	}
	return nil
}

func bindCondition(s *parser.Condition, c *schema.Column, env *expr.Env) (b condition, err error) {
	if c.Type.Kind == cqltype.Counter {
		return b, dberr.Invalidf("Conditions on counters are not supported")
	}
	operator, ok := operators[s.Op]
	if !ok {
		return b, dberr.Invalidf("%s is not supported in conditions", s.Op)
	}
	b = condition{column: c, operator: operator, text: s.Op.String()}
	receiver := expr.ForColumn(c)
	switch {
	case s.Key != nil:
		if !c.Type.IsCollection() {
			return b, dberr.Invalidf("Invalid element access syntax for non-collection column %s", c.Name)
		}
		if c.Type.Kind == cqltype.Set {
			return b, dberr.Invalidf("Invalid element access syntax for set column %s", c.Name)
		}
		if b.element, err = expr.Bind(s.Key, receiver.Key(), env); err != nil {
			return b, err
		}
		receiver = receiver.Element()
	case s.Field.Name != "":
		if c.Type.Kind != cqltype.UDT {
			return b, dberr.Invalidf("Invalid field access syntax for non-UDT column %s", c.Name)
		}
		i := c.Type.FieldIndex(s.Field.Name)
		if i < 0 {
			return b, dberr.Invalidf("Unknown field %s for column %s", s.Field.Name, c.Name)
		}
		b.field, _ = cqltype.Native(cqltype.Smallint).Kind.FromInt64(int64(i))
		receiver = receiver.Field(i)
	case s.Op == parser.Contains:
		if !c.Type.IsCollection() {
			return b, dberr.Invalidf("Cannot use CONTAINS on non-collection column %s", c.Name)
		}
		receiver = receiver.Element()
	case s.Op == parser.ContainsKey:
		if c.Type.Kind != cqltype.Map {
			return b, dberr.Invalidf("Cannot use CONTAINS KEY on non-map column %s", c.Name)
		}
		receiver = receiver.Key()
	default:
		b.emptyIsNull = c.Type.MultiCell() && c.Type.IsCollection()
	}
	if err := checkDuration(receiver.Type, operator); err != nil {
		return b, err
	}
	return b, b.bindValues(s, receiver, env)
}

// checkDuration rejects comparisons such as < of values that contain durations, because durations have no order.
func checkDuration(t *cqltype.Type, o command.Operator) error {
	if !ordering(o) || !t.Contains(cqltype.Duration) {
		return nil
	}
	switch {
	case t.IsCollection():
		return dberr.Invalidf("Slice conditions are not supported on collections containing durations")
	case t.Kind == cqltype.Tuple:
		return dberr.Invalidf("Slice conditions are not supported on tuples containing durations")
	case t.Kind == cqltype.UDT:
		return dberr.Invalidf("Slice conditions are not supported on UDTs containing durations")
	}
	return dberr.Invalidf("Slice conditions are not supported on durations")
}

func ordering(o command.Operator) bool {
	return o == command.Less || o == command.LessOrEqual || o == command.Greater || o == command.GreaterOrEqual
}

func contains(o command.Operator) bool { return o == command.Contains || o == command.ContainsKey }

func (b *condition) bindValues(s *parser.Condition, r expr.Receiver, env *expr.Env) (err error) {
	if s.Op == parser.In && s.Values == nil {
		b.list, err = expr.Bind(s.Value, r.Values(), env)
		return err
	}
	terms := s.Values
	if s.Op != parser.In {
		terms = []parser.Term{s.Value}
	}
	for _, t := range terms {
		v, err := expr.Bind(t, r, env)
		if err != nil {
			return err
		}
		b.values = append(b.values, v)
	}
	return nil
}

// eval returns the condition for row n of the command. The result does not refer to the memory of the request.
func (b *condition) eval(n int, values *expr.Bindings) (command.Condition, error) {
	c := command.Condition{Row: n, Operator: b.operator, Column: b.column.ID, Type: b.column.Type, Element: b.field}
	if b.element != nil {
		e, known, err := b.evalElement(values)
		if err != nil {
			return c, err
		}
		if c.Element = e; !known {
			c.Operator = command.In // an IN with an empty list is never satisfied
			return c, nil
		}
	}
	if b.list != nil {
		list, state, err := b.list.Eval(values)
		switch {
		case err != nil:
			return c, err
		case state == expr.Null:
			return c, dberr.Invalidf("Invalid null list in IN condition")
		case state == expr.Unset:
			return c, dberr.Invalidf("Invalid 'unset' value in condition")
		}
		element := b.list.Type().Elems[0]
		for _, v := range b.list.Type().Elements(list) {
			if len(v) == 0 && !hasEmptyValue(element) {
				v = nil
			}
			c.Values = append(c.Values, b.operand(v))
		}
		return c, nil
	}
	for _, t := range b.values {
		v, state, err := t.Eval(values)
		switch {
		case err != nil:
			return c, err
		case state == expr.Unset && (contains(b.operator) || b.operator == command.In):
			continue // a CONTAINS is never satisfied, and an IN ignores the value
		case state == expr.Unset:
			return c, dberr.Invalidf("Invalid 'unset' value in condition")
		case state == expr.Null && (ordering(b.operator) || contains(b.operator)):
			return c, dberr.Invalidf("Invalid comparison with null for operator \"%s\"", b.text)
		case ordering(b.operator) && b.emptyIsNull && b.column.Type.Count(v) == 0:
			kind, _, _ := strings.Cut(b.column.Type.String(), "<")
			return c, dberr.Invalidf("Invalid comparison with an empty %s for operator \"%s\"", kind, b.text)
		}
		c.Values = append(c.Values, b.operand(v))
	}
	return c, nil
}

// operand copies a value. A nil value remains nil.
func (b *condition) operand(v []byte) []byte {
	if v == nil || b.emptyIsNull && b.column.Type.Count(v) == 0 {
		return nil
	}
	return append([]byte{}, v...)
}

// hasEmptyValue reports whether a type has an empty value. For other types, Cassandra treats an empty element in the
// list of IN ? as null.
func hasEmptyValue(t *cqltype.Type) bool {
	return !t.Kind.IsNative() || t.Kind == cqltype.Text || t.Kind == cqltype.Ascii || t.Kind == cqltype.Blob
}

// evalElement returns the key or the index of the element. If a map key is unset, known is false. As in Cassandra, a
// condition with an unset map key is not satisfied.
func (b *condition) evalElement(values *expr.Bindings) (element []byte, known bool, err error) {
	kind := "map"
	if b.column.Type.Kind == cqltype.List {
		kind = "list"
	}
	v, state, err := b.element.Eval(values)
	switch {
	case err != nil:
		return nil, false, err
	case state == expr.Null:
		return nil, false, dberr.Invalidf("Invalid null value for %s element access", kind)
	case state == expr.Unset && kind == "map":
		return nil, false, nil
	case state == expr.Unset:
		return nil, false, dberr.Invalidf("Invalid unset value for %s element access", kind)
	}
	if kind == "list" {
		if len(v) != 4 {
			return nil, false, dberr.Invalidf("Invalid null value for list element access")
		}
		if i := int32(binary.BigEndian.Uint32(v)); i < 0 {
			return nil, false, dberr.Invalidf("Invalid negative list index %d", i)
		}
	}
	return append([]byte{}, v...), true, nil
}

// conditionColumns returns the result columns if the conditions of a plan are not satisfied. For IF EXISTS and IF NOT
// EXISTS, it returns all columns. Otherwise, it returns the regular columns and then the static columns of the
// conditions.
func (p *Plan) conditionColumns() []*schema.Column {
	if p.exists != mayExist {
		return allColumns(p.table)
	}
	var out []*schema.Column
	for _, static := range []bool{false, true} {
		for i := range p.conditions {
			c := p.conditions[i].column
			if (c.Kind == schema.Static) == static && !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// allColumns returns all columns in the order of SELECT *.
func allColumns(t *schema.Table) []*schema.Column {
	return slices.Concat(t.PartitionKey, t.Clustering, t.Statics, t.Regulars)
}

// resultColumns describes the result of a conditional statement.
type resultColumns struct {
	// notApplied holds the columns that follow [applied] if the conditions are not satisfied.
	notApplied []*schema.Column
	// applied contains only the column [applied]. found contains [applied] and the columns of notApplied.
	applied, found []Column
	// masks holds the masks of the columns that the result may show.
	masks expr.Masks
}

// finishResult sets the columns of a conditional result.
func (p *Plan) finishResult() {
	if !p.conditional {
		return
	}
	p.result.notApplied = p.conditionColumns()
	p.result.applied = appliedColumns(p.table, nil)
	p.result.found = appliedColumns(p.table, p.result.notApplied)
}

// appliedColumns returns the column [applied] followed by columns.
func appliedColumns(t *schema.Table, columns []*schema.Column) []Column {
	out := []Column{{Keyspace: t.Keyspace, Table: t.Name, Name: "[applied]", Type: cqltype.Native(cqltype.Boolean)}}
	for _, c := range columns {
		out = append(out, Column{Keyspace: t.Keyspace, Table: t.Name, Name: c.Name, Type: c.Type})
	}
	return out
}

// RestrictedMasks returns the names of the masked columns in the conditions of a plan. The order is the table order.
// The outcome of a condition can reveal the values of the column.
func (p *Plan) RestrictedMasks() (names []string) {
	for c := range p.table.Columns() {
		if c.Mask != nil && slices.ContainsFunc(p.conditions, func(b condition) bool { return b.column == c }) {
			names = append(names, c.Name)
		}
	}
	return names
}
