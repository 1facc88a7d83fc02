// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// raftSequencer is the sequencer of a replica that is a member of a Raft group.
type raftSequencer struct {
	*ReplicaSets
	replica *Replica
	// group is nil until the group is open.
	group atomic.Pointer[raftgroup.Group]
	// installs counts the starts and ends of installations. It is odd during an installation.
	installs atomic.Uint64
}

// sequencer implements sequencers.
func (g *ReplicaSets) sequencer(r *Replica, _ *keys.Meta) sequencer {
	return &raftSequencer{ReplicaSets: g, replica: r}
}

func (s *raftSequencer) evaluating() uint64 {
	if g := s.group.Load(); g != nil {
		term, _ := g.Evaluating()
		return term
	}
	return 0
}

func (s *raftSequencer) leader() (m raftgroup.Member, ok bool) {
	if g := s.group.Load(); g != nil {
		return g.Leader()
	}
	return m, false
}

func (s *raftSequencer) applied() uint64 {
	if g := s.group.Load(); g != nil {
		return g.Applied()
	}
	return 0
}

func (s *raftSequencer) propose(term uint64, entry []byte, w raftgroup.Waiter) error {
	return s.runner.Propose(s.group.Load(), term, entry, w)
}

// admit implements sequencer. A leader with a lease reads immediately and checks the clock afterward. A leader without
// a lease contacts a quorum before it reads. If here is true, a follower requests an index from the leader. When the
// follower has applied this index, its state contains all writes that had succeeded when the read began, even after a
// leader change. At ONE and LOCAL_ONE, a follower serves reads from the local node without contacting the leader (P9).
// It does not know which writes were acknowledged to other nodes.
func (s *raftSequencer) admit(ctx context.Context, level dberr.Consistency, here bool) (leaseToken, error) {
	if term := s.evaluating(); term != 0 {
		if lease := s.group.Load().Lease(); lease != 0 {
			return leaseToken{term: term, lease: lease}, nil
		}
		return leaseToken{}, s.askQuorum(ctx, term)
	}
	installs := s.installs.Load()
	g := s.group.Load()
	if g == nil || installs%2 != 0 || g.Applied() == 0 {
		return leaseToken{}, s.replica.notLeader()
	}
	t := leaseToken{follower: true, installs: installs}
	switch {
	case !here:
		return leaseToken{}, s.replica.notLeader()
	case level.OneReplica():
		now := s.host.clock.Now()
		if g.Applied() < s.replica.local.acknowledged.Load() || !g.Fresh(now,
			s.replica.local.freshEnough(now, s.opts.StalenessMax)) {
			return leaseToken{}, s.replica.notLeader()
		}
		return t, nil
	}
	return t, s.askLeader(ctx, g)
}

// askLeader waits until this follower has applied all writes that had succeeded when askLeader was called.
func (s *raftSequencer) askLeader(ctx context.Context, g *raftgroup.Group) error {
	a := s.indexWaiters.Get().(*indexWaiter)
	if err := s.runner.ReadIndex(g, a.outcome); err != nil {
		s.indexWaiters.Put(a)
		return s.replica.refused(err)
	}
	o, err := a.wait(ctx, s.host.sim)
	if err != nil {
		return err // the outcome is still pending
	}
	s.indexWaiters.Put(a)
	if o.Err != nil {
		return s.replica.refused(o.Err)
	}
	return nil
}

func (s *raftSequencer) lease() (t leaseToken) {
	if t.term = s.evaluating(); t.term != 0 {
		t.lease = s.group.Load().Lease()
	}
	return t
}

// askQuorum waits until a quorum has confirmed that this replica led in the given term after askQuorum was called.
func (s *raftSequencer) askQuorum(ctx context.Context, term uint64) error {
	done := make(outcomeWaiter, 1)
	if err := s.runner.ReadIndex(s.group.Load(), done); err != nil {
		return s.replica.refused(err)
	}
	o, err := await(s.host.sim, waitLimit{ctx: ctx}, done)
	if err != nil {
		return err
	}
	return s.stillLeads(term, o.Err)
}

// stillLeads converts the error of a read index that confirms an earlier read in the given term.
func (s *raftSequencer) stillLeads(term uint64, err error) error {
	if err != nil {
		return s.replica.refused(err)
	}
	if s.evaluating() != term {
		return s.replica.notLeader()
	}
	return nil
}

func (s *raftSequencer) confirmRead(ctx context.Context, t leaseToken, _ *command.Read) error {
	switch {
	case t.follower && s.installs.Load() != t.installs:
		return s.replica.notLeader()
	case t.term == 0 || s.group.Load().Leased(t.lease, s.host.clock.Now()):
		return nil
	}
	return s.askQuorum(ctx, t.term)
}

// confirmAsync implements sequencer. It uses the lease if the lease is still valid, and contacts a quorum otherwise.
func (s *raftSequencer) confirmAsync(t leaseToken, _ uint32, _ token.Token, then func(error)) error {
	g := s.group.Load()
	if g.Leased(t.lease, s.host.clock.Now()) {
		then(nil)
		return nil
	}
	term := t.term
	return s.runner.ReadIndex(g, waiterFunc(func(o raftgroup.Outcome) { then(s.stillLeads(term, o.Err)) }))
}
