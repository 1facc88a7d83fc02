// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// These are limits of index conditions. A condition beyond these limits is not indexed, and each item is filtered.
const (
	alternativesMax = 64
	conjunctsMax    = 4
)

// planner determines how the index of a container serves a query.
type planner struct {
	index    *command.IndexLookup
	policies []*IndexingPolicy
	// implied contains the partition key paths. Their values are the same in all items that are read.
	implied []document.Path
	// composites contains the composite indexes that can be used.
	composites []composite
	// texts contains the full-text indexes that can be used.
	texts []textIndex
	// used contains the paths that the index serves. missed contains the paths that the index would serve if the
	// policy included them.
	used, missed map[string]bool
	// combined is the composite index that the query uses. lacking is a composite index that would serve the query but
	// does not exist.
	combined, lacking []CompositePath
}

// newPlanner returns the planner of a container. If the container has no index, no plan uses one.
func (e *Engine) newPlanner(c *Container) *planner {
	p := &planner{used: map[string]bool{}, missed: map[string]bool{}}
	ix := c.table.DocumentIndex()
	if ix == nil {
		return p
	}
	p.index = &command.IndexLookup{Index: ix.ID}
	p.policies = append(p.policies, &c.Definition.Index)
	if e.opts.Builds.Building(ix) {
		// While the index is being built, it is complete only for paths that are included in both the earlier policies
		// and the current policy.
		p.policies = append(p.policies, c.Definition.before...)
		if len(c.Definition.before) == 0 {
			p.index = nil
		}
	}
	if p.index != nil && ix.Composites() {
		p.composites = slices.DeleteFunc(slices.Clone(c.Definition.Index.composites), func(x composite) bool {
			return slices.ContainsFunc(p.policies, func(i *IndexingPolicy) bool { return !i.hasComposite(x.text) })
		})
	}
	if p.index != nil && ix.Texts() {
		p.texts = slices.DeleteFunc(slices.Clone(c.Definition.Index.texts), func(x textIndex) bool {
			return slices.ContainsFunc(p.policies, func(i *IndexingPolicy) bool { return !i.hasText(&x) })
		})
	}
	return p
}

// serves reports whether the index contains the values at a path.
func (p *planner) serves(path []document.Step) bool {
	return p.index != nil && !slices.ContainsFunc(p.policies, func(i *IndexingPolicy) bool { return !i.Includes(path) })
}

// note records whether the index serves a path of the query's filter.
func (p *planner) note(path []document.Step, used bool) {
	text := []byte{}
	for _, s := range path {
		text = document.AppendStep(text, s)
	}
	if used {
		p.used[string(text)+"/?"] = true
	} else {
		p.missed[string(text)+"/?"] = true
	}
}

// lookup returns the index lookup that finds, in place order, the items for which the query may have results. lookup
// returns nil if the index does not serve the query. Every lookup also finds items that exceed the entry limit.
func (p *planner) lookup(q *sql.Query) *command.IndexLookup {
	f := q.Filter()
	if f == nil {
		return nil
	}
	sets := p.sets(f)
	if len(sets) == 0 {
		return nil
	}
	l := *p.index
	l.Any = append(sets, [][]byte{[]byte(largeEntry)})
	return &l
}

// sets returns alternatives of entry values: an item that satisfies the filter has all values of at least one
// alternative. sets returns nil if the index does not serve the filter.
func (p *planner) sets(f *sql.Filter) [][][]byte {
	switch f.Op {
	case "AND":
		return p.both(f.Of)
	case "OR":
		var out [][][]byte
		for _, of := range f.Of {
			sets := p.sets(of)
			if len(sets) == 0 || len(out)+len(sets) > alternativesMax {
				return nil
			}
			out = append(out, sets...)
		}
		return out
	case "=", "IN":
		return p.values(f)
	case "TERM":
		return p.term(f)
	}
	return nil
}

// both combines the alternatives of all parts of a conjunction, in ascending order of their number of alternatives.
func (p *planner) both(parts []*sql.Filter) (out [][][]byte) {
	var of [][][][]byte
	if value, left := p.whole(parts); value != nil {
		of, parts = append(of, [][][]byte{{value}}), left
	}
	for _, part := range parts {
		if sets := p.sets(part); len(sets) > 0 {
			of = append(of, sets)
		}
	}
	slices.SortStableFunc(of, func(a, b [][][]byte) int { return len(a) - len(b) })
	for i, sets := range of {
		if i == 0 {
			out = sets
			continue
		}
		if len(out)*len(sets) > alternativesMax {
			break
		}
		var product [][][]byte
		for _, x := range out {
			for _, y := range sets {
				if len(x)+len(y) > conjunctsMax {
					return out
				}
				product = append(product, append(slices.Clip(x), y...))
			}
		}
		out = product
	}
	return out
}

// values returns alternatives that consist of a single value each.
func (p *planner) values(f *sql.Filter) (out [][][]byte) {
	if len(f.Values) == 0 || len(f.Values) > alternativesMax ||
		slices.ContainsFunc(f.Values, func(v document.Value) bool { return v.Kind() >= document.Array }) {
		return nil
	}
	served := p.serves(f.Path)
	p.note(f.Path, served)
	if !served || p.implies(f) {
		return nil
	}
	prefix := entryPrefix(f.Path)
	for _, v := range f.Values {
		value := document.AppendForm(bytes.Clone(prefix), v)
		if !slices.ContainsFunc(out, func(s [][]byte) bool { return bytes.Equal(s[0], value) }) {
			out = append(out, [][]byte{value})
		}
	}
	return out
}

// implies reports whether all items that are read satisfy a condition.
func (p *planner) implies(f *sql.Filter) bool {
	text, ok := pathOf(f)
	return ok && slices.ContainsFunc(p.implied, func(path document.Path) bool { return path.String() == text })
}

// entryPrefix returns the prefix of all entry values of a path.
func entryPrefix(path []document.Step) (out []byte) {
	for _, s := range path {
		out = document.AppendStep(out, s)
	}
	return append(out, pathEnd)
}

// intervals returns the value ranges that can find the items, in the order in which they are tried. single reports
// whether ranges of a single path are acceptable because no other access path serves the query.
func (p *planner) intervals(q *sql.Query, eq equals, after []document.Value, single bool) (out []*interval) {
	in := p.sorted(q, eq, after)
	if in == nil && p.combined == nil {
		in = p.within(q, eq)
	}
	if in != nil {
		return append(out, in)
	}
	if !single {
		return nil
	}
	few, sorted := p.ranged(q), p.order(q, after)
	if few != nil && (sorted == nil || string(few.prefix) != string(sorted.prefix)) {
		out = append(out, few)
	}
	if sorted != nil {
		out = append(out, sorted)
	}
	return out
}

// order returns the interval that yields the items in the query's sort order, starting after the previous page. order
// returns nil if the index does not serve the order.
func (p *planner) order(q *sql.Query, after []document.Value) *interval {
	by := q.Orders()
	if len(by) != 1 {
		return nil
	}
	path := stepsOf(by[0].Path)
	served := p.serves(path)
	p.note(path, served)
	if !served {
		return nil
	}
	in := p.all(path)
	for _, part := range conjuncts(q.Filter()) {
		if slices.Equal(part.Path, path) {
			in.narrow(part)
		}
	}
	in.sorts, in.descending = true, by[0].Descending
	if after != nil && after[0].IsDefined() {
		from := document.AppendForm(bytes.Clone(in.prefix), after[0])
		switch to := append(bytes.Clone(from), 0); {
		case !in.descending:
			in.from = larger(in.from, from)
		case bytes.Compare(to, in.to) < 0:
			in.to = to
		}
	}
	return in
}

func stepsOf(path document.Path) []document.Step {
	steps := make([]document.Step, len(path))
	for i, name := range path {
		steps[i] = document.Step{Name: name}
	}
	return steps
}

// ranged returns the most selective interval of a single path by a heuristic rank, or nil if the index serves no
// range.
func (p *planner) ranged(q *sql.Query) (best *interval) {
	rank := 0
	found := map[string]*interval{}
	ranks := map[string]int{}
	for _, part := range conjuncts(q.Filter()) {
		if len(part.Path) == 0 || slices.ContainsFunc(part.Path, func(s document.Step) bool { return s.Elements }) ||
			p.implies(part) || part.Op == "IN" || len(part.Values) == 1 && part.Values[0].Kind() >= document.Array {
			continue
		}
		served := p.serves(part.Path)
		p.note(part.Path, served)
		if !served {
			continue
		}
		prefix := string(entryPrefix(part.Path))
		in := found[prefix]
		if in == nil {
			in = p.all(part.Path)
			found[prefix] = in
		}
		in.narrow(part)
		switch part.Op {
		case "STARTSWITH":
			ranks[prefix] += 3
		case "IS_DEFINED":
			ranks[prefix]++
		default:
			ranks[prefix] += 2
		}
		if ranks[prefix] > rank {
			best, rank = in, ranks[prefix]
		}
	}
	return best
}

// conjuncts returns the parts of a conjunction. conjuncts returns nil if f is nil.
func conjuncts(f *sql.Filter) []*sql.Filter {
	switch {
	case f == nil:
		return nil
	case f.Op != "AND":
		return []*sql.Filter{f}
	}
	return f.Of
}

// all returns the interval of all values of a path.
func (p *planner) all(path []document.Step) *interval {
	prefix := entryPrefix(path)
	return &interval{prefix: prefix, from: prefix, to: keys.After(bytes.Clone(prefix))}
}

// narrow intersects the interval with the values that satisfy a condition on its path.
func (in *interval) narrow(f *sql.Filter) {
	plain := func(form []byte) []byte { return append([]byte{}, form...) }
	if from, to := bounds(f, plain, 0); from != nil {
		in.cut(append(bytes.Clone(in.prefix), from...), append(bytes.Clone(in.prefix), to...))
	}
}

// cut intersects the interval with [from, to).
func (in *interval) cut(from, to []byte) {
	in.from = larger(in.from, from)
	if bytes.Compare(to, in.to) < 0 {
		in.to = to
	}
}

// bounds returns the range [from, to) of values that satisfy a condition, or nil if the condition defines no range.
// encode returns the beginning of the entry for an encoded value. next is greater than the byte that terminates an
// encoded value in an entry.
func bounds(f *sql.Filter, encode func(form []byte) []byte, next byte) (from, to []byte) {
	if len(f.Values) != 1 || f.Values[0].Kind() >= document.Array || !f.Values[0].IsDefined() || f.Op == "IN" {
		return nil, nil
	}
	raw := document.AppendForm(nil, f.Values[0])
	form, exact := encode(raw), document.IsExact(raw)
	from = encode(raw[:1]) // A comparison ignores values of other types.
	to = keys.After(bytes.Clone(from))
	behind := append(bytes.Clone(form), next)
	switch f.Op {
	case "=":
		return form, behind
	case ">", ">=":
		if from = form; f.Op == ">" && exact {
			from = behind
		}
	case "<", "<=":
		if to = behind; f.Op == "<" && exact {
			to = form
		}
	case "STARTSWITH":
		return form, keys.After(bytes.Clone(form))
	default:
		return nil, nil
	}
	return from, to
}

func larger(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}
