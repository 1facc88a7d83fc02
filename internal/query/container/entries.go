// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// The value of an entry is the text of a path (/a/"b c"/[]), pathEnd, and the form of what the item has there. So the
// entries of a path are together, in the order of their values. Those of a composite index have its text in the place
// of a path, and the forms of its properties, each with its end. An item with too many values has one entry instead,
// largeEntry: it is a candidate for every query.
const (
	// pathEnd is below any byte of a path's text.
	pathEnd = 1
	// entriesMax is how many entries an item may have, values that it has several times counted, and those of composite
	// indexes not.
	entriesMax = 1000
	// largeEntry is the value of the one entry of an item that would have more.
	largeEntry = "\x02"
)

// entries collects the values of the entries of an item. Its memory is used again.
type entries struct {
	policy *IndexingPolicy
	path   []byte
	arena  []byte
	ends   []int
	// all says that there is no bound; large that it was reached.
	all, large bool
}

// add adds an entry of the path at hand.
func (e *entries) add(v document.Value) {
	if len(e.ends) == entriesMax && !e.all {
		e.large = true
		return
	}
	e.arena = append(append(e.arena, e.path...), pathEnd)
	e.arena = document.AppendForm(e.arena, v)
	e.ends = append(e.ends, len(e.arena))
}

// walk adds the entries of what is in v, at the path at hand, of which r is the rule. in is what holds without one.
func (e *entries) walk(v document.Value, r *rule, in bool) {
	if e.large || r == nil && !in {
		return
	}
	switch v.Kind() {
	case document.Object:
		for name, m := range v.Members() {
			e.step(document.Step{Name: name}, m, r, in)
		}
	case document.Array:
		for m := range v.Elements() {
			e.step(document.Step{Elements: true}, m, r, in)
		}
	}
}

func (e *entries) step(s document.Step, v document.Value, r *rule, in bool) {
	end := len(e.path)
	e.path = document.AppendStep(e.path, s)
	if len(e.path) <= pathBytesMax && !e.large {
		r = r.next(s)
		self, below := r.decide(in)
		if self {
			e.add(v)
		}
		e.walk(v, r, below)
	}
	e.path = e.path[:end]
}

// of returns the values of the entries of an item, in order, each once. They share memory.
func (e *entries) of(body []byte, ts int64) [][]byte {
	p := e.policy
	if p.None {
		return nil
	}
	e.arena, e.ends, e.large = nil, e.ends[:0], false
	e.walk(document.View(body), &p.root, p.root.below == included)
	if time := (document.Step{Name: document.TimeMember}); p.Includes([]document.Step{time}) {
		e.path = document.AppendStep(e.path[:0], time)
		e.add(document.IntegerValue(ts))
		e.path = e.path[:0]
	}
	if e.large {
		return [][]byte{[]byte(largeEntry)}
	}
	for _, c := range p.composites { // beyond the bound
		e.arena = appendComposite(append(e.arena, c.text...), c.paths, body, ts)
		e.ends = append(e.ends, len(e.arena))
	}
	out, begin := make([][]byte, len(e.ends)), 0
	for i, end := range e.ends {
		out[i], begin = e.arena[begin:end:end], end
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal)
}

// everyPath is the policy that includes all paths.
var everyPath = IndexingPolicy{root: rule{below: included}}

// hasEntry reports whether an item has a value of an entry, by whatever policy it was entered.
func hasEntry(body []byte, ts int64, value []byte) bool {
	if end := bytes.IndexByte(value, pathEnd); end > 0 && !bytes.Contains(value[:end], []byte("/[]")) {
		return bytes.Equal(valueAt(body, ts, value), value)
	}
	// What is in arrays is looked for among all there is.
	e := entries{policy: &everyPath, all: string(value) != largeEntry}
	values := e.of(body, ts)
	if !e.all {
		return e.large
	}
	_, there := slices.BinarySearchFunc(values, value, bytes.Compare)
	return there
}

// valueAt returns the value of the entry that an item has of the same path, or in the same composite index, as another
// entry, nil if it has none: of a path that leads through no array, of which it has one at most.
func valueAt(body []byte, ts int64, like []byte) []byte {
	end := bytes.IndexByte(like, pathEnd)
	if end < 0 {
		return nil
	}
	if isComposite(like) {
		return appendComposite(bytes.Clone(like[:end+1]), compositeOf(like[:end+1]), body, ts)
	}
	path, err := document.ParsePath(string(like[:end]))
	if err != nil {
		return nil
	}
	v := valueAtPath(path, document.View(body), ts)
	if !v.IsDefined() {
		return nil
	}
	return document.AppendForm(bytes.Clone(like[:end+1]), v)
}
