// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// member is what a replica is to its replica set: requests that a leader may carry out become entries of the group's log (proposer.go,
// conditions.go), which the machine applies at all members; reads ask for the right to read (reading.go).
type member struct {
	cluster *cluster
	replica *Replica
	id      topology.ReplicaID
	// group is nil until the group is open.
	group  atomic.Pointer[raftgroup.Group]
	recent recent
	// seen is the index that this node has seen acknowledged.
	seen atomic.Uint64
	// installs counts the beginnings and ends of installations: it is odd during one.
	installs atomic.Uint64

	applied applied
}

// leader returns the node that leads, as far as this replica knows.
func (m *member) leader() (topology.NodeID, bool) {
	g := m.group.Load()
	if g == nil {
		return topology.NodeID{}, false
	}
	l, ok := g.Leader()
	return topology.NodeID(l.Node), ok
}

// WriteAll applies several mutations of this partition as one: see Host.WriteAtomic. The id of parts[0] is that of all; parts may be
// changed. It completes done or returns an error as Write does.
func (r *Replica) WriteAll(ctx context.Context, parts []Part, done command.Completion) error {
	if r.member != nil {
		return r.member.writeAll(ctx, parts, done)
	}
	for i := range parts {
		parts[i].Replica = r
	}
	return r.host.WriteAtomic(ctx, parts, done)
}

// Require makes the partition refuse mutations that were planned for an older revision of the schema, with ErrStaleSchema. When it
// returns, those that were accepted before are applied, in a cluster here at the leader: only it can.
func (r *Replica) Require(ctx context.Context, revision uint64) error {
	if r.member == nil {
		r.RequireSchema(revision)
		return nil
	}
	_, err := r.member.order(ctx, &command.Entry{Kind: command.EntryRequire, SchemaVersion: revision})
	return err
}

// Last is a stamp that none which the partition has given is above. Only the leader knows.
func (r *Replica) Last(ctx context.Context) (stamp int64, err error) {
	if r.member == nil {
		return r.stamps.last.Load(), nil
	}
	return r.member.last(ctx)
}

// Leading reports whether this replica leads and may evaluate. It is a hint: it may have changed already. Stand-alone it is true.
func (r *Replica) Leading() bool {
	if r.member == nil {
		return true
	}
	_, _, err := r.member.leading()
	return err == nil
}

// Leader returns the node that leads, as far as this replica knows; ok is false if it knows none, and stand-alone.
func (r *Replica) Leader() (node topology.NodeID, ok bool) {
	if r.member == nil {
		return topology.NodeID{}, false
	}
	return r.member.leader()
}

// Member is the id of this replica, 0 stand-alone.
func (r *Replica) Member() topology.ReplicaID {
	if r.member == nil {
		return 0
	}
	return r.member.id
}

// Member is the id of the replica of a partition that is here, 0 if there is none, and stand-alone.
func (h *Host) Member(id topology.PartitionID) topology.ReplicaID {
	if r := h.Replica(id); r != nil {
		return r.Member()
	}
	return 0
}

// Seen says that this node has seen index acknowledged: a read that a follower serves here has applied at least that much.
func (r *Replica) Seen(index uint64) {
	if r.member == nil {
		return
	}
	for s := &r.member.seen; ; {
		old := s.Load()
		if old >= index || s.CompareAndSwap(old, index) {
			return
		}
	}
}

// Applied is the index of the last entry that readers here see; 0 stand-alone, and for a replica that waits for its first snapshot.
func (r *Replica) Applied() uint64 {
	if r.member == nil {
		return 0
	}
	if g := r.member.group.Load(); g != nil {
		return g.Applied()
	}
	return 0
}

// Status is what the replica knows of its replica set.
func (r *Replica) Status() (s raftgroup.Status, err error) {
	if r.member == nil {
		return s, errAlone
	}
	known := false
	err = r.member.cluster.runner.Do(func(h *raftgroup.Host) { s, known = h.Status(uint64(r.id)) })
	if err != nil || !known {
		return s, ErrClosed
	}
	return s, nil
}

// Transfer asks another replica to lead. It returns when that was asked; *NotLeader says that this one does not lead.
func (r *Replica) Transfer(to topology.ReplicaID) error {
	if r.member == nil {
		return errAlone
	}
	var err error
	if closed := r.member.cluster.runner.Do(func(h *raftgroup.Host) { err = h.Transfer(uint64(r.id), uint64(to)) }); closed != nil {
		return ErrClosed
	}
	if err != nil {
		return r.member.refused(err)
	}
	return nil
}

// Campaign makes a replica set without a leader elect one now.
func (r *Replica) Campaign() {
	if r.member != nil {
		r.member.cluster.runner.Call(func(h *raftgroup.Host) { h.Campaign(uint64(r.id)) })
	}
}

// ChangeMembers changes the members of the replica set and returns when this replica, its leader, has applied the change. Errors
// are *NotLeader, raftgroup.ErrMembersBusy, and ErrUncertain.
func (r *Replica) ChangeMembers(ctx context.Context, changes []raftgroup.Change) error {
	if r.member == nil {
		return errAlone
	}
	done := make(outcomes1, 1)
	if !r.member.cluster.runner.Call(func(h *raftgroup.Host) { h.ChangeMembers(uint64(r.id), changes, done) }) {
		return ErrClosed
	}
	c := r.member.cluster
	o, err := await(c.opts.Drive, patience{ctx: ctx, ends: [2]chan struct{}{c.closed, c.failed}}, done)
	switch {
	case err == nil:
		return r.member.ended(o)
	case errors.Is(err, errEnded):
		return ErrClosed
	}
	return err
}
