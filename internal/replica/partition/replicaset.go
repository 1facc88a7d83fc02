// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Status returns the replica's view of its replica set.
func (r *Replica) Status() (s raftgroup.Status, err error) {
	g, err := r.host.replicaSets()
	if err != nil {
		return s, err
	}
	known := false
	err = g.runner.Do(func(h *raftgroup.Host) { s, known = h.Status(uint64(r.id)) })
	if err != nil || !known {
		return s, ErrClosed
	}
	return s, nil
}

// Transfer asks another replica to lead. It returns once the request is sent, or *NotLeader if this replica does not
// lead.
func (r *Replica) Transfer(to topology.ReplicaID) error {
	g, err := r.host.replicaSets()
	if err != nil {
		return err
	}
	if closed := g.runner.Do(func(h *raftgroup.Host) { err = h.Transfer(uint64(r.id), uint64(to)) }); closed != nil {
		return ErrClosed
	}
	if err != nil {
		return r.refused(err)
	}
	return nil
}

// Campaign makes a replica set without a leader elect one now.
func (r *Replica) Campaign() {
	if g, err := r.host.replicaSets(); err == nil {
		g.runner.Call(func(h *raftgroup.Host) { h.Campaign(uint64(r.id)) })
	}
}

// ChangeMembers changes the members of the replica set. It returns when this replica, the leader, has applied the
// change. Errors are *NotLeader, raftgroup.ErrMembersBusy, and ErrUncertain.
func (r *Replica) ChangeMembers(ctx context.Context, changes []raftgroup.Change) error {
	g, err := r.host.replicaSets()
	if err != nil {
		return err
	}
	done := make(outcomeWaiter, 1)
	if !g.runner.Call(func(h *raftgroup.Host) { h.ChangeMembers(uint64(r.id), changes, done) }) {
		return ErrClosed
	}
	o, err := await(r.host.sim, waitLimit{ctx: ctx, ends: [2]chan struct{}{g.closed, g.stopped}}, done)
	switch {
	case err == nil:
		return r.ended(o)
	case errors.Is(err, errEnded):
		return ErrClosed
	}
	return err
}
