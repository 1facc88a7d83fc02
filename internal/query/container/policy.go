// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
)

// These are limits of indexing policies.
const (
	indexPathsMax       = 1000
	compositesMax       = 100
	compositePathsMax   = 8
	compositePathsLeast = 2
)

// IndexingPolicy holds the members of an indexing policy that have an effect.
type IndexingPolicy struct {
	// None reports whether nothing is indexed, because the mode is none or automatic is false.
	None bool
	// Included and Excluded are paths in the client's notation, such as /*, /a/b/?, and /"_etag"/?.
	Included, Excluded []string
	// Composites are the composite indexes.
	Composites [][]CompositePath

	root rule
	// composites holds the composite indexes in which items have entries. texts holds the full-text indexes.
	composites []composite
	texts      []textIndex
}

// composite is a composite index with the text that begins its entries.
type composite struct {
	paths []CompositePath
	text  []byte
}

// CompositePath is a property of a composite index.
type CompositePath struct {
	Path       document.Path
	Descending bool
}

// verdict is the decision of a rule about a path.
type verdict uint8

const (
	unsaid verdict = iota
	included
	excluded
)

// rule is the rule of a policy for a path and the paths below it. The rule with the most segments takes precedence.
// Among rules of equal length, the rule that ends in ? takes precedence.
type rule struct {
	members  map[string]*rule
	elements *rule
	// self is the verdict for the path that ends in ?. below is the verdict for the path that ends in *.
	self, below verdict
}

// next returns the rule of a child segment, or nil if it has no rule.
func (r *rule) next(s document.Step) *rule {
	switch {
	case r == nil:
		return nil
	case s.Elements:
		return r.elements
	}
	return r.members[s.Name]
}

// decide reports whether a value at the rule's path is indexed and whether values below it are indexed by default. in
// is the default inherited from the parent path.
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

// add adds a path to the rules below r. add returns false if the path already has a different rule.
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

// pathBytesMax is the maximum length of the text of an indexed path.
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

// hasComposite reports whether items have entries in the composite index whose entries begin with text.
func (p *IndexingPolicy) hasComposite(text []byte) bool {
	return !p.None && slices.ContainsFunc(p.composites, func(c composite) bool { return bytes.Equal(c.text, text) })
}

// parsePolicy parses an indexing policy. parsePolicy also returns the policy with the defaults that Cosmos DB adds.
func parsePolicy(v document.Value) (p IndexingPolicy, with document.Value, e *Error) {
	if v.Kind() != document.Object {
		return p, v, Errorf(400, 0, "The indexing policy must be a JSON object.")
	}
	automatic := v.Get("automatic")
	if automatic.IsDefined() && automatic.Kind() != document.Boolean {
		return p, v, Errorf(400, 0, "The member 'automatic' of an indexing policy must be true or false, not %v.",
			automatic)
	}
	p.None = automatic.IsDefined() && !automatic.IsTrue()
	switch mode := v.Get("indexingMode"); strings.ToLower(mode.Str()) {
	case "none":
		p.None = true
	case "consistent", "lazy":
	default:
		if mode.IsDefined() && mode.Kind() != document.Null {
			return p, v, Errorf(400, 0, "The indexing mode must be consistent or none, not %v.", mode)
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

// withoutEtag excludes the items' etags from indexing, as Cosmos DB does by default.
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

// paths parses a list of paths.
func (p *IndexingPolicy) paths(v document.Value, member string, means verdict) (out []string, e *Error) {
	list := v.Get(member)
	if list.IsDefined() && list.Kind() != document.Null && list.Kind() != document.Array {
		return nil, Errorf(400, 0, "The member '%s' of an indexing policy must be an array of objects with a path.", member)
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
			return nil, Errorf(400, 0, "An indexing policy is limited to %d paths.", indexPathsMax)
		}
	}
	return out, nil
}

// readComposites parses the composite indexes.
func (p *IndexingPolicy) readComposites(v document.Value) *Error {
	list := v.Get("compositeIndexes")
	if list.IsDefined() && list.Kind() != document.Null && list.Kind() != document.Array {
		return Errorf(400, 0, "The member 'compositeIndexes' of an indexing policy must be an array of arrays of paths.")
	}
	for each := range list.Elements() {
		var index []CompositePath
		for part := range each.Elements() {
			path, err := document.ParsePath(part.Get("path").Str())
			if err != nil {
				return Errorf(400, 0, "A path of a composite index must not end in a wildcard; a valid path is /a/b: %v", err)
			}
			order := part.Get("order")
			c := CompositePath{Path: path, Descending: order.Str() == "descending"}
			if !c.Descending && order.IsDefined() && order.Str() != "ascending" {
				return Errorf(400, 0, "The order of a path of a composite index must be ascending or descending, not %v.",
					order)
			}
			if slices.ContainsFunc(index, func(other CompositePath) bool { return slices.Equal(other.Path, path) }) {
				return Errorf(400, 0, "A composite index contains the path '%s' twice.", path)
			}
			index = append(index, c)
		}
		if len(index) < compositePathsLeast || len(index) > compositePathsMax {
			return Errorf(400, 0, "A composite index must have %d to %d paths, not %d.", compositePathsLeast,
				compositePathsMax, len(index))
		}
		if p.Composites = append(p.Composites, index); len(p.Composites) > compositesMax {
			return Errorf(400, 0, "An indexing policy is limited to %d composite indexes.", compositesMax)
		}
		if text := compositePrefix(index); text != nil && !p.hasComposite(text) {
			p.composites = append(p.composites, composite{index, text})
		}
	}
	return nil
}
