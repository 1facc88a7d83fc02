// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"
)

// ComputedMax is the maximum number of computed properties of a container.
const ComputedMax = 20

// Computed holds the computed properties of a container. A computed property is a property at the top level of each
// item whose value is the result of a query over the item. Items do not store it. A query that names the property gets
// the computed value, even if items have a property with this name. SELECT * returns no computed properties. A nil
// *Computed has no properties.
type Computed struct {
	properties map[string]computedProperty
	text       []byte
}

// computedProperty is the definition of a computed property: SELECT VALUE expression FROM alias.
type computedProperty struct {
	alias string
	expr  Expr
	text  string
}

// Add adds a property. It returns an error if the name exists or the query does not satisfy the rules of Cosmos DB: it
// has the form SELECT VALUE expression FROM alias, and the expression is deterministic and uses only one item. It can
// contain neither subqueries, aggregates, spatial functions, parameters, nor user-defined functions. Errors of the
// query are of type *Error.
func (c *Computed) Add(name, query string) error {
	s, err := Parse(query)
	if err != nil {
		return err
	}
	p := computedProperty{text: query}
	var whole bool
	if p.alias, whole = (&Query{tree: s}).container(); !whole || len(s.From) != 1 || !s.Value || !simple(s) ||
		s.Where != nil || s.Limit != nil {
		return failure(query, s.span, codeBound, "The query of a computed property must have the form "+
			"SELECT VALUE expression FROM c.")
	}
	p.expr = s.Items[0].Expr
	walk(p.expr, func(e Expr) bool {
		switch e := e.(type) {
		case *Subquery:
			err = failure(query, e.span, codeBound, "The query of a computed property cannot contain a subquery.")
		case *Placeholder:
			err = failure(query, e.span, codeBound, "The query of a computed property cannot contain a parameter.")
		case *Call:
			if e.UDF || builtins[strings.ToUpper(e.Name)].volatile || isSpatial(strings.ToUpper(e.Name)) {
				err = failure(query, e.span, codeBound, "The query of a computed property cannot call '%s', because the result of the "+
					"function can change.", e.Name)
			}
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if _, err := Compile(query, nil); err != nil {
		return err
	}
	if c.Has(name) {
		return failure(query, s.span, codeIdentifier, "The computed property '%s' is defined more than once.", name)
	}
	if c.properties == nil {
		c.properties = map[string]computedProperty{}
	}
	c.properties[name] = p
	c.text = append(append(append(c.text, name...), 0), query...)
	c.text = append(c.text, 0)
	return nil
}

// Has reports whether a name is a computed property.
func (c *Computed) Has(name string) bool {
	if c == nil {
		return false
	}
	_, ok := c.properties[name]
	return ok
}

// Len returns the number of computed properties.
func (c *Computed) Len() int {
	if c == nil {
		return 0
	}
	return len(c.properties)
}

// Text returns a text that is equal for equal definitions in the same order. It is empty without properties.
func (c *Computed) Text() []byte {
	if c == nil {
		return nil
	}
	return c.text
}

// computedProperty binds the property name of an item if it is computed.
func (b *binder) computedProperty(item node, name string) (n node, ok bool, err error) {
	if !b.computed.Has(name) {
		return nil, false, nil
	}
	p := b.computed.properties[name]
	outer, text, computed := b.scope, b.text, b.computed
	b.scope, b.text, b.computed = &scope{slots: map[string]int{}, items: true}, p.text, nil
	if s, isSlot := item.(slotNode); isSlot {
		b.scope.slots[p.alias] = s.slot
	}
	n, err = b.expr(p.expr)
	b.scope, b.text, b.computed = outer, text, computed
	return n, true, err
}
