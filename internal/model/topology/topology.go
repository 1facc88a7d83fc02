// SPDX-License-Identifier: Apache-2.0

// Package topology maps data to replicas. It records which physical partition contains which part of a table, and
// which replicas the partition has.
//
// Guarantees:
//
//   - (TP1) A Snapshot is immutable. Every transition returns a new snapshot with a higher version.
//   - (TP2) The partitions of a table tile its ring. Every position belongs to exactly one partition.
//   - (TP3) Partition IDs and replica IDs are never reused.
//   - (TP4) The functions that requests use (Locate, At, Partitions) do not allocate. A change does not copy unchanged
//     data, except the list of its table.
//   - (TP5) No two replicas of a partition are on the same node.
//
// The package does not depend on node addresses or loads, and it makes no decisions. Start reading at Snapshot, and
// continue with transitions.go.
package topology

import (
	"encoding/hex"
	"fmt"
	"iter"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Position is a position on a table's ring (see keys.Position).
type Position = keys.Position

// At returns the position of a key with a token.
func At(t token.Token, key []byte) Position { return keys.At(t, key) }

// Span is the half-open interval [Begin, Limit) of a table's ring. A zero Limit is the end of the ring, so the zero
// Span is the whole ring.
type Span struct{ Begin, Limit Position }

// Valid reports whether the span is not empty.
func (s Span) Valid() bool { return s.Limit.IsZero() || s.Begin.Compare(s.Limit) < 0 }

// Contains reports whether a key with a token is in the span.
func (s *Span) Contains(t token.Token, key []byte) bool {
	return s.Holds(keys.At(t, key))
}

// Holds reports whether a position is in the span.
func (s *Span) Holds(p Position) bool {
	return s.Begin.Compare(p) <= 0 && (s.Limit.IsZero() || p.Compare(s.Limit) < 0)
}

// Covers reports whether s contains all of o.
func (s Span) Covers(o Span) bool {
	return s.Begin.Compare(o.Begin) <= 0 && (s.Limit.IsZero() || !o.Limit.IsZero() && o.Limit.Compare(s.Limit) <= 0)
}

// Overlaps reports whether the spans share a position.
func (s Span) Overlaps(o Span) bool {
	return (s.Limit.IsZero() || o.Begin.Compare(s.Limit) < 0) && (o.Limit.IsZero() || s.Begin.Compare(o.Limit) < 0)
}

// Tokens returns the smallest token range that contains the span. If the boundary of two neighbors is between two keys
// of the same token, their token ranges overlap.
func (s Span) Tokens() token.Range {
	limit := s.Limit.Ring
	if s.Limit.Low != 0 || len(s.Limit.Key) > 0 {
		limit++ // The position is 0 after the last token, which is the end of the ring.
	}
	return token.Range{Begin: s.Begin.Ring, Limit: limit}
}

// Keys returns the span in the form that the store uses.
func (s Span) Keys(table uint32) keys.Span {
	return keys.Span{Table: table, Begin: s.Begin.Boundary(table), End: s.Limit.Boundary(table)}
}

// String returns the boundaries of the span.
func (s Span) String() string {
	if s.Limit.IsZero() {
		return "[" + s.Begin.String() + ", end)"
	}
	return "[" + s.Begin.String() + ", " + s.Limit.String() + ")"
}

// PartitionID identifies a physical partition. The value 0 is invalid.
type PartitionID uint64

// ReplicaID identifies a replica of a physical partition. The ID is never reused, even on the same node.
type ReplicaID uint64

// NodeID is the ID stored in a node's data directory.
type NodeID [16]byte

// Short returns the node name that users see, which consists of the first eight hexadecimal digits of the ID.
func (id NodeID) Short() string { return hex.EncodeToString(id[:4]) }

// MetaPartition is the physical partition with the cluster metadata, which consists of the schema, the topology, and
// the nodes. It does not belong to a table's ring.
const MetaPartition PartitionID = 1 << 62

// MetaTable represents the table of the meta partition. Its keys are not ordered like the keys of a table.
const MetaTable = keys.MetaID

// MemberState is the state of a replica in its replica set.
type MemberState uint8

// These are the states of a replica. A Voter counts toward quorums. A Joining replica becomes a voter when it has
// caught up. A Leaving replica remains until enough other voters exist. A Learner has all data but does not count
// toward quorums until its promotion is requested.
const (
	Voter MemberState = iota
	Joining
	Leaving
	Learner
)

// String returns the name of the state in lower case.
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

// ReplicaSet is the set of replicas of a physical partition in one region.
type ReplicaSet struct {
	Region   string
	Replicas []Replica
	// Leader was the leader when the record was written. It is 0 if the leader was unknown. It is a hint, because
	// replicas have more recent information.
	Leader ReplicaID

	rest []byte // encoded fields that a later build has added
}

// Partition is a physical partition.
type Partition struct {
	ID    PartitionID
	Table uint32
	Span  Span
	// Epoch is the number of changes of Span, counted from 1. A command contains the epoch that its sender expects.
	Epoch uint64
	// Level is the partition's feature level at its creation, or 0 in the topology of a standalone node. The log of
	// the partition may have raised the level since then.
	Level feature.Level
	// Moves is the number of changes of the members since the partition was created.
	Moves uint64
	// Sets holds one replica set per region, in no particular order. New partitions currently get one set. The meta
	// partition always has one set, whose members may be in several regions.
	Sets []ReplicaSet
	// Split is the pending split, or nil.
	Split *PendingSplit
	// Merge is the pending merge with a neighbor, or nil.
	Merge *PendingMerge
	// Parent is the partition from which this partition was split off. It is 0 if this partition was created with its
	// table. The replicas of a split-off partition are not created from the topology. An entry of the parent's log, or
	// a snapshot, creates them.
	Parent PartitionID
	// Since is the time of the last change of the span in milliseconds since 1970, or 0 if the span has never changed.
	Since int64
	// Reason is the reason for a pending split or change of members. Reason is nil if no change is pending or no
	// reason was recorded.
	Reason *Reason
	// Pin is a temporary placement of the replicas. Pin is nil if only balancing determines the placement. Both halves
	// of a split inherit the pin.
	Pin *PlacementPin
	// Lead is the node that should lead the partition if it has a voter. Lead is used to balance load, and has
	// precedence over the nodes that placement prefers. Lead is zero if no node is preferred. Both halves of a split
	// inherit Lead.
	Lead NodeID

	rest []byte // has the same meaning as in ReplicaSet
}

// Set returns the replica set of a region, or nil if the partition has no replica set in that region.
func (p *Partition) Set(region string) *ReplicaSet {
	for i := range p.Sets {
		if p.Sets[i].Region == region {
			return &p.Sets[i]
		}
	}
	return nil
}

// SetOn returns the replica set with a member on the given node, or nil if no set has such a member. The members of
// one set form a Raft group.
func (p *Partition) SetOn(node NodeID) *ReplicaSet {
	for i := range p.Sets {
		if p.Sets[i].On(node) != nil {
			return &p.Sets[i]
		}
	}
	return nil
}

// GroupSet returns the replica set to which replicas on nodes of a region belong. It returns nil if the partition has
// no replica set in the region. All replicas of the meta partition belong to one set.
func (p *Partition) GroupSet(region string) *ReplicaSet {
	if p.ID == MetaPartition && len(p.Sets) > 0 {
		return &p.Sets[0]
	}
	return p.Set(region)
}

// On returns the member on a node, or nil if the node has no member.
func (s *ReplicaSet) On(node NodeID) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].Node == node {
			return &s.Replicas[i]
		}
	}
	return nil
}

// Member returns the member with the given ID, or nil if the set does not contain the member.
func (s *ReplicaSet) Member(id ReplicaID) *Replica {
	for i := range s.Replicas {
		if s.Replicas[i].ID == id {
			return &s.Replicas[i]
		}
	}
	return nil
}

// Count returns the number of members in a state.
func (s *ReplicaSet) Count(state MemberState) int {
	n := 0
	for i := range s.Replicas {
		if s.Replicas[i].State == state {
			n++
		}
	}
	return n
}

// Snapshot is one version of the topology. The next version shares all data with this version, except a few tree nodes
// and the changed table's list of partitions. This list takes 8 bytes per partition.
type Snapshot struct {
	version       uint64
	nextPartition PartitionID
	nextReplica   ReplicaID
	tables        tree[[]*Partition] // in ring order; the partitions of a table tile its ring (TP2)
	byID          tree[Partition]
	moving        tree[Partition] // the partitions returned by InMotion
	meta          *Partition      // nil if the topology has no meta partition
	level         feature.Level
	rest          []byte // has the same meaning as in ReplicaSet
}

// New returns an empty topology with version 1.
func New() *Snapshot { return &Snapshot{version: 1, nextPartition: 1, nextReplica: 1} }

// Version returns the version, which increases with every change.
func (s *Snapshot) Version() uint64 { return s.version }

// Level returns the feature level of the cluster, which all nodes support. It returns 0 for the topology of a
// standalone node. New partitions start at this level. Existing partitions raise their levels through entries in their
// logs.
func (s *Snapshot) Level() feature.Level { return s.level }

// Partitions returns the partitions of a table in ring order, or nil if the table does not exist. The caller must not
// change them.
func (s *Snapshot) Partitions(table uint32) []*Partition {
	if ps := s.tables.get(uint64(table)); ps != nil {
		return *ps
	}
	return nil
}

// Partition returns the partition with the given ID, or nil if the partition does not exist. The ID may be the ID of
// the meta partition.
func (s *Snapshot) Partition(id PartitionID) *Partition {
	if id == MetaPartition {
		return s.meta
	}
	return s.byID.get(uint64(id))
}

// Meta returns the meta partition, or nil in a topology without a meta partition.
func (s *Snapshot) Meta() *Partition { return s.meta }

// All yields every partition. The meta partition, if it exists, is first. The partitions of the tables follow in
// order.
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

// InMotion yields the partitions with a pending split, merge, or change of members. The components that request
// changes limit the number of such partitions. Iteration is therefore cheap even in a large topology.
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

// Changes yields the partitions that differ between two topologies, with their states in old and in s. A missing state
// is nil. The cost is proportional to the number of changes.
func (s *Snapshot) Changes(old *Snapshot) iter.Seq2[*Partition, *Partition] {
	return func(yield func(was, is *Partition) bool) {
		if s.meta != old.meta && !yield(old.meta, s.meta) {
			return
		}
		changes(old.byID, s.byID, func(_ uint64, was, is *Partition) bool { return yield(was, is) })
	}
}

// Dropped returns the tables that are in old but not in s.
func (s *Snapshot) Dropped(old *Snapshot) (tables []uint32) {
	changes(old.tables, s.tables, func(table uint64, _, is *[]*Partition) bool {
		if is == nil {
			tables = append(tables, uint32(table))
		}
		return true
	})
	return tables
}

// Len returns the number of partitions of all tables, excluding the meta partition.
func (s *Snapshot) Len() int { return s.byID.count }

// Tables returns the tables of the topology in ascending order.
func (s *Snapshot) Tables() []uint32 {
	out := make([]uint32, 0, s.tables.count)
	s.tables.all(func(table uint64, _ *[]*Partition) bool {
		out = append(out, uint32(table))
		return true
	})
	return out
}

// Locate returns the partition that contains a key of a table, or nil if the table does not exist.
func (s *Snapshot) Locate(table uint32, t token.Token, key []byte) *Partition {
	ps := s.Partitions(table)
	if len(ps) == 0 {
		return nil
	}
	return ps[find(ps, keys.At(t, key))]
}

// Find returns the index in Partitions(table) of the partition that contains a position, or -1 if the table does not
// exist.
func (s *Snapshot) Find(table uint32, p Position) int {
	ps := s.Partitions(table)
	if len(ps) == 0 {
		return -1
	}
	return find(ps, p)
}

// find returns the index of the last partition that starts at or before p. The first partition starts at zero (TP2), so
// such a partition always exists.
func find(ps []*Partition, p Position) int {
	lo, hi := 0, len(ps) // ps[lo] starts at or before p, and ps[hi] starts after it
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
