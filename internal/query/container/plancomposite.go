// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/query/sql"
)

// equals are the values that properties have to have, by the text of their paths.
type equals map[string]document.Value

// equalities are what parts of a filter say that all have to hold.
func equalities(parts []*sql.Filter) equals {
	out := equals{}
	for _, f := range parts {
		if path, ok := pathOf(f); ok && f.Op == "=" && f.Values[0].Kind() < document.Array {
			if _, twice := out[path]; !twice {
				out[path] = f.Values[0]
			}
		}
	}
	return out
}

// pathOf is the path of what a filter says of one property, as text; ok is false for one of elements of arrays.
func pathOf(f *sql.Filter) (text string, ok bool) {
	path := make(document.Path, len(f.Path))
	for i, s := range f.Path {
		if s.Elements {
			return "", false
		}
		path[i] = s.Name
	}
	return path.String(), len(path) > 0
}

// prefix is what the entries of a composite index begin with whose first properties have the values that they have to
// have, and of how many that is.
func (x *composite) prefix(eq equals) (out []byte, n int) {
	out = bytes.Clone(x.text)
	for _, p := range x.paths {
		v, ok := eq[p.Path.String()]
		if !ok {
			break
		}
		out, n = appendPart(out, v, p.Descending), n+1
	}
	return out, n
}

// interval is that of all entries which begin with a prefix, narrowed by what parts of a filter say of the property
// behind it, number n. It reports whether they say anything.
func (x *composite) interval(prefix []byte, n int, parts []*sql.Filter) (in *interval, narrowed bool) {
	in = &interval{prefix: x.text, from: prefix, to: keys.After(bytes.Clone(prefix))}
	if n == len(x.paths) {
		return in, false
	}
	next := x.paths[n]
	path := next.Path.String()
	for _, f := range parts {
		if text, ok := pathOf(f); !ok || text != path {
			continue
		}
		from, to := bounds(f, func(form []byte) []byte { return appendEscaped(nil, form) }, partEnd+1)
		if from == nil {
			continue
		}
		if narrowed = true; next.Descending {
			complement(from)
			complement(to)
			in.cut(beyond(prefix, to), beyond(prefix, from))
			continue
		}
		in.cut(append(bytes.Clone(prefix), from...), append(bytes.Clone(prefix), to...))
	}
	return in, narrowed
}

// whole is the value of the entries of a composite index of all of whose properties parts of a filter say what they
// have to be, and the parts that say something else; nil if there is none.
func (p *planner) whole(parts []*sql.Filter) (value []byte, left []*sql.Filter) {
	eq := equalities(parts)
	var best *composite
	for i := range p.composites {
		x := &p.composites[i]
		if prefix, n := x.prefix(eq); n == len(x.paths) && (best == nil || n > len(best.paths)) {
			best, value = x, prefix
		}
	}
	if best == nil {
		return nil, parts
	}
	p.combined = best.paths
	for _, f := range parts {
		if path, ok := pathOf(f); !ok || f.Op != "=" || !best.has(path) {
			left = append(left, f)
		}
	}
	return value, left
}

// has reports whether a property is one of the index.
func (x *composite) has(path string) bool {
	return slices.ContainsFunc(x.paths, func(p CompositePath) bool { return p.Path.String() == path })
}

// sorts reports whether the entries of a composite index that have the values of its first n properties are in the
// order of a query; descending says that they are with the last one first.
func (x *composite) sorts(n int, by []sql.OrderPath) (descending, ok bool) {
	if len(by) == 0 || len(by) != len(x.paths)-n {
		return false, false
	}
	for i, p := range x.paths[n:] {
		inverted := p.Descending != by[i].Descending
		if i == 0 {
			descending = inverted
		}
		if inverted != descending || !slices.Equal(p.Path, by[i].Path) {
			return false, false
		}
	}
	return descending, true
}

// sorted is how a composite index finds the items in the order that a query sorts them by, from where the page before
// ended; nil if none does. What has to have one value is in any order.
func (p *planner) sorted(q *sql.Query, eq equals, after []document.Value) *interval {
	by := q.Orders()
	var open []sql.OrderPath
	var behind []document.Value
	for i, o := range by {
		if _, fixed := eq[o.Path.String()]; fixed {
			continue
		}
		if open = append(open, o); after != nil {
			behind = append(behind, after[i])
		}
	}
	for i := range p.composites {
		x := &p.composites[i]
		prefix, n := x.prefix(eq)
		descending, ok := x.sorts(n, open)
		if !ok || !p.covered(x, n, conjuncts(q.Filter())) {
			continue
		}
		in, _ := x.interval(prefix, n, conjuncts(q.Filter()))
		in.sorts, in.descending, in.fixed, in.pinned = true, descending, n, p.pins(x, n)
		for i, v := range behind {
			// What is behind an array is not known by its form.
			prefix = appendPart(bytes.Clone(prefix), v, x.paths[n+i].Descending)
			if v.IsDefined() && !document.IsExact(document.AppendForm(nil, v)) {
				break
			}
		}
		switch {
		case len(behind) == 0:
		case descending:
			in.cut(in.from, keys.After(bytes.Clone(prefix)))
		default:
			in.cut(prefix, in.to)
		}
		p.combined = x.paths
		return in
	}
	if len(by) > 0 && len(eq) > 0 && len(open) > 0 {
		p.lack(q, eq, open)
	}
	return nil
}

// covered reports whether all that a filter says by single values is of the first n properties of a composite index:
// what else it says may leave next to nothing.
func (p *planner) covered(x *composite, n int, parts []*sql.Filter) bool {
	fixed := &composite{paths: x.paths[:n]}
	return !slices.ContainsFunc(parts, func(f *sql.Filter) bool {
		path, ok := pathOf(f)
		return (!ok || !fixed.has(path)) && len(p.sets(f)) > 0
	})
}

// pins reports whether the partition key is among the first n properties of a composite index.
func (p *planner) pins(x *composite, n int) bool {
	fixed := &composite{paths: x.paths[:n]}
	return !slices.ContainsFunc(p.implied, func(path document.Path) bool { return !fixed.has(path.String()) })
}

// within is how a composite index finds the items that have some values and a range of another one, that with the most;
// nil if none does.
func (p *planner) within(q *sql.Query, eq equals) (best *interval) {
	parts := conjuncts(q.Filter())
	for i := range p.composites {
		x := &p.composites[i]
		prefix, n := x.prefix(eq)
		if n == 0 || !p.covered(x, n, parts) {
			continue
		}
		if in, narrowed := x.interval(prefix, n, parts); narrowed && (best == nil || n > best.fixed) {
			in.fixed, in.pinned = n, p.pins(x, n)
			best, p.combined = in, x.paths
		}
	}
	if best == nil && len(eq) > 0 {
		p.lack(q, eq, nil)
	}
	return best
}

// lack notes the composite index that would serve a query: of what has one value, and then what is sorted by, or is in
// a range.
func (p *planner) lack(q *sql.Query, eq equals, by []sql.OrderPath) {
	var index []CompositePath
	add := func(path document.Path, descending bool) {
		if !slices.ContainsFunc(index, func(c CompositePath) bool { return slices.Equal(c.Path, path) }) {
			index = append(index, CompositePath{path, descending})
		}
	}
	parts := conjuncts(q.Filter())
	for _, ranges := range []bool{false, true} {
		for _, f := range parts {
			text, ok := pathOf(f)
			if !ok || f.Op == "IN" || (f.Op != "=") != ranges || ranges && len(by) > 0 {
				continue
			}
			path, err := document.ParsePath(text)
			if _, fixed := eq[text]; err != nil || fixed == ranges {
				continue
			}
			if add(path, false); ranges {
				break
			}
		}
	}
	for _, o := range by {
		add(o.Path, o.Descending)
	}
	if len(index) >= compositePathsLeast && len(index) <= compositePathsMax && compositePrefix(index) != nil &&
		p.index != nil {
		p.lacking = index
	}
}

// checkOrder refuses what sorts by several properties without a composite index of just these, as Cosmos DB does.
func (e *Engine) checkOrder(c *Container, q *sql.Query) *Error {
	by := q.SortPaths()
	if len(by) < compositePathsLeast || e.opts.SortFreely {
		return nil
	}
	wanted := make([]CompositePath, len(by))
	for i, o := range by {
		wanted[i] = CompositePath(o)
	}
	for _, paths := range c.Definition.Index.Composites {
		if _, ok := (&composite{paths: paths}).sorts(0, by); ok {
			return nil
		}
	}
	hint := document.StringValue("Add this to compositeIndexes of the indexing policy of the container: " +
		compositeJSON(wanted)).String()
	return Errorf(400, 0, `{"Errors":["The order by query does not have a corresponding composite index that it can be `+
		`served from.",%s]}`, hint)
}
