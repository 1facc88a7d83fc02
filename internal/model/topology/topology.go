// SPDX-License-Identifier: Apache-2.0

// Package topology is the map of the house's data: which physical partition holds which part of which table, and which
// replicas hold it.
//
// Guarantees: (TP1) a Snapshot never changes; every transition makes a new one with a higher version; (TP2) the
// partitions of a table tile its ring: every position belongs to exactly one; (TP3) partition ids and replica ids are
// never used twice; (TP4) nothing on the way of a request allocates (Locate, At, Partitions), and a change copies
// nothing of what it leaves alone but the list of its table; (TP5) no two replicas of a partition are on one node. The
// package knows nothing of nodes' addresses, of loads or of decisions. Start at Snapshot, then transitions.go.
package topology

import (
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Position is a place of a table's ring; see keys.Position.
type Position = keys.Position

// At is the position of a key on the ring of tokens.
func At(t token.Token, key []byte) Position { return keys.At(t, key) }

// Span is the half-open interval [Begin, Limit) of a table's ring. The zero Limit is the end of the ring, so the zero
// Span is all of it.
type Span struct{ Begin, Limit Position }

// Valid reports whether the span holds any position.
func (s Span) Valid() bool { return s.Limit.IsZero() || s.Begin.Compare(s.Limit) < 0 }

// Contains reports whether the key belongs to the span, on the ring of tokens.
func (s *Span) Contains(t token.Token, key []byte) bool {
	return s.Holds(keys.At(t, key))
}

// Holds reports whether the position belongs to the span.
func (s *Span) Holds(p Position) bool {
	return s.Begin.Compare(p) <= 0 && (s.Limit.IsZero() || p.Compare(s.Limit) < 0)
}

// Covers reports whether all of o lies in s.
func (s Span) Covers(o Span) bool {
	return s.Begin.Compare(o.Begin) <= 0 && (s.Limit.IsZero() || !o.Limit.IsZero() && o.Limit.Compare(s.Limit) <= 0)
}

// Overlaps reports whether the spans share a position.
func (s Span) Overlaps(o Span) bool {
	return (s.Limit.IsZero() || o.Begin.Compare(s.Limit) < 0) && (o.Limit.IsZero() || s.Begin.Compare(o.Limit) < 0)
}

// Tokens is the smallest range of tokens that holds the span. Neighbours share a token where a boundary lies between
// two keys of it.
func (s Span) Tokens() token.Range {
	limit := s.Limit.Ring
	if s.Limit.Low != 0 || len(s.Limit.Key) > 0 {
		limit++ // 0 again after the last token: the end of the ring
	}
	return token.Range{Begin: s.Begin.Ring, Limit: limit}
}

// Keys is the span of a table as the store knows it.
func (s Span) Keys(table uint32) keys.Span {
	return keys.Span{Table: table, Begin: s.Begin.Boundary(table), End: s.Limit.Boundary(table)}
}

// String shows the ends.
func (s Span) String() string {
	if s.Limit.IsZero() {
		return "[" + s.Begin.String() + ", end)"
	}
	return "[" + s.Begin.String() + ", " + s.Limit.String() + ")"
}

// PartitionID names a physical partition; 0 is none.
type PartitionID uint64

// ReplicaID names a replica of a physical partition; it is never used again, also not on the same node.
type ReplicaID uint64

// NodeID is the identity in a node's data directory.
type NodeID [16]byte

// Short is how a node is named where people read: the first eight hex digits of its id.
func (id NodeID) Short() string { return hex.EncodeToString(id[:4]) }

// MetaPartition is the physical partition of the cluster's own records: schema, map, nodes. It is in no table's ring.
const MetaPartition PartitionID = 1 << 62

// MetaTable stands for the table of the meta partition; its keys are in no table's order.
const MetaTable = keys.MetaID

// MemberState is what a replica is to its replica set.
type MemberState uint8

// The states of a replica: a Voter is counted; one that is Joining becomes one as soon as it has caught up; one that is
// Leaving is there until enough others are; a Learner has all data and is not counted, until it is told to join.
const (
	Voter MemberState = iota
	Joining
	Leaving
	Learner
)

// String is the state's name, lower case.
func (s MemberState) String() string {
	if int(s) < len(memberStates) {
		return memberStates[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

var memberStates = [...]string{"voter", "joining", "leaving", "learner"}

// Replica is one member of a replica set.
type Replica struct {
	ID    ReplicaID
	Node  NodeID
	State MemberState
}

// ReplicaSet is the replicas of a physical partition in one region.
type ReplicaSet struct {
	Region   string
	Replicas []Replica
	// Leader is the replica that led when this was written, 0 if not known. A hint: replicas know better.
	Leader ReplicaID

	rest []byte // the fields that a later build has added, as they came
}

// Partition is a physical partition.
type Partition struct {
	ID    PartitionID
	Table uint32
	Span  Span
	// Epoch counts the changes of Span, from 1. A command carries the epoch its sender believed in.
	Epoch uint64
	// Level is the feature level of the partition at its birth, 0 in the map of a node that stands alone. Its log may
	// have raised it.
	Level feature.Level
	// Moves counts the changes of the members since the partition was born with them.
	Moves uint64
	// Sets holds one replica set per region; a single region today.
	Sets []ReplicaSet
	// Split is a split that was ordered and is not in the map yet, nil if there is none.
	Split *PendingSplit
	// Merge is a merge with a neighbour that was ordered and is not in the map yet, nil if there is none.
	Merge *PendingMerge
	// Parent is the partition that this one has split off from, 0 if it was born with its table. The replicas of such a
	// partition are not born by the map: they come with an entry of the parent's log, or by a snapshot.
	Parent PartitionID
	// Since is when the span changed last, in milliseconds since 1970; 0 if it never did.
	Since int64
	// Reason is why the partition is being split or its members are being changed, nil if it is at rest or nobody said
	// why.
	Reason *Reason
	// Pin is where its replicas are to be for a time, nil if balance alone says that. Both halves of a split have it.
	Pin *PlacementPin
	// Lead is the node that is to lead it if that has a voter, before those that placement prefers, which is for the
	// sake of the load; zero if there is none. Both halves of a split have it.
	Lead NodeID

	rest []byte // as in ReplicaSet
}

// Set returns the replica set of a region, nil if it has none.
func (p *Partition) Set(region string) *ReplicaSet {
	for i := range p.Sets {
		if p.Sets[i].Region == region {
			return &p.Sets[i]
		}
	}
	return nil
}

// On returns the member on a node, nil if there is none.
func (s *ReplicaSet) On(node NodeID) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].Node == node {
			return &s.Replicas[i]
		}
	}
	return nil
}

// Member returns a member by its id, nil if there is none.
func (s *ReplicaSet) Member(id ReplicaID) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].ID == id {
			return &s.Replicas[i]
		}
	}
	return nil
}

// Count is the number of members in a state.
func (s *ReplicaSet) Count(state MemberState) int {
	n := 0
	for i := range s.Replicas {
		if s.Replicas[i].State == state {
			n++
		}
	}
	return n
}

// Snapshot is one version of the map. The next one shares with it all but a few nodes of its trees, and the list of the
// table that changes: 8 bytes for each partition of that.
type Snapshot struct {
	version       uint64
	nextPartition PartitionID
	nextReplica   ReplicaID
	tables        tree[[]*Partition] // in ring order; tiles the ring (TP2)
	byID          tree[Partition]
	moving        tree[Partition] // of byID, those of InMotion
	meta          *Partition      // nil while there is none
	level         feature.Level
	rest          []byte // as in ReplicaSet
}

// New is the empty map, version 1.
func New() *Snapshot { return &Snapshot{version: 1, nextPartition: 1, nextReplica: 1} }

// Version grows with every change.
func (s *Snapshot) Version() uint64 { return s.version }

// Level is the feature level of the cluster, which all its nodes understand; 0 in the map of a node that stands alone.
// New partitions are born with it, those that are there raise theirs by their logs.
func (s *Snapshot) Level() feature.Level { return s.level }

// Partitions returns the partitions of a table in ring order, nil if the table is not there. The caller must not change
// them.
func (s *Snapshot) Partitions(table uint32) []*Partition {
	if ps := s.tables.get(uint64(table)); ps != nil {
		return *ps
	}
	return nil
}

// Partition returns a partition by its id, nil if it is not there. The meta partition is one of them.
func (s *Snapshot) Partition(id PartitionID) *Partition {
	if id == MetaPartition {
		return s.meta
	}
	return s.byID.get(uint64(id))
}

// Meta is the meta partition, nil in a map that was made without one.
func (s *Snapshot) Meta() *Partition { return s.meta }

// All yields every partition: the meta partition, if there is one, then those of the tables in order.
func (s *Snapshot) All() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		if s.meta != nil && !yield(s.meta) {
			return
		}
		s.tables.all(func(_ uint64, ps *[]*Partition) bool {
			for _, p := range *ps {
				if !yield(p) {
					return false
				}
			}
			return true
		})
	}
}

// InMotion yields the partitions that something is to happen to: an order is open, or a member is on its way in or out.
// Their number is bounded by those who order, so this costs little however large the map is.
func (s *Snapshot) InMotion() iter.Seq[*Partition] {
	return func(yield func(*Partition) bool) {
		if s.meta != nil && s.meta.inMotion() && !yield(s.meta) {
			return
		}
		s.moving.all(func(_ uint64, p *Partition) bool { return yield(p) })
	}
}

func (p *Partition) inMotion() bool {
	return p.Split != nil || p.Merge != nil || p.Pin != nil || !p.AtRest()
}

// Changes yields the partitions that are not the same in both maps, as they were in old and are now; nil where there is
// none. It costs what has changed, not what there is.
func (s *Snapshot) Changes(old *Snapshot) iter.Seq2[*Partition, *Partition] {
	return func(yield func(was, is *Partition) bool) {
		if s.meta != old.meta && !yield(old.meta, s.meta) {
			return
		}
		changes(old.byID, s.byID, func(_ uint64, was, is *Partition) bool { return yield(was, is) })
	}
}

// Dropped lists the tables of old that are not in s.
func (s *Snapshot) Dropped(old *Snapshot) (tables []uint32) {
	changes(old.tables, s.tables, func(table uint64, _, is *[]*Partition) bool {
		if is == nil {
			tables = append(tables, uint32(table))
		}
		return true
	})
	return tables
}

// Len is the number of partitions of all tables, without the meta partition.
func (s *Snapshot) Len() int { return s.byID.count }

// Tables returns the tables of the map, ascending.
func (s *Snapshot) Tables() []uint32 {
	out := make([]uint32, 0, s.tables.count)
	s.tables.all(func(table uint64, _ *[]*Partition) bool {
		out = append(out, uint32(table))
		return true
	})
	return out
}

// Locate returns the partition that holds a key of a table, nil if the table is not there.
func (s *Snapshot) Locate(table uint32, t token.Token, key []byte) *Partition {
	ps := s.Partitions(table)
	if len(ps) == 0 {
		return nil
	}
	return ps[find(ps, keys.At(t, key))]
}

// Find returns the index in Partitions(table) of the partition that holds a position, -1 if the table is not there.
func (s *Snapshot) Find(table uint32, p Position) int {
	ps := s.Partitions(table)
	if len(ps) == 0 {
		return -1
	}
	return find(ps, p)
}

// find returns the last partition that begins at or before p. The first one begins at zero (TP2), so there is one.
func find(ps []*Partition, p Position) int {
	lo, hi := 0, len(ps) // ps[lo] begins at or before p; ps[hi] after it
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if ps[mid].Span.Begin.Compare(p) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// SpanOf is the inverse of Span.Keys.
func SpanOf(k keys.Span) (Span, error) {
	begin, err := keys.ParseBoundary(k.Table, k.Begin)
	if err != nil {
		return Span{}, err
	}
	limit, err := keys.ParseBoundary(k.Table, k.End)
	if err != nil {
		return Span{}, err
	}
	s := Span{begin, limit}
	if !s.Valid() {
		return Span{}, fmt.Errorf("span %s is empty", s)
	}
	return s, nil
}
