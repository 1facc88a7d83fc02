// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// localReads holds the conditions under which a follower serves reads at ONE and LOCAL_ONE to its own node (P9).
type localReads struct {
	// acknowledged is the highest index that has been acknowledged to this node.
	acknowledged atomic.Uint64
	// since is the raftgroup.Instant at which the node began to use the replica. acknowledged does not include indexes
	// from before this instant. A replica that serves local reads must therefore have received a message from the
	// leader after this instant.
	since atomic.Int64
}

// markFound records that the node uses the replica from now on.
func (l *localReads) markFound(now raftgroup.Instant) { l.since.Store(int64(now)) }

// freshEnough returns the maximum age of the last message from the leader at which a follower may serve local reads.
func (l *localReads) freshEnough(now raftgroup.Instant, most time.Duration) time.Duration {
	return min(most, time.Duration(int64(now)-l.since.Load()))
}

func (l *localReads) noteAcknowledged(index uint64) {
	for {
		old := l.acknowledged.Load()
		if old >= index || l.acknowledged.CompareAndSwap(old, index) {
			return
		}
	}
}
