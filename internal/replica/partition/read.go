// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Read passes the results of c in this partition to v, in order. It is linearizable at every consistency level, because
// only the leader serves it. If a range read contains an epoch, it must be the current epoch of the replica. Otherwise,
// the sender could skip a part of the range.
func (r *Replica) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	return r.read(ctx, c, v, false)
}

// ReadHere executes a read for a coordinator on this node. A follower may serve the read. At ONE and LOCAL_ONE, the
// follower does not contact the leader (P9). At other levels, the leader first returns the index that the follower must
// apply.
func (r *Replica) ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error {
	return r.read(ctx, c, v, true)
}

func (r *Replica) read(ctx context.Context, c *command.Read, v command.Visitor, here bool) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	lent, err := r.throughput.admitRead(c, here)
	if err != nil {
		return err
	}
	t, err := r.seq.admit(ctx, c.Level, here)
	if err != nil {
		return err
	}
	s := r.state.Load()
	if r.isMeta() || c.Table != s.keys.Table || s.frozen != 0 || c.Key != nil && !s.serves(c.Position()) ||
		c.Key == nil && c.Epoch != 0 && c.Epoch != s.epoch {
		return r.wrongRange()
	}
	p := r.host.readers.Get().(*readMeter)
	p.begin(v, c)
	f := newPushdown(ctx, r, c, v)
	if f != nil {
		defer func() { f.aggregation.Close(); r.host.pushdown.Add(-1) }()
		p.v = f
	}
	horizon := r.horizon.Load() // load horizon before reading the store, because later writes have higher timestamps
	switch {
	case c.Key == nil && !p.narrow(s):
	case c.Changes != nil && c.Changes.Horizon:
		err = p.horizon(s, horizon)
	default:
		err = r.host.store.Read(ctx, p.c, p)
	}
	err = staleIndex(err)
	price, passed := p.Price(c), p.passed && f == nil
	if f != nil && !f.failed { // the reader repeats a failed aggregation and is charged then
		price += f.aggregation.Charge()
	}
	r.load.recordRead(c.Principal, lent, kindOf(c, p.Rows), price, p.Rows, p.Bytes, c.Token, c.Key)
	if err == nil {
		err = r.seq.confirmRead(ctx, t, p.c)
		if err != nil && passed && (t.follower || t.term != 0) && ctx.Err() == nil {
			err = ErrUnconfirmed
		}
	}
	if err == nil && r.state.Load().lost(c, s) {
		if err = r.wrongRange(); passed {
			err = ErrUnconfirmed
		}
	}
	if err == nil && f != nil {
		err = f.tell(p)
	}
	if err == nil {
		ru.Tell(v, price)
		r.throughput.lend(c, v, lent)
	}
	p.begin(nil, nil)
	r.host.readers.Put(p)
	return err
}

// staleIndex converts the store's error for a dropped index to the partition's error for an outdated plan.
func staleIndex(err error) error {
	if err != nil && errors.Is(err, storage.ErrNoIndex) {
		return ErrStaleSchema
	}
	return err
}

// lost reports whether data of c may have moved to another partition since the replica was in state before. The other
// partition may have changed the data before this replica read it.
func (s *state) lost(c *command.Read, before *state) bool {
	return s != before && (s.frozen != 0 || c.Key == nil && s.epoch != before.epoch ||
		c.Key != nil && !s.serves(c.Position()))
}

// LookLed works like Look on a leader that has applied all previously acknowledged writes. It returns *NotLeader if the
// replica does not lead.
func (r *Replica) LookLed(ctx context.Context, q *command.Read, v command.Visitor) error {
	t := r.seq.lease()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := r.Look(ctx, q, v); err != nil {
		return err
	}
	return r.seq.confirmRead(ctx, t, q)
}

// Look reads the state that this replica has applied, regardless of other replicas. It charges no request units and
// does not confirm the result.
func (r *Replica) Look(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	s := r.state.Load()
	if r.isMeta() || q.Table != s.keys.Table || !s.serves(q.Position()) {
		return r.wrongRange()
	}
	if err := r.host.store.Read(ctx, q, v); err != nil {
		return err
	}
	if r.state.Load().lost(q, s) {
		return r.wrongRange()
	}
	return nil
}
