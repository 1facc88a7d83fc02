// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
)

// ComputedMax is the maximum number of computed properties of a container.
const ComputedMax = 20

// Schema contains the parts of a container's definition that change the results of queries. These parts are the
// computed properties, the metrics of vectors, and the languages of texts. A nil *Schema is empty.
//
// A computed property is a property at the top level of each item whose value is the result of a query over the item.
// Items do not store it. A query that names the property gets the computed value, even if items have a property with
// this name. SELECT * returns no computed properties.
type Schema struct {
	computed map[string]computedProperty
	metrics  map[string]Metric // by the text of the path
	// languages holds the languages of texts by the text of the path. language applies to all other paths.
	languages map[string]fulltext.Language
	language  fulltext.Language
	planar    bool
	text      []byte
}

// computedProperty is the definition of a computed property, which has the form SELECT VALUE expression FROM alias.
type computedProperty struct {
	alias string
	expr  Expr
	text  string
}

// AddComputed adds a computed property. It returns an error if the name exists or the query does not satisfy the rules
// of Cosmos DB. According to these rules, a query has the form SELECT VALUE expression FROM alias, and the expression
// is deterministic and uses only one item. The expression cannot contain subqueries, aggregates, spatial functions,
// parameters, or user-defined functions. Errors are of type *Error.
func (s *Schema) AddComputed(name, query string) error {
	tree, err := Parse(query)
	if err != nil {
		return err
	}
	p := computedProperty{text: query}
	var whole bool
	if p.alias, whole = (&Query{tree: tree}).container(); !whole || len(tree.From) != 1 || !tree.Value ||
		!simple(tree) || tree.Where != nil || tree.Limit != nil {
		return failure(query, tree.span, codeBound, "The query of a computed property must have the form "+
			"SELECT VALUE expression FROM c.")
	}
	p.expr = tree.Items[0].Expr
	walk(p.expr, func(e Expr) bool {
		switch e := e.(type) {
		case *Subquery:
			err = failure(query, e.span, codeBound, "The query of a computed property cannot contain a subquery.")
		case *Placeholder:
			err = failure(query, e.span, codeBound, "The query of a computed property cannot contain a parameter.")
		case *Call:
			upper := strings.ToUpper(e.Name)
			if e.UDF || builtins[upper].volatile || isSpatial(upper) || isFullText(upper) {
				err = failure(query, e.span, codeBound, "The query of a computed property cannot call '%s'.", e.Name)
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
	if s.IsComputed(name) {
		return failure(query, tree.span, codeIdentifier, "The computed property '%s' is defined more than once.", name)
	}
	if s.computed == nil {
		s.computed = map[string]computedProperty{}
	}
	s.computed[name] = p
	s.text = append(append(append(append(s.text, 'c'), name...), 0), query...)
	return nil
}

// IsComputed reports whether a name is a computed property.
func (s *Schema) IsComputed(name string) bool {
	if s == nil {
		return false
	}
	_, ok := s.computed[name]
	return ok
}

// SetMetric sets the metric of the vectors at a path.
func (s *Schema) SetMetric(path document.Path, m Metric) {
	if s.metrics == nil {
		s.metrics = map[string]Metric{}
	}
	s.metrics[path.String()] = m
	s.text = append(append(s.text, 'v', byte(m)), path.String()...)
}

// metric returns the metric of the vectors at a path. ok is false if the path has no vectors.
func (s *Schema) metric(path document.Path) (m Metric, ok bool) {
	if s == nil {
		return Cosine, false
	}
	m, ok = s.metrics[path.String()]
	return m, ok
}

// SetLanguage sets the language of the texts at a path, or of all other texts if the path is nil.
func (s *Schema) SetLanguage(path document.Path, l fulltext.Language) {
	s.text = append(append(s.text, 'l', byte(l)), path.String()...)
	if path == nil {
		s.language = l
		return
	}
	if s.languages == nil {
		s.languages = map[string]fulltext.Language{}
	}
	s.languages[path.String()] = l
}

// Language returns the language of the texts at a path.
func (s *Schema) Language(path document.Path) fulltext.Language {
	if s == nil {
		return 0
	}
	if l, ok := s.languages[path.String()]; ok {
		return l
	}
	return s.language
}

// RejectSpatial rejects queries with spatial functions, because the coordinates of the container are planar.
func (s *Schema) RejectSpatial() { s.planar = true }

// Text returns a text that is equal for equal definitions in the same order. It is empty for an empty schema.
func (s *Schema) Text() []byte {
	if s == nil {
		return nil
	}
	return s.text
}

// computedProperty binds the property name of an item if it is computed.
func (b *binder) computedProperty(item node, name string) (n node, ok bool, err error) {
	if !b.schema.IsComputed(name) {
		return nil, false, nil
	}
	p := b.schema.computed[name]
	outer, text, s := b.scope, b.text, b.schema
	b.scope, b.text, b.schema = &scope{slots: map[string]int{}, items: true}, p.text, nil
	if at, isSlot := item.(slotNode); isSlot {
		b.scope.slots[p.alias] = at.slot
	}
	n, err = b.expr(p.expr)
	b.scope, b.text, b.schema = outer, text, s
	return n, true, err
}
