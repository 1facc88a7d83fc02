// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"sync"
	"time"
)

// burst is the amount of work that a pace allows without waiting after a pause.
const burst = 100 * time.Millisecond

// Pace limits the rate of all goroutines that share it. The zero Pace is unlimited.
type Pace struct {
	// Rate is the number of rows per second; 0 means unlimited.
	Rate int

	mu   sync.Mutex // guards next
	next time.Time
}

// Wait waits until n rows are within the rate, or until the context ends.
func (p *Pace) Wait(ctx context.Context, n int) {
	if p.Rate <= 0 {
		return
	}
	now := time.Now()
	p.mu.Lock()
	if least := now.Add(-burst); p.next.Before(least) {
		p.next = least
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.Rate) * float64(time.Second)))
	left := p.next.Sub(now)
	p.mu.Unlock()
	if left <= 0 {
		return
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
