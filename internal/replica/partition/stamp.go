// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sync/atomic"
	"time"
)

// stamps assigns a partition's timestamps in microseconds: the current time, or the last timestamp plus one if the
// clock is behind. Applied timestamps are stored in the meta, in the batch of their rows, so the order survives a crash
// and a clock that moves back.
type stamps struct{ last atomic.Int64 }

// next returns a timestamp higher than all previous timestamps.
func (s *stamps) next(now int64) int64 {
	for {
		last := s.last.Load()
		stamp := max(now, last+1)
		if s.last.CompareAndSwap(last, stamp) {
			return stamp
		}
	}
}

// aheadMax is the maximum time, in microseconds, by which timestamps may be ahead of the clock because of a client
// whose clock is ahead.
const aheadMax = 1_000_000

// over returns the timestamps for a mutation that was assigned stamp and must supersede above, a timestamp chosen by a
// client. The result partition is the timestamp for the partition, and mutation is the timestamp for the mutation.
// Later timestamps are higher than both, unless the client's clock is far ahead. In that case, later timestamps follow
// the clock, and only writers that read the key first supersede it.
func (s *stamps) over(stamp, above int64) (partition, mutation int64) {
	switch {
	case above < stamp:
		return stamp, stamp
	case above-stamp < aheadMax:
		s.observe(above + 1)
		return above + 1, above + 1
	case above == math.MaxInt64:
		return stamp, above // no higher timestamp exists
	}
	return stamp, above + 1
}

// stampAhead is the maximum time, in microseconds, by which a timestamp requested by another node may be ahead of the
// clock. The other node's clock may be wrong, and writes would be hidden until the clock reached the timestamp.
const stampAhead = int64(2 * time.Second / time.Microsecond)

// stampTime returns the time for timestamps: now, or the requested time if it is later, within limits.
func (h *Host) stampTime(asked int64) int64 {
	now := h.micros()
	return max(now, min(asked, now+stampAhead))
}

// observe makes all later timestamps higher than stamp.
func (s *stamps) observe(stamp int64) {
	for {
		last := s.last.Load()
		if last >= stamp || s.last.CompareAndSwap(last, stamp) {
			return
		}
	}
}
