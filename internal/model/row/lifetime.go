// SPDX-License-Identifier: Apache-2.0

package row

import "math"

// DefaultLifetime is the lifetime of a row to which the table's default applies.
const DefaultLifetime int32 = -1

// NoDefault is a value of Lifetimes.Default. It means that only rows with their own lifetime expire.
const NoDefault int32 = -1

// Lifetimes is the setting of a table that determines when its rows with a lifetime (Builder.LiveFor) expire. A row
// expires as a whole when its lifetime has passed since the write. The setting may change at any time, and the new
// setting applies to all rows. An expired row remains expired regardless of later settings (see At). The zero value is
// the setting of a table whose rows do not expire.
type Lifetimes struct {
	// Default is the lifetime, in seconds, of rows without their own lifetime. Default is NoDefault if these rows
	// never expire, and 0 if no row expires.
	Default int32
	// Past describes the rows that had expired when the setting was changed.
	Past Expired
}

// Expired describes the rows that have expired at a given second. The zero value describes no rows.
type Expired struct {
	// Own is the latest second at which the lifetime of an expired row with its own lifetime ended.
	Own int64
	// Default is the latest second at which an expired row without its own lifetime was written.
	Default int64
}

// At returns the rows that have expired at the second now. Expired rows remain expired under a new setting if the
// setting's Past is correct. Past must be the result of the previous setting's At for the second of the change.
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

// Deadline returns the second at which the row of an operand expires. Deadline returns NoExpiry if the row has no
// lifetime. It also returns NoExpiry if the lifetime does not end under the current setting.
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

// Has reports whether a row with marker m has expired.
func (e Expired) Has(m *Liveness) bool {
	switch {
	case m.Lifetime > 0:
		return m.begin()+int64(m.Lifetime) <= e.Own
	case m.Lifetime < 0:
		return m.begin() <= e.Default
	}
	return false
}

// Covering returns the timestamp up to which a stored row is hidden. If the row has expired, Covering returns the
// timestamp of the row. Otherwise, it returns deleted, which is the timestamp of a deletion or NotDeleted. Every
// reader of a table with Lifetimes passes the result to Row.Resolve, Merger.Sweep, or Oldest.
func (e Expired) Covering(value []byte, deleted int64) int64 {
	if m, ok := lifetimeOf(value); ok && e.Has(&m) {
		return max(deleted, m.Timestamp)
	}
	return deleted
}

// HasLifetime reports whether an operand sets the lifetime of its row.
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

// begin returns the second at which a lifetime starts. Written is the start of a second, and a row must not expire
// before its lifetime has ended.
func (l *Liveness) begin() int64 { return l.Written + 1 }

// readLifetime decodes a lifetime and the second at which the lifetime starts.
func readLifetime(b []byte, pos int) (lifetime int32, at int64, next int) {
	v, pos := uvarint(b, pos)
	at, pos = readSecond(b, pos)
	switch {
	case v > math.MaxInt32 || at > secondMax:
		return 0, 0, -1
	case v == 0:
		return DefaultLifetime, at, pos
	}
	return int32(v), at, pos
}

// secondMax is the maximum of Written. It prevents overflows when a lifetime is added.
const secondMax = 1 << 50
