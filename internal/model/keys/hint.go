// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"encoding/binary"
)

// HintSpace marks the hint indexes of a table. A table has one hint index for each of its materialized views (RFC
// 0030). Each entry has a value of 8 bytes, which is the timestamp of the last mutation that wrote the entry.
const HintSpace uint32 = 1 << 27

// These are the values of a hint index. Entries under HintStale identify rows that may be out of sync with the view.
// These entries contain the output of AppendStaleRow or AppendStaleRange instead of the clustering key. Entries under
// HintViewRow identify view rows that a base row may have produced (see AppendViewRow).
var (
	HintStale   = []byte{}
	HintViewRow = []byte{1}
)

// These bytes are the first byte of the rest of an entry under HintStale.
const (
	staleRow   byte = 0
	staleRange byte = 1
)

// AppendStaleRow appends the rest of a hint that a row may be out of sync.
func AppendStaleRow(dst, clustering []byte) []byte {
	return append(append(dst, staleRow), clustering...)
}

// AppendStaleRange appends the rest of a hint that the rows in [start, end) may be out of sync. A nil end is unbounded.
func AppendStaleRange(dst, start, end []byte) []byte {
	dst = append(appendEscaped(append(dst, staleRange), start), 0, valueEnd)
	if end == nil {
		return append(dst, 0)
	}
	return append(append(dst, 1), end...)
}

// StaleRangeBounds returns the bounds of the rests of all range hints.
func StaleRangeBounds() (lower, upper []byte) { return []byte{staleRange}, []byte{staleRange + 1} }

// StaleHint is the decoded rest of a hint under HintStale. It identifies a row or the rows in [Start, End).
type StaleHint struct {
	Range bool
	// Clustering is the key of the row.
	Clustering []byte
	// End is nil if the range is unbounded.
	Start, End []byte
}

// ParseStaleHint decodes a rest. ok is false for any other bytes. Slices may point into rest.
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

// AppendViewRow appends the rest of the entry for a view row that a base row may have produced. value is the value of
// the view's key column that is not a key column of the base table. value is empty if no such column exists.
func AppendViewRow(dst, clustering, value []byte) []byte {
	return append(append(appendEscaped(dst, clustering), 0, valueEnd), value...)
}

// AppendViewRowsFrom appends the start of the view row entries of base rows with keys greater than or equal to
// clustering.
func AppendViewRowsFrom(dst, clustering []byte) []byte { return appendEscaped(dst, clustering) }

// ViewRowBounds returns the bounds of the rests of all view row entries of a base row.
func ViewRowBounds(clustering []byte) (lower, upper []byte) {
	lower = AppendViewRow(nil, clustering, nil)
	return lower, After(bytes.Clone(lower))
}

// ParseViewRow decodes the rest of a view row entry. ok is false for any other bytes. Slices may point into rest.
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

// AppendHintRemoval appends the form in which a sweep identifies an entry of a hint index. The sweep removes the entry
// unless a later write has raised its timestamp.
func AppendHintRemoval(dst, key []byte, stamp int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, key...), uint64(stamp))
}

// ParseHintRemoval decodes the output of AppendHintRemoval. ok is false if the key does not belong to a hint index.
func ParseHintRemoval(b []byte) (key []byte, stamp int64, ok bool) {
	if id := ID(b); id&IndexSpace == 0 || id&HintSpace == 0 || len(b) < idLen+8 {
		return nil, 0, false
	}
	n := len(b) - 8
	return b[:n], int64(binary.BigEndian.Uint64(b[n:])), true
}
