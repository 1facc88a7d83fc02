// SPDX-License-Identifier: Apache-2.0

package topology

import "fmt"

// Validate checks the guarantees TP2, TP3, and TP5, and returns the first violation. Transitions preserve these
// guarantees, so only external data must be validated.
func (s *Snapshot) Validate() error {
	if s.nextPartition > MetaPartition {
		return fmt.Errorf("the ID of the next partition would be %d", s.nextPartition)
	}
	seen := 0
	replicas := map[ReplicaID]PartitionID{}
	for _, table := range s.Tables() {
		if err := s.validateTable(table, replicas); err != nil {
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
	return s.validateMembers(s.meta, replicas)
}

// validateTable validates a table. replicas holds the replicas of the previous tables. The replicas of this table are
// added to it.
func (s *Snapshot) validateTable(table uint32, replicas map[ReplicaID]PartitionID) error {
	ps := s.Partitions(table)
	if len(ps) == 0 {
		return fmt.Errorf("table %d has no partitions", table)
	}
	for i := range ps {
		if err := s.validatePartition(table, ps, i); err != nil {
			return err
		}
		if err := s.validateMembers(ps[i], replicas); err != nil {
			return err
		}
		if err := s.validateSplit(ps[i], replicas); err != nil {
			return err
		}
		if err := s.validateMerge(ps, i); err != nil {
			return err
		}
	}
	return nil
}

// validatePartition validates a partition of a table, and checks that it starts where the previous partition ends.
func (s *Snapshot) validatePartition(table uint32, ps []*Partition, i int) error {
	p, begin := ps[i], Position{}
	if i > 0 {
		begin = ps[i-1].Span.Limit
	}
	switch {
	case p.Table != table:
		return fmt.Errorf("partition %d of table %d is listed under table %d", p.ID, p.Table, table)
	case p.ID == 0 || p.ID >= s.nextPartition || s.Partition(p.ID) != p:
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

func (s *Snapshot) validateMembers(p *Partition, replicas map[ReplicaID]PartitionID) error {
	for i, set := range p.Sets {
		for j, r := range set.Replicas {
			if other, ok := replicas[r.ID]; ok || r.ID == 0 || r.ID >= s.nextReplica {
				return fmt.Errorf("replica %d of partition %d also belongs to partition %d, or has no ID", r.ID, p.ID,
					other)
			}
			if r.State > Learner {
				return fmt.Errorf("replica %d of partition %d is in %s", r.ID, p.ID, r.State)
			}
			replicas[r.ID] = p.ID
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
