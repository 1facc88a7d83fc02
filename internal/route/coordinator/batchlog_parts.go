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

// partsAtOnce is the maximum number of batch parts that are applied concurrently.
const partsAtOnce = 8

// stampSource determines the timestamps of the parts of a batch log entry.
type stampSource bool

const (
	// leaderStamp is used by the batch's own coordinator. The leader assigns the timestamp when it applies a part. An
	// earlier write to the same key therefore cannot hide the batch.
	leaderStamp stampSource = false
	// batchStamp is used for a batch whose coordinator has abandoned it. The batch has not been acknowledged, and
	// clients may have written new values in the meantime. The low timestamp of the batch preserves these values.
	batchStamp stampSource = true
)

// ackWindow returns the maximum time between a batch's timestamp and its acknowledgment. Writing the batch log entry
// takes at most WriteTimeout, and applying the parts takes at most WriteTimeout. The clock that measures both times
// includes the time during which the machine is suspended.
func (o *Options) ackWindow() time.Duration { return 2*o.WriteTimeout + time.Second }

// clockSkewMax is the maximum difference between the clocks of two nodes. Each clock differs from the clocks of a
// quorum by at most one second.
const clockSkewMax = 3 * time.Second

// abandoned reports whether the batch is so old that its own coordinator must have abandoned it.
func (o *Options) abandoned(r *batchlogEntry) bool {
	return o.Clock.Wall().UnixMicro()-r.stamp > (o.ackWindow() + clockSkewMax).Microseconds()
}

// applyParts applies all parts of a batch log entry that have not been applied. Each part uses a copy of the request e.
// If charge is not nil, applyParts calls it with the cost of each part.
func (c *Coordinator) applyParts(ctx context.Context, r *batchlogEntry, e routedRequest, by stampSource,
	charge func(ru.Units)) error {
	return inParallel(c.sched, partsAtOnce, len(r.parts), func(i int) error {
		own := e
		return own.applyPart(ctx, r, i, by, charge)
	})
}

// applyPart applies a part exactly once. The replica stores the ID of the part together with the rows. If the schema
// has changed, applyPart plans the part again, so that the part includes the entries of new indexes.
func (e *routedRequest) applyPart(ctx context.Context, r *batchlogEntry, i int, by stampSource,
	charge func(ru.Units)) error {
	u := *r.parts[i]
	u.Mutation.Dedupe = command.DedupeID{Coordinator: r.id, Sequence: uint64(i)}
	u.Mutation.Timestamp = r.issued // marks the update as a part of a batch
	if by == batchStamp {
		setTimestamp(&u, r.stamp)
	}
	for {
		d, err := e.conditionalWrite(ctx, &u)
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
			if err := e.dropMissing(ctx, &u); err != nil {
				return err
			}
		default:
			return err
		}
		if e.waitToRetry(ctx, new(target), e.c.view.Load()) != nil {
			return err
		}
	}
}

// setTimestamp sets the timestamp of all Unstamped operands.
func setTimestamp(u *command.Conditional, stamp int64) {
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

// conditionalWrite sends a conditional write to the partition's leader and retries if necessary.
func (e *routedRequest) conditionalWrite(ctx context.Context, u *command.Conditional) (d *command.CASResult,
	err error) {
	encoded := command.AppendConditional(nil, u)
	err = e.run(ctx, "Writing to", locator(&u.Mutation),
		func(ctx context.Context, t *target, p *topology.Partition) error {
			fresh := new(command.Conditional)
			if err := command.DecodeConditional(fresh, bytes.Clone(encoded)); err != nil {
				return err
			}
			fresh.Mutation.Epoch = p.Epoch
			done := newWaiter(t)
			if err := t.member.ConditionalWrite(ctx, fresh, done); err != nil {
				return err
			}
			o := done.wait(ctx)
			if d = o.CAS; d != nil {
				noteCharge(trace.From(ctx), p.ID, ru.Units(d.Charge))
			}
			return o.Err
		})
	return d, err
}

// dropMissing removes the updates of list elements that were removed after the batch was recorded. The result is the
// same as if the elements had been removed after the batch.
func (e *routedRequest) dropMissing(ctx context.Context, u *command.Conditional) error {
	found, err := e.findRows(ctx, u)
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
