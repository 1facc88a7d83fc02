// SPDX-License-Identifier: Apache-2.0

package row

import (
	"fmt"
	"slices"
)

// Merger merges any number of operands of one key. The caller adds operands in any order and then calls Append. A
// Merger may be reused. It does not allocate once its buffers have grown.
type Merger struct {
	base       int64
	any        bool
	live       bool
	marker     Liveness
	dead       bool
	deleted    deletion
	ranges     []Range
	moreRanges bool
	scratch    rangeScratch
	// entries holds sorted runs consecutively, and runs holds their lengths. When two adjacent runs have similar
	// lengths, they are merged. A chain of k operands therefore costs O(k log k). If all operands change one cell, the
	// cost is O(k).
	entries, spare []entry
	runs           []int
}

// Reset removes all operands.
func (m *Merger) Reset() {
	clear(m.entries)
	clear(m.spare[:cap(m.spare)])
	clear(m.ranges)
	m.entries, m.runs, m.ranges = m.entries[:0], m.runs[:0], m.ranges[:0]
	m.any, m.live, m.dead, m.moreRanges, m.deleted = false, false, false, false, deletion{ts: NotDeleted}
}

// Add merges an operand or a merged row. The Merger references the bytes until Reset is called. An error wraps
// ErrCorrupt.
func (m *Merger) Add(operand []byte) error {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return fmt.Errorf("head of operand: %w", ErrCorrupt)
	}
	n := len(m.entries)
	for pos < len(operand) {
		m.entries = append(m.entries, entry{})
		e := &m.entries[len(m.entries)-1]
		if pos = e.read(operand, pos, h.base); pos < 0 {
			m.entries = m.entries[:n]
			return fmt.Errorf("entry %d: %w", len(m.entries)-n, ErrCorrupt)
		}
		if len(m.entries)-n > 1 && m.entries[len(m.entries)-2].compare(e) >= 0 {
			m.entries = m.entries[:n]
			return fmt.Errorf("entries out of order: %w", ErrCorrupt)
		}
	}
	m.addHead(&h)
	if len(m.entries) > n {
		m.runs = append(m.runs, len(m.entries)-n)
		for k := len(m.runs); k > 1 && m.runs[k-2] <= 2*m.runs[k-1]; k = len(m.runs) {
			m.mergeRuns()
		}
	}
	return nil
}

func (m *Merger) addHead(h *head) {
	if !m.any || h.base > m.base {
		m.base = h.base
	}
	m.any, m.moreRanges = true, m.moreRanges || h.moreRanges
	if h.live && (!m.live || h.marker.supersedes(&m.marker)) {
		m.live, m.marker = true, h.marker
	}
	if h.dead && (!m.dead || h.deleted.wins(m.deleted)) {
		m.dead, m.deleted = true, h.deleted
	}
	m.ranges = appendDecoded(m.ranges, h.ranges, h.base)
}

// mergeRuns merges the last two runs.
func (m *Merger) mergeRuns() {
	k := len(m.runs)
	start := len(m.entries) - m.runs[k-1] - m.runs[k-2]
	a, b := m.entries[start:start+m.runs[k-2]], m.entries[start+m.runs[k-2]:]
	if len(a) == 1 && len(b) == 1 && a[0].compare(&b[0]) == 0 { // a chain of operands on one cell
		if b[0].wins(&a[0]) {
			a[0] = b[0]
		}
		m.entries, m.runs = m.entries[:start+1], m.runs[:k-1]
		return
	}
	out := m.spare[:0]
	for len(a) > 0 && len(b) > 0 {
		c := a[0].compare(&b[0])
		switch {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			if b[0].wins(&a[0]) {
				out = append(out, b[0])
			} else {
				out = append(out, a[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	out = append(append(out, a...), b...)
	m.spare = out
	m.entries = append(m.entries[:start], out...)
	m.runs = append(m.runs[:k-2], len(out))
}

// Append appends the merged row, in canonical form, to dst. If no operand was added, it appends an empty row.
func (m *Merger) Append(dst []byte) []byte {
	m.mergeAllRuns()
	h := head{base: m.canonicalBase(), live: m.live, marker: m.marker, dead: m.dead, deleted: m.deleted,
		moreRanges: m.moreRanges}
	dst = h.append(dst, m.ranges)
	for i := range m.entries {
		dst = m.entries[i].append(dst, h.base)
	}
	return dst
}

// mergeAllRuns merges all runs into one run and drops hidden entries.
func (m *Merger) mergeAllRuns() {
	for len(m.runs) > 1 {
		m.mergeRuns()
	}
	m.dropHidden()
}

// dropHidden removes the data that a deletion of this row hides (RW3).
func (m *Merger) dropHidden() {
	if len(m.ranges) > 0 {
		if m.dead {
			m.ranges = slices.DeleteFunc(m.ranges, func(r Range) bool { return r.Timestamp <= m.deleted.ts })
		}
		m.ranges = append(m.ranges[:0], m.scratch.normalize(m.ranges)...)
	}
	if m.dead && m.live && m.marker.Timestamp <= m.deleted.ts {
		m.live = false
	}
	n := 0
	var floor deletion // deletion timestamp of the current column
	var col uint32
	hasFloor := false
	for i := range m.entries {
		e := &m.entries[i]
		if m.dead && e.ts <= m.deleted.ts {
			continue
		}
		if e.kind == kindColDeletion {
			col, floor, hasFloor = e.col, deletion{e.ts, e.when}, true
		} else if hasFloor && e.col == col && e.ts <= floor.ts {
			continue
		}
		if n != i {
			m.entries[n] = *e
		}
		n++
	}
	m.entries = m.entries[:n]
	if m.runs = m.runs[:0]; n > 0 {
		m.runs = append(m.runs, n)
	}
}

// canonicalBase returns a base timestamp that depends only on the content of the row.
func (m *Merger) canonicalBase() int64 {
	if m.live {
		return m.marker.Timestamp
	}
	base, found := int64(0), false
	note := func(ts int64) {
		if !found || ts > base {
			base, found = ts, true
		}
	}
	if m.dead {
		note(m.deleted.ts)
	}
	for i := range m.ranges {
		note(m.ranges[i].Timestamp)
	}
	for i := range m.entries {
		note(m.entries[i].ts)
	}
	if !found {
		return m.base
	}
	return base
}

// Merge appends the canonical merge of two operands or rows to dst.
func Merge(dst, a, b []byte) ([]byte, error) {
	var m Merger
	m.Reset()
	if err := m.Add(a); err != nil {
		return dst, err
	}
	if err := m.Add(b); err != nil {
		return dst, err
	}
	return m.Append(dst), nil
}
