// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// ticket is the right to read: what read is about to be passed on is true if confirm says so afterwards.
type ticket struct {
	g *raftgroup.Group
	// term and lease are those of a leader under its lease; term is 0 where nothing is to be confirmed.
	term, lease uint64
	// installs is set for a follower: a snapshot that was installed meanwhile spoils what was read.
	follower bool
	installs uint64
}

// read is Replica.Read in a cluster, linearizable but for ONE and LOCAL_ONE at a follower. Nothing is read twice: a
// leader that has a lease reads and looks at the clock then, and asks a quorum if the lease has ended meanwhile. One
// that has none asks before it reads, and so does a follower with here, which asks the leader: what it has applied then
// is all that had succeeded when the read began, whoever leads afterwards.
func (m *member) read(ctx context.Context, c *command.Read, v command.Visitor, here bool) error {
	t, err := m.admitRead(ctx, c, here)
	if err != nil {
		return err
	}
	r := m.replica
	s := r.state.Load()
	if m.isMeta() || c.Table != s.keys.Table || c.Key != nil && !s.span.Contains(c.Token, c.Key) || c.Key == nil && c.Epoch != 0 && c.Epoch != s.epoch {
		return r.wrongRange()
	}
	p := r.host.readers.Get().(*meter)
	p.begin(v)
	p.key = -1 // until something is passed on
	if c.Key != nil || p.narrow(c, s) {
		if c.Key == nil {
			c = &p.sub
		}
		err = r.host.store.Read(ctx, c, p)
	}
	passed := p.key >= 0
	r.count.read(ru.Read(ru.ShapeOf(c, p.rows), p.rows, p.bytes), p.rows, p.bytes)
	p.begin(nil)
	r.host.readers.Put(p)
	if err != nil {
		return err
	}
	if err := m.confirm(ctx, &t); err != nil {
		if passed && ctx.Err() == nil {
			return ErrUnconfirmed
		}
		return err
	}
	return nil
}

// admitRead decides how a read may be served, or returns *NotLeader.
func (m *member) admitRead(ctx context.Context, c *command.Read, here bool) (ticket, error) {
	g, term, err := m.leading()
	if err == nil {
		return m.admitLeader(ctx, g, term)
	}
	installs := m.installs.Load()
	g = m.group.Load()
	if g == nil || installs%2 != 0 || g.Applied() == 0 {
		return ticket{}, err
	}
	t := ticket{follower: true, installs: installs}
	if c.Level == dberr.One || c.Level == dberr.LocalOne {
		if g.Applied() < m.seen.Load() || !g.Fresh(m.cluster.clock.Now(), m.cluster.opts.StalenessMax) {
			return ticket{}, err
		}
		return t, nil
	}
	if !here {
		return ticket{}, err
	}
	return t, m.askLeader(ctx, g)
}

// askLeader returns when this follower has applied everything that had succeeded when askLeader was called.
func (m *member) askLeader(ctx context.Context, g *raftgroup.Group) error {
	done := m.cluster.answers.Get().(outcomes1)
	if err := m.cluster.runner.ReadIndex(g, done); err != nil {
		m.cluster.answers.Put(done)
		return m.refused(err)
	}
	o, err := await(m.cluster.opts.Drive, patience{ctx: ctx}, done)
	if err != nil {
		return err // the answer is still to come
	}
	m.cluster.answers.Put(done)
	if o.Err != nil {
		return m.refused(o.Err)
	}
	return nil
}

// admitLeader takes the lease, or asks a quorum where there is none.
func (m *member) admitLeader(ctx context.Context, g *raftgroup.Group, term uint64) (ticket, error) {
	if lease := g.Lease(); lease != 0 {
		return ticket{g: g, term: term, lease: lease}, nil
	}
	return ticket{}, m.askQuorum(ctx, g, term)
}

// askQuorum returns when a quorum has said that this replica led in term after askQuorum was called.
func (m *member) askQuorum(ctx context.Context, g *raftgroup.Group, term uint64) error {
	done := make(outcomes1, 1)
	if err := m.cluster.runner.ReadIndex(g, done); err != nil {
		return m.refused(err)
	}
	o, err := await(m.cluster.opts.Drive, patience{ctx: ctx}, done)
	if err != nil {
		return err
	}
	return m.stillLeads(g, term, o.Err)
}

// confirm returns nil if what was read may be used.
func (m *member) confirm(ctx context.Context, t *ticket) error {
	switch {
	case t.follower && m.installs.Load() != t.installs:
		return m.notLeader()
	case t.term == 0 || t.g.Leased(t.lease, m.cluster.clock.Now()):
		return nil
	}
	return m.askQuorum(ctx, t.g, t.term)
}

// last is Replica.Last in a cluster.
func (m *member) last(ctx context.Context) (int64, error) {
	if err := m.replica.begin(); err != nil {
		return 0, err
	}
	defer m.replica.end()
	g, term, err := m.leading()
	if err != nil {
		return 0, err
	}
	t := ticket{g: g, term: term, lease: g.Lease()}
	stamp := m.replica.stamps.last.Load()
	return stamp, m.confirm(ctx, &t)
}
