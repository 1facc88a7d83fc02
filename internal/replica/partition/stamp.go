// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// stampReserve is how far ahead stamps are reserved in the store: a restart after a crash goes on this much later at most.
const stampReserve = int64(time.Second / time.Microsecond)

// stamps gives a partition's timestamps, in microseconds: the clock's time, or one more than the last one where the clock is behind.
//
// So that the order survives a crash together with a clock that goes back, no stamp above ceiling is ever applied before a meta with
// a higher ceiling is in the store. The batch whose stamp passes the ceiling raises it by itself, about once a second in a
// partition that is written to.
type stamps struct {
	last    atomic.Int64
	ceiling atomic.Int64 // MaxTimestamp of the stored meta
	raising sync.Mutex   // held from the choice of a new ceiling until it is applied, so that it never falls
}

// recover continues behind what the stored meta has reserved.
func (s *stamps) recover(m *keys.Meta) {
	s.last.Store(m.MaxTimestamp)
	s.ceiling.Store(m.MaxTimestamp)
}

// next returns a stamp that is higher than all before.
func (s *stamps) next(now int64) int64 {
	for {
		last := s.last.Load()
		stamp := max(now, last+1)
		if s.last.CompareAndSwap(last, stamp) {
			return stamp
		}
	}
}

// above returns the least stamp that next could give.
func (s *stamps) above(now int64) int64 { return max(now, s.last.Load()+1) }

// observe makes all later stamps higher than stamp.
func (s *stamps) observe(stamp int64) {
	for {
		last := s.last.Load()
		if last >= stamp || s.last.CompareAndSwap(last, stamp) {
			return
		}
	}
}
