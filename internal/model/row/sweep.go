// SPDX-License-Identifier: Apache-2.0

package row

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Sweep removes, from the merged operands, data that no reader can see. This data includes the data that the deletion
// covered hides, and the cells in dropped. covered is a timestamp or NotDeleted, and dropped is in ascending order of
// columns. Sweep also removes deletions and expired cells that are older than horizon, in seconds. Sweep does not
// change deleted ranges (see SweepDeletions). Sweep reports whether any data remains to be stored. The caller must
// call Append next.
func (m *Merger) Sweep(covered, horizon int64, dropped []cqltype.Dropped) (remains bool) {
	m.mergeAllRuns()
	if m.dead && (m.deleted.ts <= covered || m.deleted.at < horizon) {
		m.dead, m.deleted = false, deletion{ts: NotDeleted}
	}
	m.sweepCells(covered, horizon, dropped)
	return m.remains()
}

// SweepDeletions removes deletions of a partition and of its ranges that are older than horizon, in seconds. clean
// reports whether the deletion of [start, end) with timestamp ts hides no stored data. For the partition, both bounds
// are nil. SweepDeletions calls clean for each deletion that is old enough. It removes only deletions for which clean
// returns true. SweepDeletions reports whether any data remains to be stored. The caller must call Append next.
func (m *Merger) SweepDeletions(horizon int64, clean func(start, end []byte, ts int64) bool) (remains bool) {
	m.mergeAllRuns()
	m.ranges = slices.DeleteFunc(m.ranges, func(r Range) bool {
		return r.At < horizon && clean(r.Start, r.End, r.Timestamp)
	})
	if m.dead && m.deleted.at < horizon && clean(nil, nil, m.deleted.ts) {
		m.dead, m.deleted = false, deletion{ts: NotDeleted}
	}
	return m.remains()
}

// Ranges returns the merged deleted ranges as a disjoint, ascending list. The result is valid until the next call.
func (m *Merger) Ranges() []Range {
	m.mergeAllRuns()
	return m.ranges
}

// SetRanges replaces the deleted ranges with a subset of the result of Ranges. apart means that more ranges are stored
// under separate keys.
func (m *Merger) SetRanges(rest []Range, apart bool) (remains bool) {
	m.ranges = append(m.ranges[:0], rest...)
	m.moreRanges = apart
	return m.remains()
}

// HasMoreRanges reports whether more ranges are stored under separate keys.
func (m *Merger) HasMoreRanges() bool { return m.moreRanges }

func (m *Merger) remains() bool {
	return m.live || m.dead || m.moreRanges || len(m.ranges) > 0 || len(m.entries) > 0
}

func (m *Merger) sweepCells(covered, horizon int64, dropped []cqltype.Dropped) {
	if m.live && (m.marker.Timestamp <= covered || m.marker.Expiry < horizon) {
		m.live = false
	}
	m.entries = slices.DeleteFunc(m.entries, func(e entry) bool {
		if e.ts <= covered || e.when < horizon { // a cell that does not expire has the maximum second as its expiry
			return true
		}
		return cqltype.Hides(dropped, e.col, e.ts)
	})
	if m.runs = m.runs[:0]; len(m.entries) > 0 {
		m.runs = append(m.runs, len(m.entries))
	}
}

// Oldest returns the second after which Sweep can remove data from a stored row. The result is the earliest second of
// a deletion or an expiry, or NoExpiry if the row has neither. covered and dropped have the same meaning as in Sweep.
// If covered or dropped hides data of the row, the result is -1.
func Oldest(value []byte, covered int64, dropped []cqltype.Dropped) (int64, error) {
	var h head
	pos := h.read(value)
	if pos < 0 {
		return 0, ErrCorrupt
	}
	oldest, hides := NoExpiry, false
	note := func(ts, when int64) {
		if hides = hides || ts <= covered; when < oldest {
			oldest = when
		}
	}
	if h.live {
		note(h.marker.Timestamp, h.marker.Expiry)
	}
	if h.dead {
		note(h.deleted.ts, h.deleted.at)
	}
	for _, r := range appendDecoded(nil, h.ranges, h.base) {
		note(r.Timestamp, r.At)
	}
	var e entry
	for pos < len(value) {
		if pos = e.read(value, pos, h.base); pos < 0 {
			return 0, ErrCorrupt
		}
		note(e.ts, e.when)
		hides = hides || len(dropped) > 0 && cqltype.Hides(dropped, e.col, e.ts)
	}
	if hides || !h.live && len(value) == headLen {
		return -1, nil
	}
	return oldest, nil
}

// Newest returns the highest timestamp in a stored row or in the deletions of a partition. It considers cells,
// tombstones, the marker, and deletions, but ignores ranges. Newest returns NotDeleted if the row has no timestamp.
func Newest(value []byte) (int64, error) {
	var h head
	pos := h.read(value)
	if pos < 0 {
		return 0, ErrCorrupt
	}
	newest := NotDeleted
	if h.live {
		newest = max(newest, h.marker.Timestamp)
	}
	if h.dead {
		newest = max(newest, h.deleted.ts)
	}
	var e entry
	for pos < len(value) {
		if pos = e.read(value, pos, h.base); pos < 0 {
			return 0, ErrCorrupt
		}
		newest = max(newest, e.ts)
	}
	return newest, nil
}

// Hidden reports whether a stored row contains data that a deletion with timestamp ts hides.
func Hidden(value []byte, ts int64) (bool, error) {
	var h head
	pos := h.read(value)
	if pos < 0 {
		return false, ErrCorrupt
	}
	if h.live && h.marker.Timestamp <= ts || h.dead && h.deleted.ts <= ts {
		return true, nil
	}
	var e entry
	for pos < len(value) {
		if pos = e.read(value, pos, h.base); pos < 0 {
			return false, ErrCorrupt
		}
		if e.ts <= ts {
			return true, nil
		}
	}
	return false, nil
}
