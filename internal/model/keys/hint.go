// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
)

// HintSpace marks the indexes of hints that a table has, one for each of its materialized views (RFC 0030). Their
// entries have a value, 8 bytes: the stamp of the mutation that wrote them last.
const HintSpace uint32 = 1 << 27

// The values of an index of hints. Under HintDue stands which rows may be out of step with the view: the rest of an
// entry, where others have the clustering key, is what AppendDueRow or AppendDueRange appends. Under HintPlace stands
// where in the view a row may have left something: see AppendPlace.
var (
	HintStale   = []byte{}
	HintViewRow = []byte{1}
)

// What the rest of an entry under HintDue begins with.
const (
	staleRow   byte = 0
	staleRange byte = 1
)

// AppendDueRow appends the rest of the hint that a row is out of step.
func AppendStaleRow(dst, clustering []byte) []byte {
	return append(append(dst, staleRow), clustering...)
}

// AppendDueRange appends the rest of the hint that the rows of [start, end) are; a nil end is unbounded.
func AppendStaleRange(dst, start, end []byte) []byte {
	dst = append(appendEscaped(append(dst, staleRange), start), 0, valueEnd)
	if end == nil {
		return append(dst, 0)
	}
	return append(append(dst, 1), end...)
}

// DueRanges are the bounds of the rests of all hints that ranges are out of step.
func StaleRangeBounds() (lower, upper []byte) { return []byte{staleRange}, []byte{staleRange + 1} }

// Due is the rest of a hint under HintDue taken apart: a row, or the rows of [Start, End).
type StaleHint struct {
	Range bool
	// Clustering is the key of a row.
	Clustering []byte
	// End is nil where the range has none.
	Start, End []byte
}

// ParseDue takes a rest apart; ok is false for any other bytes. Slices may point into it.
func ParseStaleHint(rest []byte) (d StaleHint, ok bool) {
	if len(rest) == 0 {
		return d, false
	}
	if rest[0] == staleRow {
		return StaleHint{Clustering: rest[1:]}, true
	}
	end := escapedEnd(rest, 1)
	if rest[0] != staleRange || end == 0 || end >= len(rest) {
		return d, false
	}
	d = StaleHint{Range: true, Start: unescaped(rest[1 : end-2])}
	if rest[end] == 1 {
		d.End = rest[end+1:]
	}
	return d, true
}

// AppendPlace appends the rest of the entry that says where in the view a row may have left something: under value, of
// the one column of the view's key that is none of the base table's; empty where there is no such column.
func AppendViewRow(dst, clustering, value []byte) []byte {
	return append(append(appendEscaped(dst, clustering), 0, valueEnd), value...)
}

// AppendPlacesFrom appends where the places of the rows begin whose key is not below clustering.
func AppendViewRowsFrom(dst, clustering []byte) []byte { return appendEscaped(dst, clustering) }

// PlacesOf are the bounds of the rests of all places of a row.
func ViewRowBounds(clustering []byte) (lower, upper []byte) {
	lower = AppendViewRow(nil, clustering, nil)
	return lower, After(bytes.Clone(lower))
}

// ParsePlaceOf takes the rest of a place apart; ok is false for any other bytes. Slices may point into it.
func ParseViewRow(rest []byte) (clustering, value []byte, ok bool) {
	end := escapedEnd(rest, 0)
	if end == 0 {
		return nil, nil, false
	}
	return unescaped(rest[:end-2]), rest[end:], true
}

func unescaped(b []byte) []byte {
	if bytes.IndexByte(b, 0) < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte{0, valueZero}, []byte{0})
}

// AppendSettled appends the form in which a sweep names an entry of an index of hints: it goes, unless it was written
// again with a higher stamp.
func AppendHintRemoval(dst, key []byte, stamp int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, key...), uint64(stamp))
}

// ParseSettled takes apart what AppendSettled made; ok is false where the key is of no index of hints.
func ParseHintRemoval(b []byte) (key []byte, stamp int64, ok bool) {
	if id := ID(b); id&IndexSpace == 0 || id&HintSpace == 0 || len(b) < idLen+8 {
		return nil, 0, false
	}
	n := len(b) - 8
	return b[:n], int64(binary.BigEndian.Uint64(b[n:])), true
}
