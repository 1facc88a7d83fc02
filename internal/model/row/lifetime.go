// SPDX-License-Identifier: Apache-2.0

package row

import "math"

// DefaultLifetime is the lifetime of a row that lives for as long as its table's default says.
const DefaultLifetime int32 = -1

// NoDefault is a Lifetimes.Default by which only rows with a lifetime of their own expire.
const NoDefault int32 = -1

// Lifetimes is the setting of a table by which its rows with a lifetime (Builder.LiveFor) expire: a row is gone as a
// whole when its lifetime has passed since it was written. The setting may change at any time and then applies to all
// rows. A row that has expired once stays expired whatever the setting becomes: see At. The zero value is that of a
// table whose rows do not expire.
type Lifetimes struct {
	// Default is the lifetime of rows that have none of their own, in seconds: NoDefault if these rows live forever,
	// 0 if no row expires.
	Default int32
	// Past are the rows that had expired when the setting was changed.
	Past Expired
}

// Expired describes the rows that have expired at some second. The zero value describes none.
type Expired struct {
	// Own is the second up to which the lifetimes of rows with one of their own have ended.
	Own int64
	// Default is the second up to which the other rows were written that have expired.
	Default int64
}

// At returns the rows that have expired at the second now. What was expired at one second is expired at every later one
// if a new setting has as Past what the old one returned for the second of the change.
func (l Lifetimes) At(now int64) Expired {
	e := l.Past
	if l.Default != 0 {
		e.Own = max(e.Own, now)
	}
	if l.Default > 0 {
		e.Default = max(e.Default, now-int64(l.Default))
	}
	return e
}

// Deadline returns the second at which a row expires, given its operand: NoExpiry if it has no lifetime, or none that
// ends by the present setting.
func (l Lifetimes) Deadline(operand []byte) int64 {
	m, ok := lifetimeOf(operand)
	switch {
	case !ok || l.Default == 0 || m.Lifetime < 0 && l.Default < 0:
		return NoExpiry
	case m.Lifetime > 0:
		return m.begin() + int64(m.Lifetime)
	}
	return m.begin() + int64(l.Default)
}

// Has reports whether a row with the marker m has expired.
func (e Expired) Has(m *Liveness) bool {
	switch {
	case m.Lifetime > 0:
		return m.begin()+int64(m.Lifetime) <= e.Own
	case m.Lifetime < 0:
		return m.begin() <= e.Default
	}
	return false
}

// Covering returns the timestamp up to which a stored row is hidden: deleted, which is that of a deletion or NotDeleted
// for none, or the timestamp of the row itself if the row has expired. Every reader of a table with Lifetimes passes
// the result to Row.Resolve, Merger.Sweep or Oldest.
func (e Expired) Covering(value []byte, deleted int64) int64 {
	if m, ok := lifetimeOf(value); ok && e.Has(&m) {
		return max(deleted, m.Timestamp)
	}
	return deleted
}

// HasLifetime reports whether an operand gives its row a lifetime.
func HasLifetime(operand []byte) bool { return len(operand) >= headLen && operand[0]&flagLifetime != 0 }

// lifetimeOf returns the marker of a row with a lifetime.
func lifetimeOf(value []byte) (Liveness, bool) {
	if !HasLifetime(value) {
		return Liveness{}, false
	}
	var h head
	pos := h.read(value)
	return h.marker, pos >= 0 && h.live
}

// begin is the second from which a lifetime counts. Written is the beginning of a second, and a row lives no shorter
// than its lifetime.
func (l *Liveness) begin() int64 { return l.Written + 1 }

// relative reads a lifetime and the second from which it counts.
func relative(b []byte, pos int) (lifetime int32, at int64, next int) {
	v, pos := uvarint(b, pos)
	at, pos = second(b, pos)
	switch {
	case v > math.MaxInt32 || at > secondMax:
		return 0, 0, -1
	case v == 0:
		return DefaultLifetime, at, pos
	}
	return int32(v), at, pos
}

// secondMax bounds Written, so that sums with lifetimes do not overflow.
const secondMax = 1 << 50
