// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// The bounds of indexing policies.
const (
	indexPathsMax       = 1000
	compositesMax       = 100
	compositePathsMax   = 8
	compositePathsLeast = 2
)

// IndexingPolicy is the part of an indexing policy that has an effect.
type IndexingPolicy struct {
	// None says that nothing is indexed: the mode none, or automatic turned off.
	None bool
	// Included and Excluded are paths as they were given: /*, /a/b/?, /"_etag"/?.
	Included, Excluded []string
	// Composites are the composite indexes.
	Composites [][]CompositePath

	root rule
	// composites are those of Composites that items have entries in.
	composites []composite
}

// composite is a composite index with the text that its entries begin with.
type composite struct {
	paths []CompositePath
	text  []byte
}

// CompositePath is a property of a composite index.
type CompositePath struct {
	Path       document.Path
	Descending bool
}

// verdict says what a rule says of a path.
type verdict uint8

const (
	unsaid verdict = iota
	included
	excluded
)

// rule is what a policy says of a path, and of those below. The one with the most segments counts, and of two with as
// many the one that ends in ?.
type rule struct {
	members  map[string]*rule
	elements *rule
	// self is what a path that ends in ? says, below what one says that ends in *.
	self, below verdict
}

// next is the rule of a segment below, nil if there is none.
func (r *rule) next(s document.Step) *rule {
	switch {
	case r == nil:
		return nil
	case s.Elements:
		return r.elements
	}
	return r.members[s.Name]
}

// decide says whether a value at the path of the rule is indexed, and whether those below are by default; in is the
// default above.
func (r *rule) decide(in bool) (self, below bool) {
	if r == nil {
		return in, in
	}
	if r.below != unsaid {
		in = r.below == included
	}
	if r.self != unsaid {
		return r.self == included, in
	}
	return in, in
}

// add adds a path to the rules below r. It returns false if there is another rule of the path.
func (r *rule) add(p document.IndexPath, v verdict) bool {
	for _, s := range p.Steps {
		below := r.next(s)
		if below == nil {
			below = &rule{}
			switch {
			case s.Elements:
				r.elements = below
			case r.members == nil:
				r.members = map[string]*rule{s.Name: below}
			default:
				r.members[s.Name] = below
			}
		}
		r = below
	}
	at := &r.self
	if p.Below {
		at = &r.below
	}
	if *at != unsaid && *at != v {
		return false
	}
	*at = v
	return true
}

// pathBytesMax is how long a path may be, as text, for what is there to be indexed.
const pathBytesMax = 256

// Includes reports whether the values at a path are indexed.
func (p *IndexingPolicy) Includes(path []document.Step) bool {
	if p.None || len(path) == 0 {
		return false
	}
	if first := path[0].Name; first != document.TimeMember && document.IsSystem(first) {
		return false
	}
	var text []byte
	r := &p.root
	in, below := false, r.below == included
	for _, s := range path {
		text = document.AppendStep(text, s)
		r = r.next(s)
		in, below = r.decide(below)
	}
	return in && len(text) <= pathBytesMax
}

// hasComposite reports whether items have entries in a composite index, by what they begin with.
func (p *IndexingPolicy) hasComposite(text []byte) bool {
	return !p.None && slices.ContainsFunc(p.composites, func(c composite) bool { return bytes.Equal(c.text, text) })
}

// parsePolicy reads an indexing policy. It returns the policy with what Cosmos DB adds to it.
func parsePolicy(v document.Value) (p IndexingPolicy, with document.Value, e *Error) {
	if v.Kind() != document.Object {
		return p, v, Errorf(400, 0, "The indexing policy has to be a JSON object.")
	}
	automatic := v.Get("automatic")
	if automatic.IsDefined() && automatic.Kind() != document.Boolean {
		return p, v, Errorf(400, 0, "The member 'automatic' of an indexing policy has to be true or false, not %v.",
			automatic)
	}
	p.None = automatic.IsDefined() && !automatic.IsTrue()
	switch mode := v.Get("indexingMode"); strings.ToLower(mode.Str()) {
	case "none":
		p.None = true
	case "consistent", "lazy":
	default:
		if mode.IsDefined() && mode.Kind() != document.Null {
			return p, v, Errorf(400, 0, "The indexing mode has to be consistent or none, not %v.", mode)
		}
	}
	if p.Included, e = p.paths(v, "includedPaths", included); e != nil {
		return p, v, e
	}
	if p.Excluded, e = p.paths(v, "excludedPaths", excluded); e != nil {
		return p, v, e
	}
	if e := p.readComposites(v); e != nil || p.None {
		return p, v, e
	}
	for _, d := range [][2]string{{"indexingMode", `"consistent"`}, {"automatic", "true"}} {
		if m := v.Get(d[0]); !m.IsDefined() || m.Kind() == document.Null {
			v = document.With(v, d[0], document.View([]byte(d[1])))
		}
	}
	if p.root.below == unsaid {
		if given := v.Get("includedPaths"); given.IsDefined() && given.Kind() != document.Null {
			return p, v, Errorf(400, 0, `The special mandatory indexing path "/" is not provided in any of the path type `+
				`sets. Please provide this path in one of the sets: "/*" has to be in includedPaths or in excludedPaths.`)
		}
		p.Included, p.root.below = []string{"/*"}, included
		v = document.With(v, "includedPaths", document.View([]byte(`[{"path":"/*"}]`)))
	}
	return p, p.withoutEtag(v), nil
}

// withoutEtag excludes the etags of items, as Cosmos DB does by itself.
func (p *IndexingPolicy) withoutEtag(v document.Value) document.Value {
	for _, path := range p.Excluded {
		if path == `/"_etag"/?` || path == "/_etag/?" {
			return v
		}
	}
	p.Excluded = append(p.Excluded, `/"_etag"/?`)
	var all []document.Value
	for path := range v.Get("excludedPaths").Elements() {
		all = append(all, path)
	}
	all = append(all, document.View([]byte(etagExclusion)))
	return document.With(v, "excludedPaths", document.ArrayValue(all))
}

// paths reads a list of paths.
func (p *IndexingPolicy) paths(v document.Value, member string, means verdict) (out []string, e *Error) {
	list := v.Get(member)
	if list.IsDefined() && list.Kind() != document.Null && list.Kind() != document.Array {
		return nil, Errorf(400, 0, "The member '%s' of an indexing policy has to be an array of objects with a path.", member)
	}
	for each := range list.Elements() {
		text := each.Get("path").Str()
		path, err := document.ParseIndexPath(text)
		if err != nil {
			return nil, Errorf(400, 0, "%v", err)
		}
		if e := checkLegacyIndexes(text, each.Get("indexes")); e != nil {
			return nil, e
		}
		if !p.root.add(path, means) {
			return nil, Errorf(400, 0, "The path '%s' of the indexing policy is both included and excluded.", text)
		}
		if out = append(out, text); len(out) > indexPathsMax {
			return nil, Errorf(400, 0, "An indexing policy may have %d paths.", indexPathsMax)
		}
	}
	return out, nil
}

// readComposites reads the composite indexes.
func (p *IndexingPolicy) readComposites(v document.Value) *Error {
	list := v.Get("compositeIndexes")
	if list.IsDefined() && list.Kind() != document.Null && list.Kind() != document.Array {
		return Errorf(400, 0, "The member 'compositeIndexes' of an indexing policy has to be an array of arrays of paths.")
	}
	for each := range list.Elements() {
		var index []CompositePath
		for part := range each.Elements() {
			path, err := document.ParsePath(part.Get("path").Str())
			if err != nil {
				return Errorf(400, 0, "A composite index has paths without a wildcard at their ends, such as /a/b: %v", err)
			}
			order := part.Get("order")
			c := CompositePath{Path: path, Descending: order.Str() == "descending"}
			if !c.Descending && order.IsDefined() && order.Str() != "ascending" {
				return Errorf(400, 0, "The order of a path of a composite index has to be ascending or descending, not %v.",
					order)
			}
			if slices.ContainsFunc(index, func(other CompositePath) bool { return slices.Equal(other.Path, path) }) {
				return Errorf(400, 0, "The path '%s' is twice in a composite index.", path)
			}
			index = append(index, c)
		}
		if len(index) < compositePathsLeast || len(index) > compositePathsMax {
			return Errorf(400, 0, "A composite index has %d to %d paths, not %d.", compositePathsLeast,
				compositePathsMax, len(index))
		}
		if p.Composites = append(p.Composites, index); len(p.Composites) > compositesMax {
			return Errorf(400, 0, "An indexing policy may have %d composite indexes.", compositesMax)
		}
		if text := compositePrefix(index); text != nil && !p.hasComposite(text) {
			p.composites = append(p.composites, composite{index, text})
		}
	}
	return nil
}
