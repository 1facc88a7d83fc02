// SPDX-License-Identifier: Apache-2.0

package row

import (
	"encoding/binary"
	"fmt"
)

// deletion is a deletion of a row or a partition.
type deletion struct{ ts, at int64 }

// wins prefers the higher timestamp. If the timestamps are equal, it prefers the later second.
func (d deletion) wins(o deletion) bool { return d.ts > o.ts || d.ts == o.ts && d.at > o.at }

// head is the part of an encoded row before the entries.
type head struct {
	base   int64
	live   bool
	marker Liveness
	// dead is true if the row has been deleted. Otherwise, deleted.ts is NotDeleted. NotDeleted is also the timestamp
	// of an Unstamped deletion.
	dead    bool
	deleted deletion
	// ranges is the encoded list of ranges, including its count. It is nil if the row has no ranges.
	ranges []byte
	// moreRanges is true in a partition's deletions if further ranges are stored under separate keys.
	moreRanges bool
}

// read decodes the head and returns the position of the entries. If the head is corrupt, the position is negative.
func (h *head) read(b []byte) int {
	if len(b) < headLen || b[0] > flagsKnown {
		return -1
	}
	flags, pos := b[0], headLen
	h.base = int64(binary.BigEndian.Uint64(b[1:]))
	h.live, h.ranges, h.moreRanges = flags&flagMarker != 0, nil, flags&flagMoreRanges != 0
	h.dead, h.deleted = flags&flagRowDeletion != 0, deletion{ts: NotDeleted}
	if flags == 0 {
		return pos
	}
	if h.live {
		h.marker = Liveness{Timestamp: h.base, Expiry: NoExpiry}
		if flags&flagMarkerTime != 0 {
			var d int64
			d, pos = readDelta(b, pos)
			h.marker.Timestamp += d
		}
		if flags&flagMarkerTTL != 0 {
			h.marker.TTL, h.marker.Expiry, pos = readTTL(b, pos)
		}
		if flags&flagLifetime != 0 {
			if h.marker.Lifetime, h.marker.Written, pos = readLifetime(b, pos); pos < 0 {
				return -1
			}
		}
	} else if flags&(flagMarkerTime|flagMarkerTTL|flagLifetime) != 0 {
		return -1
	}
	if h.dead {
		var d int64
		d, pos = readDelta(b, pos)
		h.deleted.ts = h.base + d
		h.deleted.at, pos = readSecond(b, pos)
	}
	if flags&flagRanges != 0 && pos >= 0 {
		end := skipRanges(b, pos)
		if end < 0 {
			return -1
		}
		h.ranges, pos = b[pos:end], end
	}
	return pos
}

// append encodes the head, followed by ranges.
func (h *head) append(dst []byte, ranges []Range) []byte {
	var flags byte
	if h.live {
		flags |= flagMarker
		if h.marker.TTL != 0 {
			flags |= flagMarkerTTL
		}
		if h.marker.Lifetime != 0 {
			flags |= flagLifetime
		}
		if h.marker.Timestamp != h.base {
			flags |= flagMarkerTime
		}
	}
	if h.dead {
		flags |= flagRowDeletion
	}
	if len(ranges) > 0 {
		flags |= flagRanges
	}
	if h.moreRanges {
		flags |= flagMoreRanges
	}
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.base))
	if flags&flagMarkerTime != 0 {
		dst = appendDelta(dst, h.marker.Timestamp-h.base)
	}
	if flags&flagMarkerTTL != 0 {
		dst = binary.AppendUvarint(dst, uint64(h.marker.TTL))
		dst = binary.AppendUvarint(dst, uint64(max(h.marker.Expiry, 0)))
	}
	if flags&flagLifetime != 0 {
		dst = binary.AppendUvarint(dst, uint64(max(h.marker.Lifetime, 0)))
		dst = binary.AppendUvarint(dst, uint64(max(h.marker.Written, 0)))
	}
	if h.dead {
		dst = appendDelta(dst, h.deleted.ts-h.base)
		dst = binary.AppendUvarint(dst, uint64(max(h.deleted.at, 0)))
	}
	return appendRanges(dst, ranges, h.base)
}

// supersedes implements RW2 for row markers.
func (l *Liveness) supersedes(o *Liveness) bool {
	if l.Timestamp != o.Timestamp {
		return l.Timestamp > o.Timestamp
	}
	if (l.TTL != 0) != (o.TTL != 0) {
		return l.TTL != 0
	}
	if l.Expiry != o.Expiry {
		return l.Expiry > o.Expiry
	}
	if l.TTL != o.TTL {
		return l.TTL > o.TTL
	}
	if l.Lifetime != o.Lifetime {
		return l.Lifetime > o.Lifetime
	}
	return l.Written > o.Written
}

// Timestamp returns the base timestamp of an operand. The timestamp is Unstamped if the leader has not assigned it
// yet.
func Timestamp(operand []byte) int64 {
	if len(operand) < headLen {
		return Unstamped
	}
	return int64(binary.BigEndian.Uint64(operand[1:]))
}

// Stamp sets the timestamp of an Unstamped operand in place, and reports whether the operand was Unstamped.
func Stamp(operand []byte, ts int64) bool {
	if len(operand) < headLen || Timestamp(operand) != Unstamped {
		return false
	}
	binary.BigEndian.PutUint64(operand[1:], uint64(ts))
	return true
}

// Check decodes a whole operand. sets reports whether the operand sets a marker or a cell. An operand that only
// deletes data makes no row visible. due is the earliest second of a deletion or an expiry. If the operand contains
// neither, due is NoExpiry. An error wraps ErrCorrupt. The operand must then not be stored, because it could not be
// merged.
func Check(operand []byte) (sets bool, due int64, err error) {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return false, 0, fmt.Errorf("head of operand: %w", ErrCorrupt)
	}
	sets, due = h.live, h.oldest()
	var last, e entry
	for first := true; pos < len(operand); first = false {
		if pos = e.read(operand, pos, h.base); pos < 0 || !first && outOfOrder(&last, &e) {
			return false, 0, fmt.Errorf("entry of operand: %w", ErrCorrupt)
		}
		last.col, last.kind, last.hasPath, last.path = e.col, e.kind, e.hasPath, e.path
		sets = sets || e.kind == kindCell || e.kind == kindExpiringCell
		due = min(due, e.when)
	}
	return sets, due, nil
}

// oldest returns the earliest second in the head.
func (h *head) oldest() int64 {
	oldest := NoExpiry
	if h.live {
		oldest = h.marker.Expiry
	}
	if h.dead {
		oldest = min(oldest, h.deleted.at)
	}
	if h.ranges != nil {
		for _, r := range appendDecoded(nil, h.ranges, h.base) {
			oldest = min(oldest, r.At)
		}
	}
	return oldest
}

// Split divides a header operand into its static cells and its deletions of the partition and of ranges. An empty part
// is nil. Both parts may point into operand, which Check must have accepted.
func Split(operand []byte) (deletions, static []byte) {
	var h head
	pos := h.read(operand)
	switch {
	case pos < 0 || pos == len(operand):
		return operand, nil
	case !h.dead && h.ranges == nil:
		return nil, operand
	}
	static = append(make([]byte, 0, headLen+len(operand)-pos), 0)
	static = append(append(static, operand[1:headLen]...), operand[pos:]...)
	return operand[:pos:pos], static
}

// Deletes calls fn with the start of each row interval that a header operand deletes. An empty start represents the
// whole partition. Deletes returns the number of ranges.
func Deletes(operand []byte, fn func(start []byte)) (ranges int) {
	var h head
	if h.read(operand) < 0 {
		return 0
	}
	if h.dead {
		fn([]byte{})
	}
	if h.ranges == nil {
		return 0
	}
	list := appendDecoded(nil, h.ranges, h.base)
	for i := range list {
		fn(list[i].Start)
	}
	return len(list)
}
