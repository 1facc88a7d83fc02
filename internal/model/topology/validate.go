// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"
	"slices"
)

// validator checks parts of a topology. It remembers the replicas that it has seen, because a replica can belong to
// only one partition.
type validator struct {
	*Snapshot
	replicas map[ReplicaID]PartitionID
}

func newValidator(s *Snapshot) validator { return validator{s, map[ReplicaID]PartitionID{}} }

// Validate checks the guarantees TP2, TP3, and TP5, and returns the first violation. Transitions preserve these
// guarantees, so only external data must be validated.
func (s *Snapshot) Validate() error {
	if s.nextPartition > MetaPartition {
		return fmt.Errorf("the ID of the next partition would be %d", s.nextPartition)
	}
	seen, v := 0, newValidator(s)
	for _, table := range s.Tables() {
		if err := v.table(table); err != nil {
			return err
		}
		seen += len(s.Partitions(table))
	}
	if seen != s.byID.count {
		return fmt.Errorf("%d partitions belong to no table", s.byID.count-seen)
	}
	if s.meta == nil {
		return nil
	}
	return v.members(s.meta)
}

// table validates a table. replicas holds the replicas of the previously validated tables. table adds the replicas of
// the table to replicas.
func (v validator) table(table uint32) error {
	ps := v.Partitions(table)
	if len(ps) == 0 {
		return fmt.Errorf("table %d has no partitions", table)
	}
	for i := range ps {
		if err := v.partition(table, ps, i); err != nil {
			return err
		}
		if err := v.members(ps[i]); err != nil {
			return err
		}
		if err := v.split(ps[i]); err != nil {
			return err
		}
		if err := v.merge(ps, i); err != nil {
			return err
		}
	}
	return nil
}

// partition validates a partition of a table, and checks that the partition starts at the end of the previous
// partition.
func (v validator) partition(table uint32, ps []*Partition, i int) error {
	p, begin := ps[i], Position{}
	if i > 0 {
		begin = ps[i-1].Span.Limit
	}
	switch {
	case p.Table != table:
		return fmt.Errorf("partition %d of table %d is listed under table %d", p.ID, p.Table, table)
	case p.ID == 0 || p.ID >= v.nextPartition || v.Partition(p.ID) != p:
		return fmt.Errorf("partition %d of table %d is registered under another ID", p.ID, table)
	case p.Epoch == 0:
		return fmt.Errorf("partition %d has no epoch", p.ID)
	case p.Span.Begin.Compare(begin) != 0 || i > 0 && begin.IsZero():
		return fmt.Errorf("partition %d of table %d begins at %s, not at %s", p.ID, table, p.Span.Begin, begin)
	case !p.Span.Valid():
		return fmt.Errorf("partition %d of table %d is empty at %s", p.ID, table, p.Span.Begin)
	case p.Span.Limit.IsZero() != (i == len(ps)-1):
		return fmt.Errorf("partition %d of table %d ends at %s", p.ID, table, p.Span.Limit)
	}
	return nil
}

func (v validator) members(p *Partition) error {
	for i, set := range p.Sets {
		for j, r := range set.Replicas {
			if other, ok := v.replicas[r.ID]; ok || r.ID == 0 || r.ID >= v.nextReplica {
				return fmt.Errorf("replica %d of partition %d also belongs to partition %d, or has no ID", r.ID, p.ID,
					other)
			}
			if r.State > Learner {
				return fmt.Errorf("replica %d of partition %d is in %s", r.ID, p.ID, r.State)
			}
			v.replicas[r.ID] = p.ID
			for k := range i + 1 {
				before := p.Sets[k].Replicas
				if k == i {
					before = before[:j]
				}
				for l := range before {
					if before[l].Node == r.Node {
						return fmt.Errorf("replicas %d and %d of partition %d are on the same node", before[l].ID, r.ID,
							p.ID)
					}
				}
			}
		}
		for k := range i {
			if p.Sets[k].Region == set.Region {
				return fmt.Errorf("partition %d has two replica sets in region %q", p.ID, set.Region)
			}
		}
	}
	return nil
}

// split checks a pending split, whose IDs must have been assigned but must not be in use.
func (v validator) split(p *Partition) error {
	c := p.Split
	switch {
	case c == nil:
		return nil
	case c.At.Compare(p.Span.Begin) <= 0 || !p.Span.Limit.IsZero() && c.At.Compare(p.Span.Limit) >= 0:
		return fmt.Errorf("partition %d holds %s and is being split at %s", p.ID, p.Span, c.At)
	case c.Child == 0 || c.Child >= v.nextPartition || v.byID.get(uint64(c.Child)) != nil:
		return fmt.Errorf("partition %d is being split off as %d", p.ID, c.Child)
	case !p.AtRest():
		return fmt.Errorf("partition %d is being split while its replicas are changing", p.ID)
	}
	for _, set := range p.ChildSets() {
		for _, r := range set.Replicas {
			if _, ok := v.replicas[r.ID]; ok || r.ID == 0 || r.ID >= v.nextReplica {
				return fmt.Errorf("replica %d of partition %d belongs to another partition or has no ID", r.ID, c.Child)
			}
			v.replicas[r.ID] = c.Child
		}
	}
	return nil
}

// merge checks the pending merge of partition i of a table. The other partition must have the same merge.
func (v validator) merge(ps []*Partition, i int) error {
	p := ps[i]
	j := p.Merge
	if j == nil {
		return nil
	}
	other := i + 1
	if j.Right == p.ID {
		other = i - 1
	}
	switch {
	case j.Left != p.ID && j.Right != p.ID, other < 0, other >= len(ps), ps[other].Merge == nil,
		ps[other].Merge.Left != j.Left, ps[other].Merge.Right != j.Right, ps[other].Merge.Stage != j.Stage,
		ps[other].Merge.Frozen != j.Frozen, !slices.Equal(ps[other].Merge.Ready, j.Ready):
		return fmt.Errorf("partition %d is being merged, %+v, but its neighbor is not", p.ID, *j)
	case p.Split != nil || !p.AtRest():
		return fmt.Errorf("partition %d is being merged while it is split or its replicas are changing", p.ID)
	}
	l, r := p, ps[other]
	if other < i {
		l, r = r, l
	}
	if cmp.Or(cmp.Compare(l.ID, j.Left), cmp.Compare(r.ID, j.Right)) != 0 || !Colocated(l, r) ||
		(j.Stage == Merging) != (j.Stage != Unfreezing && j.allReady(r) && j.Frozen != 0) {
		return fmt.Errorf("invalid merge of partitions %d and %d: %+v", l.ID, r.ID, *j)
	}
	return nil
}

// edits validates the result of applying edits, and possibly another meta partition, to a valid topology.
func (v validator) edits(tables map[uint32]*edit, meta bool) error {
	for table, e := range tables {
		if err := v.edit(table, e); err != nil {
			return fmt.Errorf("%w: table %d: %w", ErrMalformed, table, err)
		}
	}
	if meta {
		if err := v.members(v.meta); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return nil
}

// edit validates the result of an edit of a valid table. It checks the added partitions and the partitions next to a
// change.
func (v validator) edit(table uint32, e *edit) error {
	ps := v.Partitions(table)
	for _, at := range e.touched {
		for i := max(at-1, 0); i < min(at+2, len(ps)); i++ {
			if err := v.partition(table, ps, i); err != nil {
				return err
			}
			if err := v.merge(ps, i); err != nil {
				return err
			}
		}
	}
	for _, p := range e.come {
		if err := v.members(p); err != nil {
			return err
		}
		if err := v.split(p); err != nil {
			return err
		}
	}
	return nil
}
