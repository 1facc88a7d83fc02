// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"sync"
	"time"
)

// burst is how much a pace lets through at once after a pause.
const burst = 100 * time.Millisecond

// Pace bounds how much is done in a second, by all that share it. The zero Pace does not.
type Pace struct {
	// Rate is how many rows a second, 0 for as many as there are.
	Rate int

	mu   sync.Mutex // guards next
	next time.Time
}

// Wait waits until n rows may be done; it ends early with the context.
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
