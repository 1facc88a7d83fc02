// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sync/atomic"
	"time"
)

// stamps assigns a partition's timestamps in microseconds. A timestamp is the current time or, if the clock is behind,
// the last timestamp plus one. The batch that contains the rows also stores the timestamp in the meta. The order of
// timestamps therefore survives a crash and a clock that moves back.
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

// aheadMax is the maximum time, in microseconds, by which a client's timestamp can advance the timestamps of the
// partition ahead of the clock.
const aheadMax = 1_000_000

// over returns the timestamps for a mutation that was assigned stamp and must supersede above, which is a client's
// timestamp. partition is the timestamp for the partition, and mutation is the timestamp for the mutation. Later
// timestamps are higher than both unless above is more than aheadMax ahead of the clock. In that case, later timestamps
// follow the clock, and only writers that read the key first supersede the mutation.
func (s *stamps) over(stamp, above int64) (partition, mutation int64) {
	switch {
	case above < stamp:
		return stamp, stamp
	case above-stamp < aheadMax:
		s.observe(above + 1)
		return above + 1, above + 1
	case above == math.MaxInt64:
		return stamp, above // above is the highest possible timestamp
	}
	return stamp, above + 1
}

// stampAhead is the maximum time, in microseconds, by which a timestamp requested by another node may be ahead of the
// clock. The limit is necessary because the other node's clock may be wrong.
const stampAhead = int64(2 * time.Second / time.Microsecond)

// stampTime returns the time for assigning timestamps. It is the later of the current time and the requested time, up
// to stampAhead after the current time.
func (h *Host) stampTime(asked int64) int64 {
	now := h.micros()
	return max(now, min(asked, now+stampAhead))
}

// observe ensures that all later timestamps are higher than stamp.
func (s *stamps) observe(stamp int64) {
	for {
		last := s.last.Load()
		if last >= stamp || s.last.CompareAndSwap(last, stamp) {
			return
		}
	}
}
