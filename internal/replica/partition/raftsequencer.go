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
	*raft
	replica *Replica
	// group is nil until the group is open.
	group atomic.Pointer[raftgroup.Group]
	// installs counts the beginnings and ends of installations: it is odd during one.
	installs atomic.Uint64
}

// sequencer implements sequencers.
func (g *raft) sequencer(r *Replica, _ *keys.Meta) sequencer {
	return &raftSequencer{raft: g, replica: r}
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

// admit implements sequencer. A leader that has a lease reads at once and looks at the clock then; one that has none
// asks a quorum before it reads, and so does a follower with here, which asks the leader: what it has applied then is
// all that had succeeded when the read began, whoever leads afterwards. A follower serves ONE and LOCAL_ONE without
// (P9), but to its own node only: it does not know what another one has seen.
func (s *raftSequencer) admit(ctx context.Context, level dberr.Consistency, here bool) (ticket, error) {
	if term := s.evaluating(); term != 0 {
		if lease := s.group.Load().Lease(); lease != 0 {
			return ticket{term: term, lease: lease}, nil
		}
		return ticket{}, s.askQuorum(ctx, term)
	}
	installs := s.installs.Load()
	g := s.group.Load()
	if g == nil || installs%2 != 0 || g.Applied() == 0 {
		return ticket{}, s.replica.notLeader()
	}
	t := ticket{follower: true, installs: installs}
	switch {
	case !here:
		return ticket{}, s.replica.notLeader()
	case level.OneReplica():
		now := s.host.clock.Now()
		if g.Applied() < s.replica.seen.Load() || !g.Fresh(now, s.replica.freshEnough(now, s.opts.StalenessMax)) {
			return ticket{}, s.replica.notLeader()
		}
		return t, nil
	}
	return t, s.askLeader(ctx, g)
}

// askLeader returns when this follower has applied everything that had succeeded when askLeader was called.
func (s *raftSequencer) askLeader(ctx context.Context, g *raftgroup.Group) error {
	a := s.answers.Get().(*answer)
	if err := s.runner.ReadIndex(g, a.told); err != nil {
		s.answers.Put(a)
		return s.replica.refused(err)
	}
	o, err := a.wait(ctx, s.host.drive)
	if err != nil {
		return err // the answer is still to come
	}
	s.answers.Put(a)
	if o.Err != nil {
		return s.replica.refused(o.Err)
	}
	return nil
}

func (s *raftSequencer) hold() (t ticket) {
	if t.term = s.evaluating(); t.term != 0 {
		t.lease = s.group.Load().Lease()
	}
	return t
}

// askQuorum returns when a quorum has said that this replica led in term after askQuorum was called.
func (s *raftSequencer) askQuorum(ctx context.Context, term uint64) error {
	done := make(outcomeWaiter, 1)
	if err := s.runner.ReadIndex(s.group.Load(), done); err != nil {
		return s.replica.refused(err)
	}
	o, err := await(s.host.drive, patience{ctx: ctx}, done)
	if err != nil {
		return err
	}
	return s.stillLeads(term, o.Err)
}

// stillLeads translates the outcome of a read index that is to confirm what was read before it in a term.
func (s *raftSequencer) stillLeads(term uint64, err error) error {
	if err != nil {
		return s.replica.refused(err)
	}
	if s.evaluating() != term {
		return s.replica.notLeader()
	}
	return nil
}

func (s *raftSequencer) confirm(ctx context.Context, t ticket, _ *command.Read) error {
	switch {
	case t.follower && s.installs.Load() != t.installs:
		return s.replica.notLeader()
	case t.term == 0 || s.group.Load().Leased(t.lease, s.host.clock.Now()):
		return nil
	}
	return s.askQuorum(ctx, t.term)
}

// confirmed implements sequencer: by the clock under the lease from before, else by asking a quorum now.
func (s *raftSequencer) confirmed(t ticket, _ uint32, _ token.Token, then func(error)) error {
	g := s.group.Load()
	if g.Leased(t.lease, s.host.clock.Now()) {
		then(nil)
		return nil
	}
	term := t.term
	return s.runner.ReadIndex(g, waiting(func(o raftgroup.Outcome) { then(s.stillLeads(term, o.Err)) }))
}
