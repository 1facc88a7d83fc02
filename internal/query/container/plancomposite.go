// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// equals holds the fixed values of properties by the text of their paths.
type equals map[string]document.Value

// equalities returns the equality conditions in the parts of a conjunction.
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

// pathOf returns the text of a condition's path. ok is false if the path leads through an array.
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

// prefix returns the entry prefix for the leading properties of a composite index that have a fixed value. n is the
// number of these properties.
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

// interval returns the interval of all entries that begin with a prefix. The conditions on property n, which follows
// the prefix, narrow the interval. narrowed reports whether such conditions exist.
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

// whole considers the composite indexes whose properties all have fixed values. It returns the entry value for the
// index with the most properties. left holds the parts of the filter that the entry value does not cover. value is nil
// if no index qualifies.
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

// has reports whether a property belongs to the index.
func (x *composite) has(path string) bool {
	return slices.ContainsFunc(x.paths, func(p CompositePath) bool { return p.Path.String() == path })
}

// sorts reports whether the entries with fixed values for the first n properties are in the query's sort order.
// descending reports whether the entries must be read backward.
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

// sorted returns the interval of a composite index that yields the items in the query's sort order, starting after the
// previous page. Properties with a fixed value do not affect the order. It returns nil if no index qualifies.
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
			// The form of a value does not distinguish the contents of an array.
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

// covered reports whether all equality conditions of a filter concern the first n properties of a composite index.
// Other equality conditions could reject nearly all items.
func (p *planner) covered(x *composite, n int, parts []*sql.Filter) bool {
	fixed := &composite{paths: x.paths[:n]}
	return !slices.ContainsFunc(parts, func(f *sql.Filter) bool {
		path, ok := pathOf(f)
		return (!ok || !fixed.has(path)) && len(p.sets(f)) > 0
	})
}

// pins reports whether the first n properties of a composite index include the partition key.
func (p *planner) pins(x *composite, n int) bool {
	fixed := &composite{paths: x.paths[:n]}
	return !slices.ContainsFunc(p.implied, func(path document.Path) bool { return !fixed.has(path.String()) })
}

// within returns the interval of the composite index that covers the largest number of fixed values followed by a
// range condition. within returns nil if no index qualifies.
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

// lack records the composite index that would serve a query. Its properties are the properties with fixed values,
// followed by the sort properties or the property of a range condition.
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

// checkOrder rejects a query that sorts by several properties without a matching composite index, as Cosmos DB does.
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
	hint := document.StringValue("Add this to compositeIndexes in the container's indexing policy: " +
		compositeJSON(wanted)).String()
	return Errorf(400, 0, `{"Errors":["The order by query does not have a corresponding composite index that it can be `+
		`served from.",%s]}`, hint)
}
