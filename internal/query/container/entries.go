// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// The value of an entry consists of a path's text such as /a/"b c"/[], pathEnd, and the encoded form of the item's
// value. Entries of a path are therefore adjacent and in value order. In an entry of a composite index, the text of
// the index replaces the path. It is followed by the terminated form of each property's value. An item with too many
// values has a single entry, largeEntry, which makes it a candidate for every query.
const (
	// pathEnd is less than any byte of a path's text.
	pathEnd = 1
	// entriesMax is the maximum number of entries of an item. Repeated values are counted, but composite index entries
	// are not.
	entriesMax = 1000
	// largeEntry is the value of the only entry of an item that exceeds entriesMax.
	largeEntry = "\x02"
)

// entries collects the entry values of an item. An entries value can be reused for several items.
type entries struct {
	policy *IndexingPolicy
	path   []byte
	arena  []byte
	ends   []int
	// all disables the limit. large reports whether the limit was reached.
	all, large bool
	// texts reports whether items have entries in full-text indexes.
	texts bool
}

// add adds an entry for the current path.
func (e *entries) add(v document.Value) {
	if len(e.ends) == entriesMax && !e.all {
		e.large = true
		return
	}
	e.arena = append(append(e.arena, e.path...), pathEnd)
	e.arena = document.AppendForm(e.arena, v)
	e.ends = append(e.ends, len(e.arena))
}

// walk adds the entries of v at the current path, to which rule r applies. in reports whether v is indexed if r does
// not decide this.
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

// of returns the distinct entry values of an item in order. The values share memory.
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
	for _, c := range p.composites { // entriesMax does not apply to composite indexes
		e.arena = appendComposite(append(e.arena, c.text...), c.paths, body, ts)
		e.ends = append(e.ends, len(e.arena))
	}
	if e.texts { // entriesMax does not apply to full-text indexes
		e.addTexts(document.View(body))
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

// hasEntry reports whether an item has an entry value under any policy.
func hasEntry(body []byte, ts int64, value []byte) bool {
	if isText(value) {
		return hasTextEntry(body, value)
	}
	if end := bytes.IndexByte(value, pathEnd); end > 0 && !bytes.Contains(value[:end], []byte("/[]")) {
		return bytes.Equal(valueAt(body, ts, value), value)
	}
	// A value in an array can have any index. The value is therefore compared with all entries.
	e := entries{policy: &everyPath, all: string(value) != largeEntry}
	values := e.of(body, ts)
	if !e.all {
		return e.large
	}
	_, there := slices.BinarySearchFunc(values, value, bytes.Compare)
	return there
}

// valueAt returns the item's entry value for the path or composite index of another entry, or nil if the item has no
// such value. The path must not lead through an array, because the item must have at most one value for the path.
func valueAt(body []byte, ts int64, like []byte) []byte {
	end := bytes.IndexByte(like, pathEnd)
	if end < 0 {
		return nil
	}
	if isText(like) {
		return nil // An item can have several values.
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
