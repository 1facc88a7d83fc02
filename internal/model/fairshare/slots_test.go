// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/eventually"
)

// TestSlots checks that the number of concurrent callers never exceeds the number of slots. A freed slot must be
// granted to the principal with the lowest use. A caller whose context ends must not keep a slot.
func TestSlots(t *testing.T) {
	var now atomic.Int64
	s := NewSlots(1, func() time.Duration { return time.Duration(now.Load()) })
	greedy, modest := Principal{User: 1, Connection: 1}, Principal{User: 2, Connection: 2}
	if s.Enter(t.Context(), greedy, 0) != nil || s.TryEnter() || s.Used() != 1 {
		t.Fatal("a single slot was acquired twice or not at all")
	}
	order := make(chan Principal, 10)
	enter := func(who Principal, waiting int) {
		go func() {
			if s.Enter(context.Background(), who, 0) == nil {
				order <- who
			}
		}()
		eventually.True(t, "a caller waits", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.waiting) == waiting
		})
	}
	enter(greedy, 1)
	enter(greedy, 2)
	enter(modest, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Enter(ctx, modest, 0); !errors.Is(err, context.Canceled) || !s.Contended() {
		t.Errorf("a caller whose context has ended: %v", err)
	}
	s.Leave(modest, time.Millisecond)
	first := <-order
	s.Leave(first, time.Second)
	for range 2 {
		s.Leave(<-order, time.Second)
	}
	if s.Used() != 0 || s.Contended() {
		t.Errorf("%d slots are taken after all have left", s.Used())
	}
	s = NewSlots(1, func() time.Duration { return 0 })
	_ = s.Enter(t.Context(), greedy, 0)
	enter(greedy, 1)
	enter(modest, 2)
	s.Leave(greedy, time.Second)
	if first := <-order; first != modest {
		t.Error("the slot went to the principal with the highest use")
	}
	s.Leave(modest, 1)
	s.Leave(<-order, 1)
}
