// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/token"
)

// PartitionsMax bounds the physical partitions of one table.
const PartitionsMax = 1 << 16

// Place says where a new partition lives: the nodes of its replica set in a region, the first of them leading.
type Place struct {
	Region string
	Nodes  []NodeID
}

// next copies the snapshot as the basis of a change. Partitions are shared: they never change.
func (s *Snapshot) next() *Snapshot {
	n := &Snapshot{
		version: s.version + 1, nextPartition: s.nextPartition, nextReplica: s.nextReplica,
		tables: make(map[uint32][]*Partition, len(s.tables)+1), byID: make(map[PartitionID]*Partition, len(s.byID)+1),
	}
	for t, ps := range s.tables {
		n.tables[t] = ps
	}
	for id, p := range s.byID {
		n.byID[id] = p
	}
	return n
}

// sets gives every node of the places a new replica.
func (s *Snapshot) sets(places []Place) []ReplicaSet {
	out := make([]ReplicaSet, len(places))
	for i, pl := range places {
		out[i].Region = pl.Region
		for _, node := range pl.Nodes {
			out[i].Replicas = append(out[i].Replicas, Replica{ID: s.nextReplica, Node: node})
			s.nextReplica++
		}
		if len(out[i].Replicas) > 0 {
			out[i].Leader = out[i].Replicas[0].ID
		}
	}
	return out
}

// AddTable cuts a new table into n partitions of equal shares of the tokens, each with replicas at the places.
func (s *Snapshot) AddTable(table uint32, n int, places []Place) (*Snapshot, error) {
	if n < 1 || n > PartitionsMax {
		return nil, fmt.Errorf("a table cannot have %d partitions", n)
	}
	if _, ok := s.tables[table]; ok {
		return nil, fmt.Errorf("table %d is in the topology already", table)
	}
	out := s.next()
	ps := make([]*Partition, 0, n)
	for _, r := range token.Full.Divide(n) {
		p := &Partition{
			ID: out.nextPartition, Table: table, Epoch: 1, Sets: out.sets(places),
			Span: Span{Position{Ring: r.Begin}, Position{Ring: r.Limit}},
		}
		out.nextPartition++
		ps = append(ps, p)
		out.byID[p.ID] = p
	}
	out.tables[table] = ps
	return out, nil
}

// DropTable removes a table and its partitions; it changes nothing but the version if the table is not there.
func (s *Snapshot) DropTable(table uint32) *Snapshot {
	out := s.next()
	for _, p := range out.tables[table] {
		delete(out.byID, p.ID)
	}
	delete(out.tables, table)
	return out
}

// Split cuts a partition in two: it keeps what is before at, a new partition on the same nodes gets the rest. Both have the epoch
// after the old one. at must lie inside the span, behind its beginning.
func (s *Snapshot) Split(id PartitionID, at Position) (*Snapshot, error) {
	p := s.byID[id]
	if p == nil {
		return nil, fmt.Errorf("there is no partition %d", id)
	}
	if at.Compare(p.Span.Begin) <= 0 || !p.Span.Limit.IsZero() && at.Compare(p.Span.Limit) >= 0 {
		return nil, fmt.Errorf("partition %d holds %s and cannot be split at %s", id, p.Span, at)
	}
	if len(s.tables[p.Table]) >= PartitionsMax {
		return nil, fmt.Errorf("table %d has %d partitions and cannot have more", p.Table, PartitionsMax)
	}
	at.Key = bytes.Clone(at.Key)
	out := s.next()
	left, right := *p, *p
	left.Span.Limit, right.Span.Begin = at, at
	left.Epoch++
	right.Epoch++
	right.ID = out.nextPartition
	out.nextPartition++
	right.Sets = make([]ReplicaSet, len(p.Sets))
	for i, set := range p.Sets {
		right.Sets[i] = out.mirror(set)
	}
	i := find(s.tables[p.Table], p.Span.Begin)
	out.replace(p.Table, i, i+1, &left, &right)
	return out, nil
}

// mirror gives each member of a replica set a new replica on the same node.
func (s *Snapshot) mirror(set ReplicaSet) ReplicaSet {
	out := ReplicaSet{Region: set.Region, Replicas: make([]Replica, len(set.Replicas))}
	for i, r := range set.Replicas {
		out.Replicas[i] = Replica{ID: s.nextReplica, Node: r.Node, State: r.State}
		if r.ID == set.Leader {
			out.Leader = s.nextReplica
		}
		s.nextReplica++
	}
	return out
}

// Merge makes one partition of two neighbours: left keeps its id and its replicas and takes right's span; the epoch is the one after
// the higher. Whoever merges has seen to it that both live on the same nodes.
func (s *Snapshot) Merge(left, right PartitionID) (*Snapshot, error) {
	l, r := s.byID[left], s.byID[right]
	if l == nil || r == nil {
		return nil, fmt.Errorf("there are no partitions %d and %d", left, right)
	}
	if l.Table != r.Table || l.Span.Limit.IsZero() || l.Span.Limit.Compare(r.Span.Begin) != 0 {
		return nil, fmt.Errorf("partition %d does not end where partition %d begins", left, right)
	}
	out := s.next()
	merged := *l
	merged.Span.Limit = r.Span.Limit
	merged.Epoch = max(l.Epoch, r.Epoch) + 1
	i := find(s.tables[l.Table], l.Span.Begin)
	out.replace(l.Table, i, i+2, &merged)
	return out, nil
}

// WithLeader records who leads a partition in a region; it returns s itself if it is known already or does not apply.
func (s *Snapshot) WithLeader(id PartitionID, region string, leader ReplicaID) *Snapshot {
	p := s.byID[id]
	if p == nil || p.Set(region) == nil || p.Set(region).Leader == leader {
		return s
	}
	changed := *p
	changed.Sets = append([]ReplicaSet(nil), p.Sets...)
	changed.Set(region).Leader = leader
	out := s.next()
	i := find(s.tables[p.Table], p.Span.Begin)
	out.replace(p.Table, i, i+1, &changed)
	return out
}

// replace puts ps in the place of the partitions [from, to) of a table.
func (s *Snapshot) replace(table uint32, from, to int, ps ...*Partition) {
	old := s.tables[table]
	list := make([]*Partition, 0, len(old)+len(ps))
	list = append(append(append(list, old[:from]...), ps...), old[to:]...)
	for _, p := range old[from:to] {
		delete(s.byID, p.ID)
	}
	for _, p := range ps {
		s.byID[p.ID] = p
	}
	s.tables[table] = list
}
