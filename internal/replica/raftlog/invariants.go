// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// checkInvariants checks every group to which a commit has written, in builds with the invariants tag. The memory must
// match the store, and the store must contain no records outside the log (RL2, RL3).
func (b *Batch) checkInvariants() {
	invariant.Check(b.s.Failed() == nil, "RL5: a commit follows a failed commit")
	checked := map[*Group]bool{}
	for i := range b.effects {
		if g := b.effects[i].g; !checked[g] && g.exists {
			checked[g] = true
			g.checkInvariants()
		}
	}
}

func (g *Group) checkInvariants() {
	g.mu.Lock()
	cut, last := g.cut, g.last
	cached := int64(0)
	for _, e := range g.cache {
		cached += entryBytes(e)
	}
	follows := len(g.cache) == 0 || g.cache[0].GetIndex() == g.cacheFirst && g.cache[len(g.cache)-1].GetIndex() == last
	follows = follows && g.cacheFirst+uint64(len(g.cache)) == last+1 && cached == g.cacheBytes
	g.mu.Unlock()
	invariant.Check(cut <= last, "RL2: group %d is truncated at %d but ends at %d", g.id, cut, last)
	invariant.Check(last == g.written && cut == g.removed, "RL2: group %d has entries (%d, %d], but (%d, %d] was "+
		"written", g.id,
		cut, last, g.removed, g.written)
	invariant.Check(follows, "RL2: the memory of group %d is not the end of its log at %d", g.id, last)
	invariant.Check(!g.holds(last+1), "RL3: group %d ends at %d and has an entry above", g.id, last)
	invariant.Check(!g.holds(cut), "RL2: group %d is truncated at %d but still has the entry", g.id, cut)
	invariant.Check(cut == last || g.holds(last), "RL2: group %d ends at %d but lacks this entry", g.id, last)
	if cut < last {
		term, err := g.Term(last)
		stored, storedErr := g.storedTerm(last)
		invariant.Check(err == nil && storedErr == nil && term == stored,
			"RL2: entry %d of group %d has term %d, but term %d is stored", last, g.id, term, stored)
		before, err := g.Term(last - 1)
		invariant.Check(err == nil && before <= term, "RL3: the terms of group %d decrease from %d to %d at %d", g.id,
			before,
			term, last)
	}
}

func (g *Group) holds(index uint64) bool {
	_, err := g.storedTerm(index)
	return !errors.Is(err, pebble.ErrNotFound)
}

// storedTerm returns the term of an entry in the store.
func (g *Group) storedTerm(index uint64) (uint64, error) {
	value, closer, err := g.s.db.Get(entryKey(g.id, index))
	if err != nil {
		return 0, err
	}
	e, err := decodeEntry(index, value)
	return e.GetTerm(), errors.Join(err, closer.Close())
}
