// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A key that is written repeatedly accumulates operands in the memtable until a flush merges them. Until then, every
// read merges them again. With a million operands, a merge takes a second. When the number of operands exceeds a limit,
// the writer therefore replaces all of them with their merged value. Like a flush, the replacement is invisible to
// readers.
//
// The replaced operands stay in the memtable. Iterators step over them at about 60 ns each. Forward readers seek past
// the versions of such a key (hotKeys.leaves). If a key has very many versions, a flush drops them.

const (
	// collapseAfter is the number of operands after which a key is merged.
	collapseAfter = 32
	// collapseGrowth limits the cost. The merged value is written only if its size is at most this multiple of the size
	// of the operands since the last merge, including keys. Otherwise, twice as many operands may accumulate.
	collapseGrowth = 4
	// flushAfter is the number of merges of one key after which a flush is requested.
	flushAfter = 1024
)

// hotKeys finds frequently written keys with little memory. Keys share slots by hash. In each slot, the key with more
// than half of the operands is selected. A store with many rarely written keys therefore seldom merges a key
// unnecessarily.
type hotKeys struct {
	seed  maphash.Seed
	after uint64 // collapseAfter, except in tests
	// any is true if a key has been merged since the last flush.
	any   atomic.Bool
	slots [hotSlots]atomic.Uint64
}

// A slot contains, from the most significant bit, 24 bits of its key's hash and 11 bits for the number of merges. These
// are followed by 5 bits for the number of times the limit was doubled, and 24 bits for the number of operands
// accumulated since the last merge. Updates may be lost if two writers collide.
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

// add counts an operand. It returns the number of operands if the number exceeds the limit, and 0 otherwise.
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

// spared records that count operands were not merged. Twice as many operands, including these, may then accumulate.
func (h *hotKeys) spared(key []byte, count int) {
	slot, tag := h.slot(key)
	if old := slot.Load(); old&hotTag == tag && old/hotLevel&hotLevels < hotLevelMax {
		slot.Store(old&^hotCount + hotLevel + uint64(count))
	}
}

// collapsed records a merge. It reports whether a flush is due.
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

// leaves reports whether a key has many old versions that an iterator would step over.
func (h *hotKeys) leaves(key []byte) bool {
	if !h.any.Load() {
		return false
	}
	slot, tag := h.slot(key)
	old := slot.Load()
	return old&hotTag == tag && old/hotCollapse&hotCollapses > 0
}

// hot is a key of a batch with too many operands.
type hot struct {
	key   []byte
	count int
	bytes int // size of this operand, including its key
}

// collapse replaces the operands of a key with their merged value.
func (s *Writer) collapse(h *hot) error {
	size, err := s.mergedSize(h.key) // read from disk before any writer has to wait
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

// replace writes the merged value of a key in place of the key's operands and returns the size of the value.
func (s *Writer) replace(key []byte) (size int, err error) {
	s.commitMu.Lock() // an operand that is added between reading and writing would be lost
	defer s.commitMu.Unlock()
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

// mergedSize returns the size of a key's value, or -1 if the key does not exist.
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

// collapseAll merges the hot keys of a committed batch. The batch remains applied in any case.
func (b *Batch) collapseAll() {
	for i := range b.hot {
		if err := b.s.collapse(&b.hot[i]); err != nil {
			_ = b.s.check(fmt.Errorf("collapse %x: %w", b.hot[i].key, err)) // check stops the store if data is damaged
		}
	}
}
