// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// localSequencer is the sequencer of a partition without other replicas. It always leads in a single term.
type localSequencer struct {
	c       *committer
	replica *Replica
	self    raftgroup.Member
	term    uint64
}

// sequencer implements sequencers.
func (c *committer) sequencer(r *Replica, meta *keys.Meta) sequencer {
	s := &localSequencer{c: c, replica: r, term: meta.Term}
	if places := memberNodes(meta); len(places) > 0 {
		s.self = places[0]
	}
	return s
}

func (s *localSequencer) evaluating() uint64 { return s.term }

func (s *localSequencer) leader() (raftgroup.Member, bool) { return s.self, s.self.Replica != 0 }

func (s *localSequencer) applied() uint64 { return s.replica.visible.Load() }

func (s *localSequencer) propose(_ uint64, entry []byte, w raftgroup.Waiter) error {
	return s.c.propose(proposal{replica: s.replica, entry: entry, waiter: w})
}

func (s *localSequencer) lease() leaseToken { return leaseToken{term: s.term} }

func (s *localSequencer) admit(context.Context, dberr.Consistency, bool) (leaseToken, error) {
	return leaseToken{}, nil
}

// confirmRead implements sequencer. It waits until all writes that the read has seen are durable (P5).
func (s *localSequencer) confirmRead(ctx context.Context, _ leaseToken, q *command.Read) error {
	u := s.c.unsynced
	if u == nil || q == nil {
		return nil
	}
	number := s.c.begun.Load()
	if q.Key != nil {
		number = max(u.slot(q.Table, q.Token).Load(), s.replica.wholeBatch.Load())
	}
	if number <= s.c.synced.Load() {
		return nil
	}
	done := make(outcomeWaiter, 1)
	if err := s.c.durable(number, done); err != nil {
		return err
	}
	select {
	case o := <-done:
		return o.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirmAsync implements sequencer.
func (s *localSequencer) confirmAsync(_ leaseToken, table uint32, tok token.Token, then func(error)) error {
	number := uint64(0)
	if u := s.c.unsynced; u != nil {
		number = max(u.slot(table, tok).Load(), s.replica.wholeBatch.Load())
	}
	return s.c.durable(number, waiterFunc(func(o raftgroup.Outcome) { then(o.Err) }))
}
