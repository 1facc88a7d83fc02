// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math/bits"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
)

// remembered is a set of ids of writes. Every replica adds every write to one, so it is made for that: a table of
// numbers for each coordinator, of which there are few, is a fifth of the cost of a map of ids.
type remembered struct {
	of []numbers
	n  int
	// room is how many numbers a coordinator's table begins with room for.
	room int
}

// len is the number of ids in the set.
func (r *remembered) len() int { return r.n }

// most is the largest number of ids of one coordinator.
func (r *remembered) most() (most int) {
	for i := range r.of {
		most = max(most, r.of[i].n)
	}
	return most
}

// clone shares no memory with the set.
func (r *remembered) clone() remembered {
	out := *r
	out.of = slices.Clone(r.of)
	for i := range out.of {
		out.of[i].table = slices.Clone(r.of[i].table)
	}
	return out
}

// addAll adds the ids of another set.
func (r *remembered) addAll(o *remembered) {
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

func (r *remembered) find(coordinator [16]byte) int {
	return slices.IndexFunc(r.of, func(n numbers) bool { return n.coordinator == coordinator })
}

func (r *remembered) has(id command.DedupeID) bool {
	i := r.find(id.Coordinator)
	return i >= 0 && r.of[i].has(id.Sequence)
}

func (r *remembered) add(id command.DedupeID) {
	i := r.find(id.Coordinator)
	if i < 0 {
		i = len(r.of)
		r.of = append(r.of, numbers{coordinator: id.Coordinator})
		r.of[i].grow(max(numbersLeast, r.room))
	}
	if r.of[i].add(id.Sequence) {
		r.n++
	}
}

// numbers is a set of the numbers of one coordinator: an open-addressed table, a power of two in size and at most three
// quarters full, in which eight consecutive numbers share a cache line.
type numbers struct {
	coordinator [16]byte
	// top is the highest number in the set.
	top uint64
	// table holds 0 where there is nothing; zero says that 0 is in the set.
	table []uint64
	zero  bool
	n     int
}

// numbersLeast is the least room of a table.
const numbersLeast = 16

// slot is where the number is in the table, or is to be put.
func (s *numbers) slot(number uint64) int {
	const spread = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	mask := uint64(len(s.table) - 1)
	i := (number>>3*spread>>32<<3 | number&7) & mask
	for s.table[i] != 0 && s.table[i] != number {
		i = (i + 1) & mask
	}
	return int(i)
}

func (s *numbers) has(number uint64) bool {
	if number == 0 {
		return s.zero
	}
	return number <= s.top && s.table[s.slot(number)] == number
}

// add reports whether the number was not there.
func (s *numbers) add(number uint64) bool {
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

// grow makes room for a number of numbers.
func (s *numbers) grow(room int) {
	old := s.table
	s.table = make([]uint64, 1<<bits.Len(uint(room/3*4)))
	for _, number := range old {
		if number != 0 {
			s.table[s.slot(number)] = number
		}
	}
}
