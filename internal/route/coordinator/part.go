// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// partsAtOnce is how many parts of a batch are carried out at a time.
const partsAtOnce = 8

// stampedBy says what stamp the parts of a recorded batch get.
type stampedBy bool

const (
	// byLeader is for the batch's own coordinator: the leader stamps a part when it applies it, as it does any write,
	// so the batch is not hidden by a write of the key that came between.
	byLeader stampedBy = false
	// byBatch is for a batch whose coordinator has given up. Nobody was told that it has succeeded, and clients have
	// gone on: what they have written since stays, as the batch's own stamp is older.
	byBatch stampedBy = true
)

// acknowledgedIn is how long after its stamp a batch's own coordinator may acknowledge it, by a clock that goes on
// while the machine is suspended: WriteTimeout from the stamp to the record, and again from there to the end.
func (o *Options) acknowledgedIn() time.Duration { return 2*o.WriteTimeout + time.Second }

// clocksApart is more than the clocks of two nodes may differ, each of which is within a second of a quorum's.
const clocksApart = 3 * time.Second

// abandoned reports whether the batch's own coordinator has certainly given up.
func (c *Coordinator) abandoned(r *record) bool {
	return c.opts.Now().UnixMicro()-r.stamp > (c.opts.acknowledgedIn() + clocksApart).Microseconds()
}

// carryOut applies all parts of a recorded batch that are not applied yet; each has errand e. charge is told what each
// has cost, if it is not nil.
func (c *Coordinator) carryOut(ctx context.Context, r *record, e errand, by stampedBy, charge func(ru.Units)) error {
	return inParallel(c.sched, partsAtOnce, len(r.parts), func(i int) error {
		own := e
		return own.part(ctx, r, i, by, charge)
	})
}

// part applies a part once: its id is kept beside its rows by whoever applies it. A part that was planned for an older
// schema is planned anew, so it makes the entries of indexes that were made meanwhile.
func (e *errand) part(ctx context.Context, r *record, i int, by stampedBy, charge func(ru.Units)) error {
	u := *r.parts[i]
	u.Mutation.Dedupe = command.DedupeID{Coordinator: r.id, Sequence: uint64(i)}
	u.Mutation.Timestamp = r.issued // which says that it is a part
	if by == byBatch {
		stampAs(&u, r.stamp)
	}
	for {
		d, err := e.decide(ctx, &u)
		switch {
		case err == nil && charge != nil:
			charge(ru.Units(d.Charge))
			return nil
		case err == nil || errors.Is(err, ErrUnknownTable):
			return nil
		case errors.Is(err, ErrStaleSchema):
			if err := e.c.cluster.Batches.Replan(&u); errors.Is(err, ErrUnknownTable) {
				return nil
			} else if err != nil {
				return err
			}
		case len(u.Updates) > 0 && isInvalid(err):
			if err := e.dropGone(ctx, &u); err != nil {
				return err
			}
		default:
			return err
		}
		if e.wait(ctx, new(target), e.c.view.Load()) != nil {
			return err
		}
	}
}

// stampAs gives what is Unstamped a stamp.
func stampAs(u *command.Conditional, stamp int64) {
	for i := range u.Mutation.Ops {
		if o := &u.Mutation.Ops[i]; o.Kind != command.OpIndex {
			row.Stamp(o.Operand, stamp)
		}
	}
	for i := range u.Updates {
		if u.Updates[i].Timestamp == row.Unstamped {
			u.Updates[i].Timestamp = stamp
		}
	}
}

// decide has a conditional carried out by its leader, however often it has to be sent.
func (e *errand) decide(ctx context.Context, u *command.Conditional) (d *command.Decision, err error) {
	encoded := command.AppendConditional(nil, u)
	err = e.run(ctx, "Writing to", locator(&u.Mutation),
		func(ctx context.Context, t *target, p *topology.Partition) error {
			fresh := new(command.Conditional)
			if err := command.DecodeConditional(fresh, bytes.Clone(encoded)); err != nil {
				return err
			}
			fresh.Mutation.Epoch = p.Epoch
			done := &ending{told: make(chan struct{}), target: *t}
			if err := t.member.Decide(ctx, fresh, done); err != nil {
				return err
			}
			var err error
			if d, err = done.wait(ctx); err == nil {
				noteCharge(trace.From(ctx), p.ID, ru.Units(d.Charge))
			}
			return err
		})
	return d, err
}

// dropGone drops the updates of a part that cannot be carried out any more: the element of the list that they address
// was there when the batch was recorded, and somebody has removed it since. It is as if that had come after the batch.
func (e *errand) dropGone(ctx context.Context, u *command.Conditional) error {
	found, err := e.find(ctx, u)
	if err != nil {
		return err
	}
	var kept []command.Update
	tried := *u
	for i := range u.Updates {
		tried.Updates = append(kept, u.Updates[i])
		switch _, err := command.Resolve(nil, &tried, found, row.Unstamped); {
		case err == nil:
			kept = tried.Updates
		case !isInvalid(err):
			return err
		}
	}
	u.Updates = kept
	return nil
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*dberr.Invalid](err)
	return ok
}
