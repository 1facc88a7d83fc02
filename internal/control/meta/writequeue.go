// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"time"
)

// grantTimeout is the time for which the queue waits for a change after a grant. The caller may have crashed or be
// slow.
const grantTimeout = 200 * time.Millisecond

// Acquire queues callers that want to change the metadata. It returns the version on which the next change must be
// based. It is called on the Keeper of the node that leads the meta partition by the Keepers of all nodes
// (Member.AcquireFromLeader). A grant ends with the next change or after grantTimeout.
//
// The queue is an optimization: comparing versions makes changes safe. Without the queue, a node far from the leader
// would compute many states that conflict with changes of nearer nodes.
func (k *Keeper) Acquire(ctx context.Context) (version uint64, err error) {
	if err := k.lock(ctx, k.queue); err != nil { // callers are served in order
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

// acquire waits for this Keeper's grant to make a change based on version base. It returns false, with a newer state
// available, if another change was made in the meantime: the caller must compute its change again and still holds the
// grant. If the queue cannot be reached, it returns true.
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
