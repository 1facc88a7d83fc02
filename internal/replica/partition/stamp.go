// SPDX-License-Identifier: Apache-2.0

package partition

import "sync/atomic"

// stamps gives a partition's timestamps, in microseconds: the clock's time, or one more than the last one where the clock is behind.
// Those that were applied are in the meta, in the batch of the rows that have them, so the order survives a crash and a clock that
// went back.
type stamps struct{ last atomic.Int64 }

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

// observe makes all later stamps higher than stamp.
func (s *stamps) observe(stamp int64) {
	for {
		last := s.last.Load()
		if last >= stamp || s.last.CompareAndSwap(last, stamp) {
			return
		}
	}
}
