// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"time"
)

// turnMax is how long a turn lasts in which nothing is changed: whoever had it is gone, or slow.
const turnMax = 200 * time.Millisecond

// Enter waits in line with all callers that want to change the records, and returns the version that the next change is
// to be based on. It is for the keeper of the node that leads the meta partition: the keepers of all nodes ask there
// (Options.Line). A turn ends with the next change, or after turnMax.
//
// A turn is no right: what makes changes safe is that each is compared with the version it is based on. Without turns
// they are as safe, but a node far from the leader computes for many others before its own change is the first.
func (k *Keeper) Enter(ctx context.Context) (version uint64, err error) {
	if err := k.hold(ctx, k.line); err != nil { // in the order in which they came
		return 0, err
	}
	defer k.line.release()
	select {
	case <-k.closing:
		return 0, ErrClosed
	default:
	}
	if left := k.sched.Until(k.ends); left > 0 {
		turn, cancel := k.sched.WithTimeout(ctx, left)
		defer cancel()
		if _, err := k.after(turn, k.granted); errors.Is(err, ErrClosed) {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	k.granted, k.ends = k.State().Version, k.sched.Now().Add(turnMax)
	return k.granted, nil
}

// enter waits for this keeper's turn to make a change that is based on a version. It returns false, with a newer state,
// if the one before made a change: compute again, the turn is still this keeper's. Where nobody can be asked it is as
// if it were.
func (k *Keeper) enter(ctx context.Context, base uint64) bool {
	if k.opts.Line == nil {
		return true
	}
	version, err := k.opts.Line(ctx)
	if err != nil || version <= base {
		return true
	}
	k.Reload(version)
	_, err = k.after(ctx, version-1)
	return err != nil
}
