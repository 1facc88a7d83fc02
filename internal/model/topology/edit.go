// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// edit is the set of partitions of a table that changed records add and remove.
type edit struct {
	gone, come []*Partition
	// touched holds the indexes in the changed table next to which a partition was added.
	touched []int
}

// edit changes a table without validation. The result may contain duplicate partitions or gaps.
func (s *Snapshot) edit(table uint32, e *edit) {
	byBegin := func(a, b *Partition) int {
		return cmp.Or(a.Span.Begin.Compare(b.Span.Begin), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(e.come, byBegin)
	slices.SortFunc(e.gone, byBegin)
	old := s.Partitions(table)
	place := func(p *Partition) int {
		i, _ := slices.BinarySearchFunc(old, p.Span.Begin, func(o *Partition, at Position) int {
			return o.Span.Begin.Compare(at)
		})
		return i
	}
	list := make([]*Partition, 0, len(old)+len(e.come))
	at := 0 // old[:at] has already been processed
	for come, gone := e.come, e.gone; len(come)+len(gone) > 0; {
		if len(gone) == 0 || len(come) > 0 && place(come[0]) <= place(gone[0]) {
			to := place(come[0])
			list, at = append(append(list, old[at:to]...), come[0]), to
			e.touched, come = append(e.touched, len(list)-1), come[1:]
		} else {
			to := place(gone[0])
			list, at = append(list, old[at:to]...), to+1
			e.touched, gone = append(e.touched, len(list)), gone[1:]
		}
	}
	s.setList(table, append(list, old[at:]...))
	s.register(e.gone, e.come)
}

// validateEdits validates the result of applying edits, and optionally a new meta partition, to a valid topology.
func (s *Snapshot) validateEdits(tables map[uint32]*edit, meta bool) error {
	replicas := map[ReplicaID]PartitionID{}
	for table, e := range tables {
		if err := s.validateEdit(table, e, replicas); err != nil {
			return fmt.Errorf("%w: table %d: %w", ErrMalformed, table, err)
		}
	}
	if meta {
		if err := s.validateMembers(s.meta, replicas); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return nil
}

// validateEdit validates the result of an edit of a valid table. It checks the added partitions, and the partitions
// next to a change.
func (s *Snapshot) validateEdit(table uint32, e *edit, replicas map[ReplicaID]PartitionID) error {
	ps := s.Partitions(table)
	for _, at := range e.touched {
		for i := max(at-1, 0); i < min(at+2, len(ps)); i++ {
			if err := s.validatePartition(table, ps, i); err != nil {
				return err
			}
			if err := s.validateMerge(ps, i); err != nil {
				return err
			}
		}
	}
	for _, p := range e.come {
		if err := s.validateMembers(p, replicas); err != nil {
			return err
		}
		if err := s.validateSplit(p, replicas); err != nil {
			return err
		}
	}
	return nil
}
