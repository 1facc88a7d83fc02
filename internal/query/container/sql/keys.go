// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Key is a partition key for which the WHERE clause of a query allows results.
type Key struct {
	// Components contains the values of all partition key paths, or of the first paths. Undefined matches items
	// without the property.
	Components []document.Value
	// ID is the ID of the item if HasID is set.
	ID    string
	HasID bool
}

// keysMax is the maximum number of keys. A query with more keys reads all items.
const keysMax = 1000

// pins maps the text of a property path to the value that the property must have.
type pins map[string]document.Value

// Keys returns the keys of the items that can satisfy the WHERE clause. ok is false if the WHERE clause does not
// restrict the first partition key path, so that all items must be read. If ok is true and keys is empty, no item can
// match.
func (q *Query) Keys(paths []document.Path) (keys []Key, ok bool) {
	root, found := q.container()
	if !found || q.tree.Where == nil || len(paths) == 0 {
		return nil, false
	}
	a := &analysis{root: root, parameters: q.parameters, schema: q.schema}
	all := a.pins(q.tree.Where)
	if all == nil {
		return nil, false
	}
	seen := map[string]bool{}
	for _, p := range all {
		var k Key
		text := []byte{}
		for _, path := range paths {
			v, ok := p[pathKey(path)]
			if !ok {
				break
			}
			if v.Kind() >= document.Array {
				v = document.Value{}
			}
			k.Components = append(k.Components, v)
			text = append(appendKey(text, v), 0)
		}
		if len(k.Components) == 0 {
			return nil, false
		}
		if id, ok := p[pathKey(document.Path{"id"})]; ok {
			k.ID, k.HasID = id.Str(), id.Kind() == document.String
			text = append(document.AppendString(text, k.ID), 0)
		}
		if !seen[string(text)] {
			seen[string(text)] = true
			keys = append(keys, k)
		}
	}
	return keys, true
}

// container returns the name of the first input if this input is the whole item.
func (q *Query) container() (name string, ok bool) {
	if len(q.tree.From) == 0 || q.tree.From[0].Each {
		return "", false
	}
	in := q.tree.From[0]
	n, ok := in.Of.(*Name)
	if !ok {
		return "", false
	}
	if in.Alias != "" {
		return in.Alias, true
	}
	return n.Name, true
}

func pathKey(p document.Path) string { return p.String() }

// analysis analyzes conditions on properties of the item.
type analysis struct {
	root       string
	parameters map[string]document.Value
	schema     *Schema
	// aliases maps each input name to the part of the item to which it refers.
	aliases map[string][]document.Step
	// binder evaluates constants.
	binder *binder
}

// path returns the path of an expression that is a stored property of the item.
func (a *analysis) path(e Expr) (document.Path, bool) {
	var names document.Path
	for {
		switch x := e.(type) {
		case *Member:
			names = append(names, x.Name)
			e = x.Of
			continue
		case *Name:
			if x.Name != a.root || len(names) == 0 || a.schema.IsComputed(names[len(names)-1]) {
				return nil, false
			}
			for i, j := 0, len(names)-1; i < j; i, j = i+1, j-1 {
				names[i], names[j] = names[j], names[i]
			}
			return names, true
		}
		return nil, false
	}
}

// constant evaluates an expression without inputs.
func (a *analysis) constant(e Expr) (document.Value, bool) {
	switch x := e.(type) {
	case *Literal:
		return x.Value, true
	case *Name, *Member:
		if baseOf(x) != "" {
			return document.Value{}, false
		}
	}
	if a.binder == nil {
		a.binder = &binder{parameters: a.parameters}
	}
	n, err := a.binder.expr(e)
	if err != nil {
		return document.Value{}, false
	}
	c, ok := n.(constNode)
	return c.value, ok
}

// pins returns alternatives of required values. If e is true, at least one alternative is satisfied. pins returns nil
// if e requires no values.
func (a *analysis) pins(e Expr) []pins {
	switch x := e.(type) {
	case *Binary:
		switch x.Op {
		case "AND":
			return both(a.pins(x.X), a.pins(x.Y))
		case "OR":
			l, r := a.pins(x.X), a.pins(x.Y)
			if l == nil || r == nil || len(l)+len(r) > keysMax {
				return nil
			}
			return append(l[:len(l):len(l)], r...)
		case "=":
			for _, side := range [][2]Expr{{x.X, x.Y}, {x.Y, x.X}} {
				path, ok1 := a.path(side[0])
				v, ok2 := a.constant(side[1])
				if ok1 && ok2 {
					return one(path, v)
				}
			}
		}
	case *In:
		path, ok := a.path(x.X)
		if !ok || x.Not || len(x.List) > keysMax {
			return nil
		}
		out := []pins{}
		for _, y := range x.List {
			v, ok := a.constant(y)
			if !ok {
				return nil
			}
			out = append(out, one(path, v)...)
		}
		return out
	case *Call:
		if path, ok := a.onlyArgument(x, "IS_NULL"); ok {
			return []pins{{pathKey(path): document.NullValue}}
		}
	case *Unary:
		c, ok := x.X.(*Call)
		if !ok || x.Op != "NOT" {
			return nil
		}
		if path, ok := a.onlyArgument(c, "IS_DEFINED"); ok {
			return []pins{{pathKey(path): document.Value{}}}
		}
	}
	return nil
}

func (a *analysis) onlyArgument(c *Call, name string) (document.Path, bool) {
	if c.UDF || len(c.Args) != 1 || !strings.EqualFold(c.Name, name) {
		return nil, false
	}
	return a.path(c.Args[0])
}

// one returns the requirement that a property has the given value. No property value equals Undefined.
func one(path document.Path, v document.Value) []pins {
	if !v.IsDefined() {
		return []pins{}
	}
	return []pins{{pathKey(path): v}}
}

// both combines two requirements and omits contradictory alternatives.
func both(l, r []pins) []pins {
	switch {
	case l == nil:
		return r
	case r == nil:
		return l
	case len(l)*len(r) > keysMax:
		return l
	}
	out := []pins{}
	for _, x := range l {
	next:
		for _, y := range r {
			p := make(pins, len(x)+len(y))
			for k, v := range x {
				p[k] = v
			}
			for k, v := range y {
				if old, ok := p[k]; ok && !document.Equal(old, v) {
					continue next
				}
				p[k] = v
			}
			out = append(out, p)
		}
	}
	return out
}
