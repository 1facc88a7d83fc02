// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A key that is written repeatedly accumulates operands in the memtable until the next flush. Every read must merge all
// of these operands, which takes a second for a million operands. When the number of operands of a key exceeds a limit,
// the writer therefore replaces the operands with their merged value. The replacement is invisible to readers.
//
// The replaced operands remain in the memtable, where an iterator needs about 60 ns to step over each operand. Forward
// readers therefore seek past the old versions of a frequently written key (see hotKeys.leaves). If a key has very many
// old versions, the store flushes the memtable to drop these versions.

const (
	// collapseAfter is the number of operands after which a key is merged.
	collapseAfter = 32
	// collapseGrowth limits the cost of merging. The writer writes the merged value only if it is at most
	// collapseGrowth times as large as the operands since the last merge, including their keys. Otherwise, the writer
	// doubles the operand limit of the key.
	collapseGrowth = 4
	// flushAfter is the number of merges of one key after which the store requests a flush.
	flushAfter = 1024
)

// hotKeys finds frequently written keys with little memory. The hash of a key determines its slot, and several keys may
// share a slot. Each slot selects the key that has more than half of the slot's operands.
type hotKeys struct {
	seed  maphash.Seed
	after uint64 // collapseAfter, except in tests
	// any is true if a key has been merged since the last flush.
	any   atomic.Bool
	slots [hotSlots]atomic.Uint64
}

// A slot consists of four bit fields. From the most significant bit, the fields are the key's hash (24 bits), the
// number of merges (11 bits), the number of doublings of the limit (5 bits), and the number of operands since the last
// merge (24 bits). Concurrent writers may lose updates.
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

// add counts an operand. It returns the number of operands if this number exceeds the limit, and 0 otherwise.
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

// spared records that the writer did not merge the operands of a key, and doubles the key's limit.
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

// leaves reports whether a key has many old versions, which an iterator should seek past.
func (h *hotKeys) leaves(key []byte) bool {
	if !h.any.Load() {
		return false
	}
	slot, tag := h.slot(key)
	old := slot.Load()
	return old&hotTag == tag && old/hotCollapse&hotCollapses > 0
}

// hot is a key that has too many operands.
type hot struct {
	key   []byte
	count int
	bytes int // size of this operand, including its key
}

// collapse replaces the operands of a key with their merged value.
func (s *Writer) collapse(h *hot) error {
	size, err := s.mergedSize(h.key) // this read loads the data from disk before writers are blocked
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

// replace replaces the operands of a key with their merged value and returns the size of this value.
func (s *Writer) replace(key []byte) (size int, err error) {
	s.commitMu.Lock() // an operand added between the read and the write would be lost
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

// collapseAll merges the operands of the hot keys of a committed batch.
func (b *Batch) collapseAll() {
	for i := range b.hot {
		if err := b.s.collapse(&b.hot[i]); err != nil {
			_ = b.s.check(fmt.Errorf("collapse %x: %w", b.hot[i].key, err)) // check stops the store if data is damaged
		}
	}
}
