// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"slices"
)

// enter notes the entries of an item that was changed in the index of items, and returns how many have to be written.
// Those that the item had before are there, as nobody removes one that is true; but not as long as the index is being
// built.
func (t *Transaction) enter(s *state) int {
	ix := t.c.table.DocumentIndex()
	if ix == nil {
		return 0
	}
	e := entries{policy: &t.c.Definition.Index}
	s.entered = e.of(s.is.body, s.is.ts)
	if s.was != nil && s.there == nil && !t.engine.opts.Building(ix) {
		s.there = e.of(s.was.body, s.was.ts)
	}
	return len(s.missing())
}

// missing are the values of the entries that the store does not have of an item that was changed.
func (s *state) missing() (out [][]byte) {
	for _, v := range s.entered {
		if _, there := slices.BinarySearchFunc(s.there, v, bytes.Compare); !there {
			out = append(out, v)
		}
	}
	return out
}
