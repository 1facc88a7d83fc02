// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math/bits"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
)

// dedupeSet is a set of dedupe IDs. It is optimized for adding IDs, because a replica adds the ID of every write. It
// has a table of numbers for each coordinator. The set costs a fifth of a map of IDs.
type dedupeSet struct {
	of []numberSet
	n  int
	// room is the initial capacity of a coordinator's table.
	room int
}

func (r *dedupeSet) len() int { return r.n }

// most returns the maximum number of IDs of a single coordinator.
func (r *dedupeSet) most() (most int) {
	for i := range r.of {
		most = max(most, r.of[i].n)
	}
	return most
}

// clone returns a copy that shares no memory with the set.
func (r *dedupeSet) clone() dedupeSet {
	out := *r
	out.of = slices.Clone(r.of)
	for i := range out.of {
		out.of[i].table = slices.Clone(r.of[i].table)
	}
	return out
}

// addAll adds the IDs of another set.
func (r *dedupeSet) addAll(o *dedupeSet) {
	for i := range o.of {
		n := &o.of[i]
		if n.zero {
			r.add(command.DedupeID{Coordinator: n.coordinator})
		}
		for _, number := range n.table {
			if number != 0 {
				r.add(command.DedupeID{Coordinator: n.coordinator, Sequence: number})
			}
		}
	}
}

func (r *dedupeSet) find(coordinator [16]byte) int {
	return slices.IndexFunc(r.of, func(n numberSet) bool { return n.coordinator == coordinator })
}

func (r *dedupeSet) has(id command.DedupeID) bool {
	i := r.find(id.Coordinator)
	return i >= 0 && r.of[i].has(id.Sequence)
}

func (r *dedupeSet) add(id command.DedupeID) {
	i := r.find(id.Coordinator)
	if i < 0 {
		i = len(r.of)
		r.of = append(r.of, numberSet{coordinator: id.Coordinator})
		r.of[i].grow(max(numbersLeast, r.room))
	}
	if r.of[i].add(id.Sequence) {
		r.n++
	}
}

// numberSet is a set of the numbers of one coordinator. It is an open-addressed hash table whose size is a power of
// two. The table is up to three quarters full. Eight consecutive numbers share a cache line.
type numberSet struct {
	coordinator [16]byte
	// top is the highest number in the set.
	top uint64
	// table contains 0 in unused slots. zero reports whether the set contains the number 0.
	table []uint64
	zero  bool
	n     int
}

// numbersLeast is the minimum capacity of a table.
const numbersLeast = 16

// slot returns the index of a number in the table. If the number is not in the table, slot returns the index at which
// to insert the number.
func (s *numberSet) slot(number uint64) int {
	const spread = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	mask := uint64(len(s.table) - 1)
	i := (number>>3*spread>>32<<3 | number&7) & mask
	for s.table[i] != 0 && s.table[i] != number {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *numberSet) has(number uint64) bool {
	if number == 0 {
		return s.zero
	}
	return number <= s.top && s.table[s.slot(number)] == number
}

// add adds a number and reports whether the number is new.
func (s *numberSet) add(number uint64) bool {
	if number == 0 {
		added := !s.zero
		s.zero = true
		return added
	}
	i := s.slot(number)
	if s.table[i] == number {
		return false
	}
	s.table[i] = number
	s.top = max(s.top, number)
	if s.n++; s.n > len(s.table)/4*3 {
		s.grow(2 * s.n)
	}
	return true
}

// grow increases the capacity.
func (s *numberSet) grow(room int) {
	old := s.table
	s.table = make([]uint64, 1<<bits.Len(uint(room/3*4)))
	for _, number := range old {
		if number != 0 {
			s.table[s.slot(number)] = number
		}
	}
}
