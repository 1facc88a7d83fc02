// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// expensive is a context that allows only the use of the deadline.
type expensive struct {
	context.Context
	t  *testing.T
	at time.Time
}

func (e *expensive) Deadline() (time.Time, bool) { return e.at, true }

func (e *expensive) Done() <-chan struct{} {
	e.t.Error("the Done channel was requested")
	return nil
}

// TestResponseWait checks that a wait for the leader's response allocates no memory, does not use the context's Done
// channel, and ends at the deadline.
func TestResponseWait(t *testing.T) {
	a := newIndexWaiter()
	ctx := &expensive{t.Context(), t, time.Now().Add(time.Hour)}
	var got raftgroup.Outcome
	n := testing.AllocsPerRun(100, func() {
		a.outcome.Done(raftgroup.Outcome{Index: 7})
		got, _ = a.wait(ctx, nil)
	})
	if n > 0 || got.Index != 7 {
		t.Errorf("%v allocations, %+v", n, got)
	}
	ctx.at = time.Now().Add(-time.Second)
	for range 2 { // the timer can be reused
		if _, err := a.wait(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.wait(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without a deadline: %v", err)
	}
}
