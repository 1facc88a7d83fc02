// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Membership controls the replica set of a partition through a local replica.
type Membership struct {
	host *Host
	set  *replicaSet
}

// Membership returns the membership of the replica set.
func (r *Replica) Membership() Membership { return Membership{r.host, &r.replicaSet} }

// Status returns the replica's view of its replica set.
func (m Membership) Status() (s raftgroup.Status, err error) {
	g := m.host.ReplicaSets()
	if g == nil {
		return s, errNoReplicaSet
	}
	known := false
	err = g.runner.Do(func(h *raftgroup.Host) { s, known = h.Status(uint64(m.set.id)) })
	if err != nil || !known {
		return s, ErrClosed
	}
	return s, nil
}

// Transfer requests another replica to become the leader. It returns when the request has been sent. It returns
// *NotLeader if this replica does not lead.
func (m Membership) Transfer(to topology.ReplicaID) error {
	g := m.host.ReplicaSets()
	if g == nil {
		return errNoReplicaSet
	}
	var err error
	closed := g.runner.Do(func(h *raftgroup.Host) { err = h.Transfer(uint64(m.set.id), uint64(to)) })
	if closed != nil {
		return ErrClosed
	}
	if err != nil {
		return m.set.refused(err)
	}
	return nil
}

// Campaign makes this replica campaign immediately if the replica set has no leader.
func (m Membership) Campaign() {
	if g := m.host.ReplicaSets(); g != nil {
		g.runner.Call(func(h *raftgroup.Host) { h.Campaign(uint64(m.set.id)) })
	}
}

// ChangeMembers changes the members of the replica set. It returns when this replica has applied the change. The errors
// are *NotLeader, raftgroup.ErrMembersBusy, and ErrUncertain.
func (m Membership) ChangeMembers(ctx context.Context, changes []raftgroup.Change) error {
	g := m.host.ReplicaSets()
	if g == nil {
		return errNoReplicaSet
	}
	done := make(outcomeWaiter, 1)
	if !g.runner.Call(func(h *raftgroup.Host) { h.ChangeMembers(uint64(m.set.id), changes, done) }) {
		return ErrClosed
	}
	o, err := await(m.host.sim, waitLimit{ctx: ctx, ends: [2]chan struct{}{g.closed, g.stopped}}, done)
	switch {
	case err == nil:
		return m.set.ended(o)
	case errors.Is(err, errEnded):
		return ErrClosed
	}
	return err
}
