// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync"
	"sync/atomic"
)

// requestTracker counts the requests in progress at a replica, so that a closing replica can wait for them.
type requestTracker struct {
	// active is the number of requests in progress. When the replica starts to reject requests, closing is added to
	// active. drained is closed when active equals closing.
	active  atomic.Int64
	drained chan struct{}
	once    sync.Once
	closed  atomic.Bool
}

// closing is larger than the maximum number of concurrent requests.
const closing = int64(1) << 40

// begin registers a request. The caller must call end after a successful call.
func (q *requestTracker) begin() error {
	if q.active.Add(1) > closing {
		q.end()
		return ErrClosed
	}
	return nil
}

func (q *requestTracker) end() {
	if q.active.Add(-1) == closing {
		q.once.Do(func() { close(q.drained) })
	}
}

// refuseNew rejects new requests.
func (q *requestTracker) refuseNew() {
	if !q.closed.Swap(true) && q.active.Add(closing) == closing {
		q.once.Do(func() { close(q.drained) })
	}
}

// drain rejects new requests and waits for requests in progress.
func (q *requestTracker) drain(sim *SimHooks) {
	q.refuseNew()
	_, _ = await(sim, waitLimit{ctx: context.Background()}, q.drained)
}
