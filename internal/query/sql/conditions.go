// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Condition is a part of WHERE that has to hold for every result, of a form that an index of the property can serve.
type Condition struct {
	Path document.Path
	// Op is =, <, <=, >, >=, IN, STARTSWITH or IS_DEFINED.
	Op     string
	Values []document.Value // several with IN, none with IS_DEFINED
}

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// Conditions returns the conditions on properties of the item that all have to hold. An item that one does not hold for
// has no result; one that all hold for may have none all the same.
func (q *Query) Conditions() []Condition {
	root, ok := q.container()
	if !ok || q.tree.Where == nil {
		return nil
	}
	a := &analysis{root, q.parameters}
	return a.conditions(nil, q.tree.Where)
}

func (a *analysis) conditions(out []Condition, e Expr) []Condition {
	switch x := e.(type) {
	case *Binary:
		if x.Op == "AND" {
			return a.conditions(a.conditions(out, x.X), x.Y)
		}
		op, ok := mirrored[x.Op]
		if !ok {
			return out
		}
		for _, side := range []struct {
			x, y Expr
			op   string
		}{{x.X, x.Y, x.Op}, {x.Y, x.X, op}} {
			path, ok1 := a.path(side.x)
			v, ok2 := a.constant(side.y)
			if ok1 && ok2 {
				return append(out, Condition{path, side.op, []document.Value{v}})
			}
		}
	case *Between:
		path, ok := a.path(x.X)
		low, ok1 := a.constant(x.Low)
		high, ok2 := a.constant(x.High)
		if ok && ok1 && ok2 && !x.Not {
			out = append(out, Condition{path, ">=", []document.Value{low}}, Condition{path, "<=",
				[]document.Value{high}})
		}
	case *In:
		path, ok := a.path(x.X)
		if !ok || x.Not {
			return out
		}
		c := Condition{Path: path, Op: "IN"}
		for _, y := range x.List {
			v, ok := a.constant(y)
			if !ok {
				return out
			}
			c.Values = append(c.Values, v)
		}
		out = append(out, c)
	case *Call:
		out = a.callCondition(out, x)
	}
	return out
}

func (a *analysis) callCondition(out []Condition, x *Call) []Condition {
	if path, ok := a.onlyArgument(x, "IS_DEFINED"); ok {
		return append(out, Condition{Path: path, Op: "IS_DEFINED"})
	}
	if x.UDF || len(x.Args) != 2 || !strings.EqualFold(x.Name, "STARTSWITH") {
		return out
	}
	path, ok1 := a.path(x.Args[0])
	v, ok2 := a.constant(x.Args[1])
	if ok1 && ok2 && v.Kind() == document.String {
		out = append(out, Condition{path, "STARTSWITH", []document.Value{v}})
	}
	return out
}
