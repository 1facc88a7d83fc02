// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/token"
)

// unsynced tracks the keys with visible writes that are not yet durable. A reader that has seen such a write waits
// until the write is durable (P5).
//
// A slot contains the number of the last batch that wrote to a key of the slot. It is set before the batch becomes
// visible. Several keys may share a slot, so a reader may wait unnecessarily. Scans do not track the keys that they
// have seen.
type unsynced struct {
	slots []atomic.Uint64
	// number is the number of the current batch. Only the applier uses it.
	number uint64
}

// slotCount is the number of slots. The highest 16 bits of a hash determine the slot.
const slotCount = 1 << 16

func newUnsynced() *unsynced { return &unsynced{slots: make([]atomic.Uint64, slotCount)} }

func (u *unsynced) slot(table uint32, t token.Token) *atomic.Uint64 {
	h := (uint64(t) ^ uint64(table)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return &u.slots[h>>48]
}
