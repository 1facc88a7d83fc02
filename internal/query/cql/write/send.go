// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// send sends all groups. It sends groups that depend on stored rows as conditionals and all other groups as one write.
// If a batch with list indexes consists of several groups, send sends one atomic write, even if the batch is unlogged.
// Otherwise, part of the batch could remain after a list operation has been rejected. Cassandra also reads the lists
// before it writes.
func (x *Execution) send(ctx context.Context, o coordinator.WriteOptions, serial dberr.Consistency) {
	if err := x.changes.checkSizes(&x.executor.opts); err != nil {
		x.finish(err)
		return
	}
	x.outcome.Warnings = x.changes.groups.warnLarge(&x.executor.opts, x.outcome.Warnings)
	if x.changes.conditional && serial == 0 {
		serial = dberr.Serial
	}
	decisions, together := int64(0), o.Atomic
	groups := x.changes.groups.all()
	for i := range groups {
		g := &groups[i]
		if g.needsLeader() {
			g.x = x
			g.prepare(&x.changes, x.claimant, serial)
			decisions++
			together = together || len(g.rows) > 0
		} else if len(g.ops) > 0 {
			x.mutations = append(x.mutations, g.mutation(x.claimant))
		}
	}
	if err := x.checkMaxCharge(ctx, decisions); err != nil {
		x.finish(err)
		return
	}
	apart := int64(0)
	if len(x.mutations) > 0 {
		apart = 1
	}
	x.pending.Store(max(decisions+apart, 1))
	if decisions > 0 && len(groups) > 1 && together && !x.changes.conditional && o.Type != "COUNTER" {
		x.pending.Store(1)
		o.Atomic = true
		for i := range groups {
			if g := &groups[i]; g.needsLeader() {
				o.Updates = append(o.Updates, &g.conditional)
			}
		}
		x.executor.coordinator.Write(ctx, x.mutations, o, x)
		return
	}
	switch {
	case decisions > 0:
		if apart > 0 { // groups of tables without a change log
			x.executor.coordinator.Write(ctx, x.mutations, o, x)
		}
		x.sendConditionals(ctx, o, decisions)
	case apart > 0:
		x.executor.coordinator.Write(ctx, x.mutations, o, x)
	default:
		x.Done(command.Outcome{})
	}
}

// sendConditionals sends the conditionals. After the last conditional has completed, another request may use x.
// Therefore, sendConditionals must not access the groups after it has sent the last conditional.
func (x *Execution) sendConditionals(ctx context.Context, o coordinator.WriteOptions, left int64) {
	for i := 0; left > 0; i++ {
		if g := &x.changes.groups.list[i]; g.needsLeader() {
			left--
			x.executor.coordinator.ConditionalWrite(ctx, &g.conditional, o, g)
		}
	}
}

// Done implements command.Completion. It completes the execution after all parts are complete.
func (x *Execution) Done(o command.Outcome) {
	x.charge.Add(o.Charge)
	if o.Err != nil {
		first := o.Err // a copy, so that only failures allocate memory
		x.failure.CompareAndSwap(nil, &first)
	}
	if x.pending.Add(-1) > 0 {
		return
	}
	if p := x.failure.Load(); p != nil {
		x.finish(*p)
		return
	}
	x.finish(nil)
}

// finish completes the execution and returns it to the pool.
func (x *Execution) finish(err error) {
	if err == nil && x.changes.conditional {
		r := conditionalResult{Outcome: &x.outcome, applied: x.columns, found: x.columnsFound,
			static: x.changes.static, clear: x.clear}
		if x.changes.groups.used > 0 {
			r.group = &x.changes.groups.list[0]
		}
		err = r.fill()
	}
	x.outcome.Err, x.outcome.Charge = err, ru.Units(x.charge.Load())
	x.done.Written(&x.outcome)
	x.done = nil
	x.changes.groups.reset()
	if cap(x.changes.arena) > pooledBytesMax || cap(x.outcome.Cells) > pooledBytesMax ||
		len(x.changes.groups.list) > pooledGroupsMax {
		return // the memory of a large batch is not retained
	}
	x.executor.pool.Put(x)
}

// Executions that exceed one of these limits are not returned to the pool.
const (
	pooledBytesMax  = 1 << 20
	pooledGroupsMax = 256
)
