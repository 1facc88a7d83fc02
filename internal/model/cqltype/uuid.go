// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// ParseUUID parses the canonical text of a UUID in lower or upper case.
func ParseUUID(s string) (u [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	_, err := hex.Decode(u[:], digits[:])
	return u, err == nil
}

// appendUUIDText appends the canonical text of a UUID.
func appendUUIDText(dst, u []byte) []byte {
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		begin := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[begin:end])
	}
	return dst
}

// gregorian is the start of UUID time, 1582-10-15, in units of 100 ns before the Unix epoch.
const gregorian = 0x01b21dd213814000

// ticksPerMilli is the number of 100 ns ticks in a millisecond.
const ticksPerMilli = 10000

// timeUUID returns the version 1 UUID with the given 100 ns ticks since the Unix epoch and the given second half.
func timeUUID(ticks int64, low uint64) (u [16]byte) {
	t := uint64(ticks+gregorian)&(1<<60-1) | 1<<60
	binary.BigEndian.PutUint64(u[:], restoreTime(t))
	binary.BigEndian.PutUint64(u[8:], low)
	return u
}

// MinTimeUUID returns the smallest timeuuid of a millisecond since the epoch, in the same way as minTimeuuid().
func MinTimeUUID(unixMillis int64) [16]byte {
	return timeUUID(unixMillis*ticksPerMilli, 0x8080808080808080)
}

// MaxTimeUUID returns the greatest timeuuid of a millisecond since the epoch, in the same way as maxTimeuuid().
func MaxTimeUUID(unixMillis int64) [16]byte {
	return timeUUID((unixMillis+1)*ticksPerMilli-1, 0x7f7f7f7f7f7f7f7f)
}

// timeUUIDTicks returns the time of a version 1 UUID in units of 100 ns since the Unix epoch.
func timeUUIDTicks(u [16]byte) int64 {
	return int64(reorderTime(binary.BigEndian.Uint64(u[:]))&(1<<60-1)) - gregorian
}

// TimeUUIDMillis returns the time of a version 1 UUID in milliseconds since the Unix epoch.
func TimeUUIDMillis(u [16]byte) int64 {
	ticks := timeUUIDTicks(u)
	millis := ticks / ticksPerMilli
	if ticks%ticksPerMilli < 0 {
		millis--
	}
	return millis
}

// TimeUUIDs generates version 1 UUIDs. Each UUID is greater than the previous UUID. A TimeUUIDs is safe for concurrent
// use.
type TimeUUIDs struct {
	low  uint64 // the clock sequence and the node
	mu   sync.Mutex
	last int64 // ticks of the last UUID; guarded by mu
}

// NewTimeUUIDs returns a generator of UUIDs that contain the node and the low 14 bits of the clock sequence.
func NewTimeUUIDs(node [6]byte, clockSequence uint16) *TimeUUIDs {
	var low [8]byte
	binary.BigEndian.PutUint16(low[:], clockSequence&0x3fff|0x8000)
	copy(low[2:], node[:])
	return &TimeUUIDs{low: binary.BigEndian.Uint64(low[:])}
}

// Next returns a UUID with the given time. If this UUID is not greater than the previous UUID, Next uses the earliest
// later time.
func (g *TimeUUIDs) Next(unixNanos int64) [16]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = max(g.last+1, unixNanos/100)
	return timeUUID(g.last, g.low)
}
