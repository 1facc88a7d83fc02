// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Drive takes the place of what needs goroutines and real time: with it a Host starts none, and nothing in it waits but through Wait.
// So a simulation runs all that the package decides, in one thread and from a seed.
type Drive struct {
	// Runner makes what runs the steps of the host's groups.
	Runner func(h *raftgroup.Host, m raftgroup.StateMachine, s raftgroup.SnapshotStore) Runner
	// Wait returns nil as soon as ready has said true, or why it never will: max is over, if it is not 0, or ctx has ended, or the node is
	// about to. ready must not be called again after it has said true. Locks of the host may be held meanwhile only by who makes and
	// removes replicas.
	Wait func(ctx context.Context, ready func() bool, max time.Duration) error
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
var errEnded = errors.New("the host is closed")

// patience bounds how long somebody waits.
type patience struct {
	ctx context.Context
	// ends are closed when it is in vain to wait on; nil ones never are.
	ends [2]chan struct{}
	// max is 0 for no bound.
	max time.Duration
}

// await returns what comes out of ready, or the error of the context, errEnded, or context.DeadlineExceeded after max.
func await[T any](d *Drive, p patience, ready <-chan T) (v T, err error) {
	if d != nil {
		err = d.Wait(p.ctx, func() bool {
			select {
			case v = <-ready:
				return true
			default:
				return false
			}
		}, p.max)
		return v, err
	}
	var over <-chan time.Time
	if p.max > 0 {
		timer := time.NewTimer(p.max)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case v = <-ready:
		return v, nil
	case <-p.ctx.Done():
		return v, p.ctx.Err()
	case <-p.ends[0]:
	case <-p.ends[1]:
	case <-over:
		return v, context.DeadlineExceeded
	}
	return v, errEnded
}
