// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Drive takes the place of what needs goroutines and real time: with it a Host starts none, and nothing in it waits but
// through the scheduler. So a simulation runs all that the package decides, in one thread and from a seed.
type Drive struct {
	// Runner makes what runs the steps of the host's groups.
	Runner func(h *raftgroup.Host, m raftgroup.StateMachine, s raftgroup.SnapshotStore) Runner
	// Scheduler is a driven one. Locks of the host may be held over its waits only while replicas are made or removed.
	Scheduler *sched.Scheduler
}

// Runner is what a Host needs of raftgroup.Runner, which is one and says what the methods do.
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

// errEnded says that what was waited for cannot come any more.
var errEnded = sched.ErrEnded

// patience bounds how long somebody waits.
type patience struct {
	ctx context.Context
	// ends are closed when it is in vain to wait on; nil ones never are.
	ends [2]chan struct{}
	// max is 0 for no bound.
	max time.Duration
}

// scheduler is nil outside simulations.
func (d *Drive) scheduler() *sched.Scheduler {
	if d == nil {
		return nil
	}
	return d.Scheduler
}

// within is the patience of a caller that waits for longest at most, and not beyond the deadline of a context that has
// one, even if it does not end then.
func (d *Drive) within(ctx context.Context, longest time.Duration) patience {
	if at, ok := ctx.Deadline(); ok {
		longest = min(longest, max(d.scheduler().Until(at), 1))
	}
	return patience{ctx: ctx, max: longest}
}

// await is sched.Await, driven or real.
func await[T any](d *Drive, p patience, ready <-chan T) (T, error) {
	s := d.scheduler()
	return sched.Await(s, p.ctx, ready, p.max, p.ends[0], p.ends[1])
}
