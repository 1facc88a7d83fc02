// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// withMoves adds events for the replicas that were added and removed between two versions of a set.
func withMoves(s *meta.State, p *topology.Partition, old, now *topology.ReplicaSet, bytes uint64,
	at time.Time) *meta.State {
	var came, gone []topology.NodeID
	for i := range old.Replicas {
		if r := &old.Replicas[i]; now.Member(r.ID) == nil {
			gone = append(gone, r.Node)
		}
	}
	for i := range now.Replicas {
		r := &now.Replicas[i]
		if before := old.Member(r.ID); r.State == topology.Voter && (before == nil || before.State != topology.Voter) {
			came = append(came, r.Node)
		}
	}
	e := meta.Event{Table: p.Table, Partition: p.ID, Reason: reasonOf(p, at), Ended: at.UnixMilli()}
	for _, move := range meta.Moves(e, came, gone) {
		if move.To != (topology.NodeID{}) {
			move.Bytes = bytes
		}
		s = s.WithEvent(move)
	}
	return s
}

// reasonOf returns the reason for the change of a partition.
func reasonOf(p *topology.Partition, at time.Time) topology.Reason {
	if p.Reason == nil {
		return *topology.NewReason(topology.UnknownCause, at)
	}
	return *p.Reason
}

// Store estimates the sizes of partitions on this node's disk. It is a *storage.Store.
type Store interface {
	DiskBytes(span keys.Span) (uint64, error)
}

// sizeOf estimates the size of a partition in bytes. It returns 0 if the size is unknown. It reads no rows, because
// requests may be waiting for the end of a merge.
func sizeOf(s Store, p *topology.Partition) uint64 {
	if s == nil {
		return 0
	}
	size, _ := s.DiskBytes(p.Span.Keys(p.Table))
	return size
}
