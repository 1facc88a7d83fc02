// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fulltext"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// The value of an entry in a full-text index consists of command.TermMark, the language, the text of the path, pathEnd,
// and a term. An item has an entry for each of its terms. An item with more than textTermsMax terms or with a text of
// more than textBytesMax bytes has a single entry without a term instead, which makes it a candidate for every query.
const (
	textTermsMax = 2000
	textBytesMax = 64 << 10
)

// textIndex is a full-text index.
type textIndex struct {
	path     document.Path
	language fulltext.Language
	// prefix begins the values of the entries.
	prefix []byte
}

func newTextIndex(path document.Path, l fulltext.Language) textIndex {
	prefix := append([]byte{command.TermMark}, l.String()...)
	return textIndex{path, l, append(append(prefix, path.String()...), pathEnd)}
}

// sameTexts reports whether items have the same entries in two lists of full-text indexes.
func sameTexts(a, b []textIndex) bool {
	return slices.EqualFunc(a, b, func(x, y textIndex) bool { return bytes.Equal(x.prefix, y.prefix) })
}

// isText reports whether an entry value belongs to a full-text index.
func isText(value []byte) bool { return len(value) > 0 && value[0] == command.TermMark }

// parseText returns the full-text index and the term of an entry value.
func parseText(value []byte) (x textIndex, term string, ok bool) {
	prefix, rest, ok := bytes.Cut(value[1:], []byte{pathEnd})
	slash := bytes.IndexByte(prefix, '/')
	if !ok || slash < 0 {
		return x, "", false
	}
	path, err := document.ParsePath(string(prefix[slash:]))
	l, known := fulltext.ParseLanguage(string(prefix[:slash]))
	if err != nil || !known {
		return x, "", false
	}
	return newTextIndex(path, l), string(rest), true
}

// terms returns the distinct terms of an item in order. If many is true, the item has an entry without a term instead.
func (x *textIndex) terms(item document.Value) (terms []string, many bool) {
	text := x.path.Of(item)
	if text.Kind() != document.String {
		return nil, false
	}
	if len(text.Str()) > textBytesMax {
		return nil, true
	}
	for _, t := range x.language.Tokens(nil, text.Str()) {
		terms = append(terms, t.Term)
	}
	slices.Sort(terms)
	terms = slices.Compact(terms)
	return terms, len(terms) > textTermsMax
}

// addTexts adds the entries of an item in the full-text indexes.
func (e *entries) addTexts(item document.Value) {
	for i := range e.policy.texts {
		x := &e.policy.texts[i]
		terms, many := x.terms(item)
		if many {
			terms = []string{""}
		}
		for _, t := range terms {
			e.arena = append(append(e.arena, x.prefix...), t...)
			e.ends = append(e.ends, len(e.arena))
		}
	}
}

// haveSameTexts reports whether two items have the same texts, so that they also have the same terms.
func (p *IndexingPolicy) haveSameTexts(a, b []byte) bool {
	x, y := document.View(a), document.View(b)
	return !slices.ContainsFunc(p.texts, func(t textIndex) bool {
		return !document.Equal(t.path.Of(x), t.path.Of(y))
	})
}

// hasTextEntry reports whether an item has an entry value of a full-text index. An entry with a term can also exist if
// the item has an entry without a term, because reads ignore repeated entries of an item.
func hasTextEntry(body, value []byte) bool {
	x, term, ok := parseText(value)
	if !ok {
		return false
	}
	if term == "" {
		_, many := x.terms(document.View(body))
		return many
	}
	text := x.path.Of(document.View(body))
	return text.Kind() == document.String && len(text.Str()) <= textBytesMax && x.language.Has(text.Str(), term)
}

// hasText reports whether items have entries in a full-text index.
func (p *IndexingPolicy) hasText(x *textIndex) bool {
	return !p.None && slices.ContainsFunc(p.texts, func(y textIndex) bool { return bytes.Equal(x.prefix, y.prefix) })
}

// text returns the full-text index that serves the texts at a path, or nil if none does.
func (p *planner) text(path document.Path, l fulltext.Language) *textIndex {
	i := slices.IndexFunc(p.texts, func(x textIndex) bool { return x.language == l && slices.Equal(x.path, path) })
	if i < 0 {
		return nil
	}
	return &p.texts[i]
}

// term returns the alternatives for a term: the entry of the term, and the entry of items with too many terms.
func (p *planner) term(f *sql.Filter) [][][]byte {
	x := p.text(f.Text, f.Language)
	p.note(stepsOf(f.Text), x != nil)
	if x == nil {
		return nil
	}
	return [][][]byte{{append(bytes.Clone(x.prefix), f.Term...)}, {x.prefix}}
}
