// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// binder converts expressions to nodes. It resolves names, substitutes parameters, and folds constants.
type binder struct {
	text       string
	parameters map[string]document.Value
	schema     *Schema
	slots      int
	scope      *scope
	// roots holds the slots that contain the whole item. whole counts the expressions that use an item as a whole.
	// system reports whether the query uses a system property. calls reports whether the query calls user-defined
	// functions.
	roots         map[int]bool
	whole         int
	system, calls bool
	// meter limits the evaluation of constants.
	meter *meter.Meter
}

// scope contains the inputs of a query. Its parent is the scope of the enclosing query.
type scope struct {
	outer *scope
	slots map[string]int
	// groups is not nil if the expressions are evaluated once per group. In this case, only groups and aggregates have
	// values.
	groups *grouping
	// items reports whether names that are not inputs refer to the container. items is set for the FROM clause of the
	// outermost query.
	items bool
}

// grouping contains the groups and aggregates of a query.
type grouping struct {
	slots      map[string]int // The key is the text of the GROUP BY expression.
	aggregates []boundAggregate
}

type boundAggregate struct {
	kind aggregateKind
	arg  node
	slot int
}

func (b *binder) slot() int {
	b.slots++
	return b.slots - 1
}

func (b *binder) fail(at span, code, format string, args ...any) error {
	return failure(b.text, at, code, format, args...)
}

// These are limits of constant folding. Constants are evaluated when a query is bound, with up to constantBytes of
// memory and constantSteps of work for the whole query. Constants beyond these limits are evaluated on demand.
const (
	constantBytes = 4 << 20
	constantSteps = 1 << 20
)

// fold evaluates a node with constant operands.
func (b *binder) fold(n node, operands ...node) node {
	for _, o := range operands {
		if _, ok := o.(constNode); !ok {
			return n
		}
	}
	if b.meter == nil {
		b.meter = meter.New(context.Background(), meter.Limits{Bytes: constantBytes, Steps: constantSteps})
	}
	if b.meter.Err() != nil {
		return n
	}
	e := &env{now: time.Time{}, meter: b.meter}
	v := n.eval(e)
	if e.err != nil {
		return n
	}
	return constNode{v}
}

func (b *binder) all(list []Expr) ([]node, error) {
	out := make([]node, len(list))
	shared := map[*Literal]node{} // see parser.list
	for i, x := range list {
		l, constant := x.(*Literal)
		if n := shared[l]; constant && n != nil {
			out[i] = n
			continue
		}
		n, err := b.expr(x)
		if err != nil {
			return nil, err
		}
		if out[i] = n; constant && len(list) > sharedMin {
			shared[l] = n
		}
	}
	return out, nil
}

func (b *binder) expr(x Expr) (node, error) {
	if s := b.scope; s != nil && s.groups != nil {
		if slot, ok := s.groups.slots[string(x.appendTo(nil))]; ok {
			return slotNode{slot}, nil
		}
	}
	switch x := x.(type) {
	case *Literal:
		return constNode{x.Value}, nil
	case *Placeholder:
		v, ok := b.parameters[x.Name]
		if !ok {
			return nil, b.fail(x.span, codeParameter, "The parameter '%s' has no value. Send a value with the query.",
				x.Name)
		}
		return constNode{v}, nil
	case *Name:
		return b.name(x)
	case *Member:
		return b.member(x)
	case *Index:
		if m, ok := b.namedMember(x); ok {
			return b.member(m)
		}
		n, err := b.all([]Expr{x.Of, x.At})
		if err != nil {
			return nil, err
		}
		return b.fold(&indexNode{n[0], n[1]}, n...), nil
	case *Unary:
		n, err := b.expr(x.X)
		if err != nil {
			return nil, err
		}
		return b.fold(newUnary(x.Op, n), n), nil
	case *Binary:
		n, err := b.all([]Expr{x.X, x.Y})
		if err != nil {
			return nil, err
		}
		return b.fold(newBinary(x.Op, n[0], n[1]), n...), nil
	case *Ternary:
		n, err := b.all([]Expr{x.If, x.Then, x.Else})
		if err != nil {
			return nil, err
		}
		return b.fold(&ternaryNode{n[0], n[1], n[2]}, n...), nil
	case *Call:
		return b.call(x)
	case *Subquery:
		return b.subquery(x)
	}
	return b.compound(x)
}

// compound binds expressions that contain lists of expressions.
func (b *binder) compound(x Expr) (node, error) {
	switch x := x.(type) {
	case *In:
		of, err := b.expr(x.X)
		if err != nil {
			return nil, err
		}
		list := make([]node, len(x.List)) // the list has no repeated constants, so b.all is not necessary
		for i, e := range x.List {
			if list[i], err = b.expr(e); err != nil {
				return nil, err
			}
		}
		if _, constant := of.(constNode); !constant {
			return newIn(of, list, x.Not), nil
		}
		return b.fold(newIn(of, list, x.Not), list...), nil
	case *Between:
		n, err := b.all([]Expr{x.X, x.Low, x.High})
		if err != nil {
			return nil, err
		}
		return b.fold(&betweenNode{n[0], n[1], n[2], x.Not}, n...), nil
	case *Like:
		return b.like(x)
	case *ObjectExpr:
		o := &objectNode{}
		for _, m := range x.Members {
			n, err := b.expr(m.Expr)
			if err != nil {
				return nil, err
			}
			o.names, o.values = append(o.names, m.Name), append(o.values, n)
		}
		return b.fold(o, o.values...), nil
	case *ArrayExpr:
		list, err := b.all(x.Elements)
		if err != nil {
			return nil, err
		}
		return b.fold(&arrayNode{list}, list...), nil
	}
	return nil, b.fail(x.at(), codeSyntax, "Syntax error, this expression is not allowed here.")
}

func (b *binder) like(x *Like) (node, error) {
	n, err := b.all([]Expr{x.X, x.Pattern})
	if err != nil {
		return nil, err
	}
	l := &likeNode{x: n[0], pattern: n[1], not: x.Not}
	escape := document.StringValue("")
	constant := true
	if x.Escape != nil {
		if l.escape, err = b.expr(x.Escape); err != nil {
			return nil, err
		}
		c, ok := l.escape.(constNode)
		if constant = ok; ok {
			if escape = c.value; len([]rune(escape.Str())) != 1 {
				return nil, b.fail(x.Escape.at(), codeArguments, "ESCAPE requires a string of one character.")
			}
		}
	}
	if c, ok := l.pattern.(constNode); ok && constant && c.value.Kind() == document.String {
		l.ready = newLike(c.value.Str(), escape.Str())
	}
	return l, nil
}

// resolve finds an input. grouped reports whether only aggregates may use it.
func (b *binder) resolve(name string) (slot int, grouped, ok bool) {
	for s := b.scope; s != nil; s = s.outer {
		grouped = grouped || s.groups != nil
		if slot, ok := s.slots[name]; ok {
			return slot, grouped, true
		}
	}
	return 0, false, false
}

// isContainer reports whether a name that is not an input refers to the container.
func (b *binder) isContainer(name string) bool {
	return strings.EqualFold(name, "ROOT") || b.scope != nil && b.scope.items
}

func (b *binder) name(x *Name) (node, error) {
	slot, grouped, ok := b.resolve(x.Name)
	switch {
	case ok && grouped:
		return nil, b.fail(x.span, codeAggregate, "Property reference '%s' is invalid here because it is not contained in either an "+
			"aggregate function or the GROUP BY clause.", x.Name)
	case ok:
		if b.roots[slot] {
			b.whole++
		}
		return slotNode{slot}, nil
	case b.isContainer(x.Name):
		b.whole++
		return rootNode{}, nil
	}
	return nil, b.fail(x.span, codeIdentifier, "Identifier '%s' could not be resolved.", x.Name)
}

// member binds a complete path. The steps of the path are then evaluated together.
func (b *binder) member(x *Member) (node, error) {
	var names []string
	var e Expr = x
	for {
		m, ok := e.(*Member)
		if !ok {
			break
		}
		names = append(names, m.Name)
		if s := b.scope; s != nil && s.groups != nil {
			if slot, ok := s.groups.slots[string(m.appendTo(nil))]; ok {
				names = names[:len(names)-1]
				return b.steps(slotNode{slot}, names), nil
			}
		}
		e = m.Of
	}
	before := b.whole
	of, err := b.expr(e)
	if err != nil {
		return nil, err
	}
	if b.isItem(of) && len(names) > 0 {
		b.whole = before
		if n, ok, err := b.computedProperty(of, names[len(names)-1]); ok {
			return b.steps(n, names[:len(names)-1]), err
		}
		b.system = b.system || strings.HasPrefix(names[len(names)-1], "_")
	}
	return b.steps(of, names), nil
}

// namedMember returns the property of[at] as a Member if at is a parameter with a string.
func (b *binder) namedMember(x *Index) (*Member, bool) {
	p, ok := x.At.(*Placeholder)
	if !ok {
		return nil, false
	}
	v := b.parameters[p.Name]
	return &Member{x.span, x.Of, v.Str()}, v.Kind() == document.String
}

// isItem reports whether a node is the whole item.
func (b *binder) isItem(n node) bool {
	if s, ok := n.(slotNode); ok {
		return b.roots[s.slot]
	}
	return n == node(rootNode{})
}

// steps returns a node that follows names from a value. The names are in reverse order.
func (b *binder) steps(of node, names []string) node {
	if len(names) == 0 {
		return of
	}
	if s, ok := of.(slotNode); ok {
		p := &pathNode{slot: s.slot}
		for i := len(names) - 1; i >= 0; i-- {
			p.names = append(p.names, names[i])
		}
		return p
	}
	for i := len(names) - 1; i >= 0; i-- {
		of = b.fold(&memberNode{of, names[i]}, of)
	}
	return of
}

func (b *binder) call(x *Call) (node, error) {
	if x.UDF {
		b.calls = true
		args, err := b.all(x.Args)
		if err != nil {
			return nil, err
		}
		return &udfNode{x.Name, args}, nil
	}
	upper := strings.ToUpper(x.Name)
	if kind := aggregateKinds[upper]; kind != aggregateNone {
		return b.aggregate(x, kind)
	}
	f, ok := builtins[upper]
	if !ok {
		f, ok = rankFunctions[upper]
	}
	switch {
	case b.schema != nil && b.schema.planar && isSpatial(upper):
		return nil, b.fail(x.span, codeFunction, "'%s' supports only containers with the geospatialConfig type Geography.", x.Name)
	case !ok:
		return nil, b.fail(x.span, codeFunction, "'%s' is not a recognized built-in function name.", x.Name)
	case len(x.Args) < f.min || f.max >= 0 && len(x.Args) > f.max:
		return nil, b.fail(x.span, codeArguments, "The %s function has %d argument(s) here; it takes %s.", upper,
			len(x.Args), arity(f))
	case isFullText(upper):
		return b.fullText(x, upper)
	}
	args, err := b.all(x.Args)
	if err != nil {
		return nil, err
	}
	if upper == vectorDistanceName {
		if f.f, err = b.vectorDistance(x, args); err != nil {
			return nil, err
		}
		args = args[:2]
	}
	if f.volatile {
		return &callNode{f.f, stepBytesOf(upper), args}, nil
	}
	return b.fold(&callNode{f.f, stepBytesOf(upper), args}, args...), nil
}

func arity(f builtin) string {
	n := document.NumberValue(float64(f.min)).String()
	switch {
	case f.max < 0:
		return n + " or more"
	case f.max > f.min:
		return n + " to " + document.NumberValue(float64(f.max)).String()
	}
	return n
}

// aggregate binds the argument, which is evaluated for each row, and assigns a slot to the result.
func (b *binder) aggregate(x *Call, kind aggregateKind) (node, error) {
	s := b.scope
	if s == nil || s.groups == nil {
		return nil, b.fail(x.span, codeAggregate, "The aggregate function '%s' is allowed only in the SELECT clause of a query and "+
			"cannot be nested.", x.Name)
	}
	if len(x.Args) != 1 {
		return nil, b.fail(x.span, codeArguments, "The %s function has %d argument(s) here; it takes 1.",
			strings.ToUpper(x.Name), len(x.Args))
	}
	g := s.groups
	s.groups = nil
	arg, err := b.expr(x.Args[0])
	s.groups = g
	if err != nil {
		return nil, err
	}
	a := boundAggregate{kind, arg, b.slot()}
	g.aggregates = append(g.aggregates, a)
	return slotNode{a.slot}, nil
}
