// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"sync"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// tasks runs the goroutines of a coordinator for retries and atomic batches.
type tasks struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	closed bool
	all    sched.Group
}

// start runs f on a goroutine. Close waits for this goroutine. If the coordinator is closed, start returns false.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.all.Go(f)
	return true
}

// Close stops all retries and batches and waits for their goroutines. Requests with an unknown outcome return an error.
// The caller must close the coordinator before the replicas. After Close, each request makes only one attempt.
func (c *Coordinator) Close() {
	t := &c.tasks
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.all.Wait()
}
