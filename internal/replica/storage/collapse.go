// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A key that is written again and again gathers operands in the memtable until a flush merges them, and every read of
// it merges them anew: with a million of them that takes a second. So the writer that adds one operand too many
// replaces all of them by their merged value. Nobody can see that: it is what a flush does.
//
// What was replaced stays in the memtable, and iterators step over it, at some 60 ns each. Forward readers seek past
// the versions of such a key (hotKeys.leaves), and when there are very many a flush drops them.

const (
	// collapseAfter is how many operands a key may gather before they are merged.
	collapseAfter = 32
	// collapseGrowth bounds what that costs: the merged value is written only if it is at most this many times as large
	// as the operands that have come since the last time, keys included. Where it is larger, twice as many may gather.
	collapseGrowth = 4
	// flushAfter is how many collapses of one key ask for a flush.
	flushAfter = 1024
)

// hotKeys finds keys that are written often, in little memory. Keys share slots by their hash; in a slot the key that
// makes up more than half of the operands wins, so that a store with many cold keys hardly ever collapses one in vain.
type hotKeys struct {
	seed  maphash.Seed
	after uint64 // collapseAfter, but in tests
	// any is false as long as no key was collapsed since the last flush.
	any   atomic.Bool
	slots [hotSlots]atomic.Uint64
}

// A slot is, from the top: 24 bits of its key's hash, 11 for the collapses, 5 for how often the bound was doubled, 24
// for the operands gathered since. Updates may be lost where two writers meet.
const (
	hotSlots     = 1 << 15
	hotCount     = 1<<24 - 1
	hotLevel     = 1 << 24
	hotLevels    = 1<<5 - 1
	hotLevelMax  = 16
	hotCollapse  = 1 << 29
	hotCollapses = 1<<11 - 1
	hotTag       = 0xffffff << 40
)

func (h *hotKeys) slot(key []byte) (s *atomic.Uint64, tag uint64) {
	sum := maphash.Bytes(h.seed, key)
	return &h.slots[sum%hotSlots], sum & hotTag
}

// add counts an operand. It returns how many there are if these are too many, and 0 otherwise.
func (h *hotKeys) add(key []byte) int {
	slot, tag := h.slot(key)
	old := slot.Load()
	count := old & hotCount
	switch {
	case old&hotTag == tag:
		if count++; count >= h.after<<(old/hotLevel&hotLevels) {
			slot.Store(old &^ hotCount)
			return int(count)
		}
		slot.Store(old + 1)
	case count == 0:
		slot.Store(tag | 1)
	default:
		slot.Store(old - 1)
	}
	return 0
}

// spared notes that count operands were left as they are: twice as many may gather next time, these among them.
func (h *hotKeys) spared(key []byte, count int) {
	slot, tag := h.slot(key)
	if old := slot.Load(); old&hotTag == tag && old/hotLevel&hotLevels < hotLevelMax {
		slot.Store(old&^hotCount + hotLevel + uint64(count))
	}
}

// collapsed notes a collapse. It reports whether it is time for a flush.
func (h *hotKeys) collapsed(key []byte) (flush bool) {
	h.any.Store(true)
	slot, tag := h.slot(key)
	old := slot.Load()
	if old&hotTag != tag {
		return false
	}
	if old/hotCollapse&hotCollapses == flushAfter {
		slot.Store(old - (flushAfter-1)*hotCollapse)
		return true
	}
	slot.Store(old + hotCollapse)
	return false
}

// leaves reports whether a key leaves many versions after it that an iterator would step over.
func (h *hotKeys) leaves(key []byte) bool {
	if !h.any.Load() {
		return false
	}
	slot, tag := h.slot(key)
	old := slot.Load()
	return old&hotTag == tag && old/hotCollapse&hotCollapses > 0
}

// hot is a key of a batch that has gathered too many operands.
type hot struct {
	key   []byte
	count int
	bytes int // of this operand with its key
}

// collapse replaces the operands of a key by their merged value.
func (s *Writer) collapse(h *hot) error {
	size, err := s.mergedSize(h.key) // reads what must be read from disk before anybody has to wait
	if err != nil || size < 0 {
		return err
	}
	if size > collapseGrowth*h.count*h.bytes {
		s.hot.spared(h.key, h.count)
		return nil
	}
	if _, err := s.replace(h.key); err != nil {
		return err
	}
	s.m.collapsed.Add(1)
	if s.hot.collapsed(h.key) {
		s.flushSoon()
	}
	return nil
}

// replace writes the merged value of a key in the place of its operands, and returns its size.
func (s *Writer) replace(key []byte) (size int, err error) {
	s.gate.Lock() // an operand that came between reading and writing would be lost
	defer s.gate.Unlock()
	value, closer, err := s.db.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return 0, nil
		}
		return 0, err
	}
	size = len(value)
	return size, errors.Join(s.db.Set(key, value, pebble.NoSync), closer.Close())
}

// mergedSize is the size of a key's value, -1 if there is none.
func (s *Writer) mergedSize(key []byte) (int, error) {
	value, closer, err := s.db.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return -1, nil
		}
		return 0, err
	}
	return len(value), closer.Close()
}

// collapseAll collapses the hot keys of a batch that was committed. The batch stays applied whatever comes of it.
func (b *Batch) collapseAll() {
	for i := range b.hot {
		if err := b.s.collapse(&b.hot[i]); err != nil {
			_ = b.s.check(fmt.Errorf("collapse %x: %w", b.hot[i].key, err)) // damage stops the store
		}
	}
}
