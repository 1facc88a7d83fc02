// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/token"
)

// unsettled knows which keys have writes that readers see and a crash could still take back. A reader that met one waits for the next
// sync (P5): what somebody has read is never lost.
//
// Keys share slots by their hash, so a reader may wait in vain, which with slotCount slots is rare. A slot counts in its low bits the
// writes that are being applied, and holds above them the number of the sync that makes the last one of those before durable.
type unsettled struct {
	c     *committer
	slots []slot
}

type slot struct{ v atomic.Uint64 }

const (
	// slotCount is a power of two.
	slotCount    = 1 << 16 // indexed by the highest 16 bits of a hash
	applyingBits = 20
	applyingMask = 1<<applyingBits - 1
)

func newUnsettled(c *committer) *unsettled {
	return &unsettled{c: c, slots: make([]slot, slotCount)}
}

func (u *unsettled) slot(table uint32, t token.Token) *slot {
	h := (uint64(t) ^ uint64(table)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return &u.slots[h>>48]
}

// enter comes before a write is applied, leave after it.
func (s *slot) enter() { s.v.Add(1) }

func (s *slot) leave(c *committer) {
	// A sync that has begun may miss the write, the next one cannot.
	next := c.begun.Load() + 1
	for {
		old := s.v.Load()
		if s.v.CompareAndSwap(old, max(old>>applyingBits, next)<<applyingBits|(old-1)&applyingMask) {
			return
		}
	}
}

// open reports whether a crash could take back what was read from the slot before.
func (s *slot) open(c *committer) bool {
	v := s.v.Load()
	return v&applyingMask != 0 || v>>applyingBits > c.finished.Load()
}

// settle waits until everything that was read before is durable.
func (c *committer) settle(ctx context.Context) error {
	if err := c.failed(); err != nil {
		return err
	}
	c.waits.Add(1)
	c.waiting.Add(1)
	done := make(signal, 1)
	c.join(done)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
