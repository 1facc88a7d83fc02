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

// start runs f on a goroutine that Close waits for. It returns false if the coordinator is closed.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.all.Go(f)
	return true
}

// Close stops retries and batches in progress, with an error if the outcome is unknown, and waits for their goroutines.
// It must be called before the replicas are closed. Later requests get a single attempt.
func (c *Coordinator) Close() {
	t := &c.tasks
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.all.Wait()
}
