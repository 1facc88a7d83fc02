// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"time"
)

// grantTimeout is the time for which the queue waits for a change after a grant. The timeout is necessary because the
// caller may have crashed.
const grantTimeout = 200 * time.Millisecond

// Acquire queues callers that want to change the metadata, and returns the version on which the next change must be
// based. The Keepers of all nodes call Acquire on the leader of the meta partition (see Member.AcquireFromLeader). A
// grant ends with the next change or after grantTimeout.
//
// The queue is an optimization that avoids conflicts. Without the queue, the changes of a node far from the leader
// would often conflict with the changes of nearer nodes.
func (k *Keeper) Acquire(ctx context.Context) (version uint64, err error) {
	if err := k.lock(ctx, k.queue); err != nil { // the lock serves callers in order
		return 0, err
	}
	defer k.queue.release()
	select {
	case <-k.closing:
		return 0, ErrClosed
	default:
	}
	if left := k.sched.Until(k.grantExpires); left > 0 {
		turn, cancel := k.sched.WithTimeout(ctx, left)
		defer cancel()
		if _, err := k.awaitNewer(turn, k.grantedVersion); errors.Is(err, ErrClosed) {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	k.grantedVersion, k.grantExpires = k.State().Version, k.sched.Now().Add(grantTimeout)
	return k.grantedVersion, nil
}

// acquire waits for a grant to make a change based on version base. It returns false if another change was made during
// the wait. A newer state is then available, and the caller must compute its change again. The caller still holds the
// grant. acquire returns true if the queue cannot be reached.
func (k *Keeper) acquire(ctx context.Context, base uint64) bool {
	if k.opts.Member == nil {
		return true
	}
	version, err := k.opts.Member.AcquireFromLeader(ctx)
	if err != nil || version <= base {
		return true
	}
	k.Reload(version)
	_, err = k.awaitNewer(ctx, version-1)
	return err != nil
}
