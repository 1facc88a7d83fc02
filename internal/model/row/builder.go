// SPDX-License-Identifier: Apache-2.0

package row

import (
	"slices"
)

// Builder encodes operands. A Builder may be reused. It does not allocate once its buffers have grown. The Builder
// does not copy paths and values, but references them until Bytes or Append is called. Entries may be added in any
// order. Ascending order is fastest. If the same place (column, path) is added twice, the merge rule (RW2) applies, as
// for two operands. A zero Builder must be initialized with Reset.
type Builder struct {
	h       head
	entries []entry
	ranges  []Range
	sorted  bool
	scratch rangeScratch
	buf     []byte
}

// Reset begins an operand with timestamp ts. The timestamp is in microseconds or is Unstamped.
func (b *Builder) Reset(ts int64) {
	clear(b.entries) // release the memory of the caller
	clear(b.ranges)
	b.entries, b.ranges, b.sorted = b.entries[:0], b.ranges[:0], true
	b.h = head{base: ts, deleted: deletion{ts: NotDeleted}}
}

// Live sets the row marker. ttl is in seconds, or 0 if the marker does not expire. expiry is the time at which the
// marker expires, in seconds since the epoch. If ttl is 0, expiry is ignored.
func (b *Builder) Live(ttl int32, expiry int64) {
	if ttl == 0 {
		expiry = NoExpiry
	}
	b.h.live, b.h.marker = true, Liveness{Timestamp: b.h.base, TTL: ttl, Expiry: expiry}
}

// LiveFor sets the row marker of a row with a lifetime (see Lifetimes). lifetime is in seconds, or DefaultLifetime.
// The lifetime starts at the second at, when the row is written.
func (b *Builder) LiveFor(lifetime int32, at int64) {
	b.h.live, b.h.marker = true, Liveness{Timestamp: b.h.base, Expiry: NoExpiry, Lifetime: lifetime, Written: at}
}

// DeleteRow deletes the row at the operand's timestamp. In a header operand, it deletes the whole partition. at is the
// second of the deletion.
func (b *Builder) DeleteRow(at int64) { b.DeleteRowBefore(0, at) }

// DeleteRowBefore works like DeleteRow, but adds delta (0 or -1) to the operand's timestamp.
func (b *Builder) DeleteRowBefore(delta int, at int64) {
	b.h.dead, b.h.deleted = true, deletion{b.h.base + int64(delta), at} // wraps around for Unstamped (see DeleteColumn)
}

// Cell sets the value of one element. If path is nil, it sets the value of a single-cell column. ttl and expiry have
// the same meaning as in Live.
func (b *Builder) Cell(col uint32, path, value []byte, ttl int32, expiry int64) {
	b.add(cellEntry(col, path, value, b.h.base, ttl, expiry))
}

// CellAt works like Cell, but sets a separate timestamp, which an Unstamped operand cannot store.
func (b *Builder) CellAt(col uint32, path, value []byte, ts int64, ttl int32, expiry int64) {
	b.add(cellEntry(col, path, value, ts, ttl, expiry))
}

// Tombstone deletes one element. If path is nil, it deletes the value of a single-cell column. at is the second of the
// deletion.
func (b *Builder) Tombstone(col uint32, path []byte, at int64) {
	b.add(entry{kind: kindTombstone, col: col, path: path, hasPath: path != nil, ts: b.h.base, when: at})
}

// TombstoneAt works like Tombstone, but sets a separate timestamp, as CellAt does.
func (b *Builder) TombstoneAt(col uint32, path []byte, ts, at int64) {
	b.add(entry{kind: kindTombstone, col: col, path: path, hasPath: path != nil, ts: ts, when: at})
}

// DeleteColumn deletes all elements of a multi-cell column at the operand's timestamp plus delta. delta is -1 if the
// same operand sets new elements, and otherwise 0.
func (b *Builder) DeleteColumn(col uint32, delta int, at int64) {
	ts := b.h.base
	if delta < 0 {
		ts-- // wraps around for Unstamped, and wraps back when Stamp sets the base
	}
	b.add(entry{kind: kindColDeletion, col: col, ts: ts, when: at})
}

// DeleteRange deletes the rows with clustering keys in [start, end) at the operand's timestamp. A nil end is
// unbounded. Only header operands can contain a range. An empty interval has no effect.
func (b *Builder) DeleteRange(start, end []byte, at int64) { b.DeleteRangeBefore(start, end, 0, at) }

// DeleteRangeBefore works like DeleteRange, but adds delta (0 or -1) to the operand's timestamp.
func (b *Builder) DeleteRangeBefore(start, end []byte, delta int, at int64) {
	b.ranges = append(b.ranges, Range{Start: start, End: end, Timestamp: b.h.base + int64(delta), At: at})
}

// Empty reports whether the operand changes nothing.
func (b *Builder) Empty() bool {
	return !b.h.live && !b.h.dead && len(b.entries) == 0 && len(b.ranges) == 0
}

func cellEntry(col uint32, path, value []byte, ts int64, ttl int32, expiry int64) entry {
	e := entry{kind: kindCell, col: col, path: path, hasPath: path != nil, value: value, ts: ts, when: NoExpiry}
	if ttl != 0 {
		e.kind, e.ttl, e.when = kindExpiringCell, ttl, expiry
	}
	return e
}

func (b *Builder) add(e entry) {
	if n := len(b.entries); n > 0 && b.sorted {
		b.sorted = b.entries[n-1].compare(&e) < 0
	}
	b.entries = append(b.entries, e)
}

// Bytes returns the operand, which is valid until the next call of Bytes.
func (b *Builder) Bytes() []byte {
	b.buf = b.Append(b.buf[:0])
	return b.buf
}

// Append appends the operand to dst.
func (b *Builder) Append(dst []byte) []byte {
	if !b.sorted {
		slices.SortStableFunc(b.entries, func(x, y entry) int { return x.compare(&y) })
		n := 0
		for i := range b.entries {
			switch e := &b.entries[i]; {
			case n == 0 || b.entries[n-1].compare(e) != 0:
				b.entries[n] = *e
				n++
			case e.wins(&b.entries[n-1]):
				b.entries[n-1] = *e
			}
		}
		b.entries, b.sorted = b.entries[:n], true
	}
	if len(b.ranges) > 0 {
		b.ranges = b.scratch.normalize(b.ranges)
	}
	dst = b.h.append(dst, b.ranges)
	for i := range b.entries {
		dst = b.entries[i].append(dst, b.h.base)
	}
	return dst
}
