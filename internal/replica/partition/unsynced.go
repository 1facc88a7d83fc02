// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/token"
)

// unsynced tracks the keys with writes that readers see and that a crash could still undo. A reader that has seen such
// a write waits for its sync (P5): data that was read is never lost.
//
// A slot contains the number of the last batch that wrote to a key of the slot. It is set before that batch becomes
// visible. Keys share slots by their hash, so a reader may wait unnecessarily, which is rare with slotCount slots.
// Scans do not track which keys they have seen.
type unsynced struct {
	slots []atomic.Uint64
	// number is the number of the current batch. It belongs to the applier.
	number uint64
}

// slotCount is a power of two: slots are indexed by the highest 16 bits of a hash.
const slotCount = 1 << 16

func newUnsynced() *unsynced { return &unsynced{slots: make([]atomic.Uint64, slotCount)} }

func (u *unsynced) slot(table uint32, t token.Token) *atomic.Uint64 {
	h := (uint64(t) ^ uint64(table)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return &u.slots[h>>48]
}
