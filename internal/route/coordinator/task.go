// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"sync"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// tasks runs the goroutines of a coordinator: retries and atomic batches.
type tasks struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	closed bool
	all    sched.Group
}

// start runs f on a goroutine. Close waits for the goroutine. start returns false if the coordinator is closed.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.all.Go(f)
	return true
}

// Close stops retries and batches in progress, and waits for their goroutines. Requests whose outcome is unknown return
// an error. Close must be called before the replicas are closed. Later requests make only a single attempt.
func (c *Coordinator) Close() {
	t := &c.tasks
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.all.Wait()
}
