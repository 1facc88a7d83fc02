// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sync/atomic"
	"time"
)

// stamps gives a partition's timestamps, in microseconds: the clock's time, or one more than the last one where the
// clock is behind. Those that were applied are in the meta, in the batch of the rows that have them, so the order
// survives a crash and a clock that went back.
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

// aheadMax is how far above the clock stamps go for the sake of a client whose clock is ahead, in microseconds.
const aheadMax = 1_000_000

// over returns the timestamp for a mutation that has been given stamp and is to be seen over above, which some client
// has chosen, and the stamp of the partition that goes with it. Later stamps are higher than both, unless the client's
// clock is absurd: then they stay with the clock, and only writers that read the key before they write it are seen over
// it.
func (s *stamps) over(stamp, above int64) (partition, mutation int64) {
	switch {
	case above < stamp:
		return stamp, stamp
	case above-stamp < aheadMax:
		s.observe(above + 1)
		return above + 1, above + 1
	case above == math.MaxInt64:
		return stamp, above // nothing is higher
	}
	return stamp, above + 1
}

// stampAhead is how far in the future a stamp may be that another node asks for: its clock may be wrong, and what is
// stamped later would be hidden until then. In microseconds.
const stampAhead = int64(2 * time.Second / time.Microsecond)

// stampTime is the time to stamp with: now, or what was asked for if that is later, within bounds.
func (h *Host) stampTime(asked int64) int64 {
	now := h.micros()
	return max(now, min(asked, now+stampAhead))
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
