// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// withMoves notes which replicas of a partition have come and gone between two sets: each that has gone for one that
// has come, as far as there are both.
func withMoves(s *meta.State, p *topology.Partition, old, now *topology.ReplicaSet, bytes uint64,
	at time.Time) *meta.State {
	e := meta.Event{Kind: meta.Move, Table: p.Table, Partition: p.ID, Ended: at.UnixMilli(),
		Reason: reasonOf(p, at)}
	var gone []topology.NodeID
	for i := range old.Replicas {
		if r := &old.Replicas[i]; now.Member(r.ID) == nil {
			gone = append(gone, r.Node)
		}
	}
	for i := range now.Replicas {
		r := &now.Replicas[i]
		if before := old.Member(r.ID); r.State != topology.Voter || before != nil && before.State == topology.Voter {
			continue
		}
		e.To, e.From, e.Bytes = r.Node, topology.NodeID{}, bytes
		if len(gone) > 0 {
			e.From, gone = gone[0], gone[1:]
		}
		s = s.WithEvent(e)
	}
	for _, node := range gone {
		e.From, e.To, e.Bytes = node, topology.NodeID{}, 0
		s = s.WithEvent(e)
	}
	return s
}

// reasonOf is why a partition is being changed.
func reasonOf(p *topology.Partition, at time.Time) topology.Reason {
	if p.Reason == nil {
		return *topology.NewReason(topology.UnknownCause, at)
	}
	return *p.Reason
}

// sizeOf is how large a partition is, 0 if nobody can say.
func sizeOf(size func(p *topology.Partition) uint64, p *topology.Partition) uint64 {
	if size == nil {
		return 0
	}
	return size(p)
}
