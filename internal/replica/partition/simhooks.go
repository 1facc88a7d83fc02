// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// SimHooks replaces goroutines and real time in simulations. A Host with SimHooks starts no goroutines and waits only
// through the scheduler. A simulation can therefore run all code of the package deterministically in one goroutine.
type SimHooks struct {
	// Runner returns the runner for the steps of the host's groups.
	Runner func(h *raftgroup.Host, m raftgroup.StateMachine, s raftgroup.SnapshotStore) Runner
	// Scheduler is a simulated scheduler. Only the creation and removal of replicas may hold locks of the host while it
	// waits.
	Scheduler *sched.Scheduler
}

// Runner is the part of raftgroup.Runner that a Host needs.
type Runner interface {
	Start()
	Close() error
	Failed() error
	Receive(from raftgroup.NodeID, frame []byte) error
	ReceiveSnapshot(from raftgroup.NodeID, stream io.Reader) error
	Propose(g *raftgroup.Group, term uint64, data []byte, waiter raftgroup.Waiter) error
	ReadIndex(g *raftgroup.Group, waiter raftgroup.Waiter) error
	Call(f func(*raftgroup.Host)) bool
	Do(f func(*raftgroup.Host)) error
}

// errEnded means that the awaited event can no longer occur.
var errEnded = sched.ErrEnded

// waitLimit limits a wait.
type waitLimit struct {
	ctx context.Context
	// ends are channels that are closed when the wait has become useless. They may be nil.
	ends [2]chan struct{}
	// max is the maximum duration. If max is 0, the duration is unlimited.
	max time.Duration
}

// scheduler returns nil outside simulations.
func (d *SimHooks) scheduler() *sched.Scheduler {
	if d == nil {
		return nil
	}
	return d.Scheduler
}

// limit returns a waitLimit for a wait of up to longest. The wait also ends at the deadline of ctx, even if ctx does
// not end at its deadline.
func (d *SimHooks) limit(ctx context.Context, longest time.Duration) waitLimit {
	if at, ok := ctx.Deadline(); ok {
		longest = min(longest, max(d.scheduler().Until(at), 1))
	}
	return waitLimit{ctx: ctx, max: longest}
}

// await calls sched.Await with the simulated scheduler, if any.
func await[T any](d *SimHooks, p waitLimit, ready <-chan T) (T, error) {
	s := d.scheduler()
	return sched.Await(s, p.ctx, ready, p.max, p.ends[0], p.ends[1])
}
