// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

// Pace limits the rate of all goroutines that share it. The zero Pace imposes no limit. After a pause, it allows an
// amount of work that corresponds to 100 ms without a wait.
type Pace struct {
	// Rate is the number of rows per second. The value 0 means unlimited.
	Rate int

	once    sync.Once
	limiter *rate.Limiter
}

// Wait waits until n more rows can be processed without exceeding the rate, or until the context ends.
func (p *Pace) Wait(ctx context.Context, n int) {
	if p.Rate <= 0 {
		return
	}
	p.once.Do(func() { p.limiter = rate.NewLimiter(rate.Limit(p.Rate), max(p.Rate/10, 1)) })
	for ; n > 0 && ctx.Err() == nil; n -= p.limiter.Burst() {
		_ = p.limiter.WaitN(ctx, min(n, p.limiter.Burst())) // an error means that the context has ended
	}
}
