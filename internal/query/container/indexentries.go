// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// addIndexEntries computes the index entries of a changed item and returns the price of the entries to write. Entries
// of the previous version already exist, because the index removes only false entries. While the index is being built,
// all entries must be written.
func (t *Transaction) addIndexEntries(s *state) (price ru.Units) {
	ix := t.c.table.DocumentIndex()
	if ix == nil {
		return 0
	}
	complete := !t.engine.opts.Builds.Building(ix)
	e := entries{policy: &t.c.Definition.Index, texts: ix.Texts()}
	if e.texts && complete && s.was != nil {
		e.texts = !e.policy.haveSameTexts(s.was.body, s.is.body)
	}
	s.entered = e.of(s.is.body, s.is.ts)
	if s.was != nil && s.there == nil && complete {
		s.there = e.of(s.was.body, s.was.ts)
	}
	for _, v := range s.missing() {
		if isText(v) {
			price += ru.WriteTerm
		} else {
			price += ru.WriteIndex
		}
	}
	return price
}

// missing returns the entry values of a changed item that the store does not contain yet.
func (s *state) missing() (out [][]byte) {
	for _, v := range s.entered {
		if _, there := slices.BinarySearchFunc(s.there, v, bytes.Compare); !there {
			out = append(out, v)
		}
	}
	return out
}
