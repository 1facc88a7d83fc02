// SPDX-License-Identifier: Apache-2.0

package row

import (
	"fmt"
	"slices"
)

// Resolve decodes a stored row as it is seen at the second now and reports whether it exists. deleted is the timestamp of the
// strongest deletion in the partition header that covers the row (Header.Covering), NotDeleted for none. Cells of the
// columns in dropped (ascending) are absent. The row points into value and allocates nothing once grown. An error wraps
// ErrCorrupt.
func (r *Row) Resolve(value []byte, deleted, now int64, dropped []uint32) (exists bool, err error) {
	var h head
	pos := h.read(value)
	if pos < 0 {
		return false, fmt.Errorf("head of row: %w", ErrCorrupt)
	}
	return r.resolve(value, pos, &h, deleted, now, dropped)
}

func (r *Row) resolve(value []byte, pos int, h *head, deleted, now int64, dropped []uint32) (bool, error) {
	floor := max(deleted, h.deleted.ts) // NotDeleted is below every timestamp
	r.Live = h.live && h.marker.Timestamp > floor && h.marker.Expiry > now
	if r.Live {
		r.Liveness = h.marker
	} else {
		r.Liveness = Liveness{}
	}
	cells := r.Cells[:0]
	columnFloor, column := floor, uint32(0)
	var last, e entry
	for first := true; pos < len(value); first = false {
		if col, body, next := plainCell(value, pos); next > 0 && (first || last.col < col) && len(dropped) == 0 {
			last.col, last.kind, last.hasPath, last.path = col, kindCell, false, nil
			if pos = next; h.base > floor {
				cells = append(cells, Cell{Column: col, Value: value[body:next:next], Timestamp: h.base, Expiry: NoExpiry})
			}
			continue
		}
		if pos = e.read(value, pos, h.base); pos < 0 || !first && disordered(&last, &e) {
			r.Live, r.Cells = false, cells[:0]
			return false, fmt.Errorf("entry of row: %w", ErrCorrupt)
		}
		last.col, last.kind, last.hasPath, last.path = e.col, e.kind, e.hasPath, e.path
		if e.col != column {
			column, columnFloor = e.col, floor
		}
		switch {
		case e.kind == kindColDeletion:
			columnFloor = max(floor, e.ts)
			continue
		case e.ts <= columnFloor || e.kind == kindTombstone || e.when <= now:
			continue
		case len(dropped) > 0:
			if _, gone := slices.BinarySearch(dropped, e.col); gone {
				continue
			}
		}
		cells = append(cells, Cell{Column: e.col, Path: e.path, Value: e.value, Timestamp: e.ts, TTL: e.ttl, Expiry: e.when})
	}
	r.Cells = cells
	return r.Live || len(cells) > 0, nil
}

// plainCell is the short way past the most common entry: a cell with the row's timestamp, no path, a small column id and a
// value of up to 127 bytes. It returns where the value begins and ends, 0 for any other entry.
func plainCell(b []byte, pos int) (col uint32, body, next int) {
	if pos+2 >= len(b) {
		return 0, 0, 0
	}
	h := b[pos : pos+3]
	if h[0] != kindCell|timeBase || (h[1]|h[2]) >= 0x80 || pos+3+int(h[2]) > len(b) {
		return 0, 0, 0
	}
	return uint32(h[1]), pos + 3, pos + 3 + int(h[2])
}

// disordered is the order check of entries, cheap for the common case of ascending columns.
func disordered(last, e *entry) bool {
	if last.col != e.col {
		return last.col > e.col
	}
	return last.compare(e) >= 0
}

// Header is what a reader sees of a partition header. Its slices are valid until the next Resolve.
type Header struct {
	// Static holds the static cells.
	Static Row
	// Deleted is the timestamp of the partition deletion, NotDeleted if there is none.
	Deleted int64
	// Ranges are the deleted intervals, disjoint and ascending.
	Ranges []Range
}

// Clear makes h the header of a partition that has none.
func (h *Header) Clear() {
	h.Static.Live, h.Static.Cells, h.Deleted, h.Ranges = false, h.Static.Cells[:0], NotDeleted, h.Ranges[:0]
}

// Resolve decodes a stored header as it is seen at the second now. An error wraps ErrCorrupt.
func (h *Header) Resolve(value []byte, now int64, dropped []uint32) error {
	h.Clear()
	var hd head
	pos := hd.read(value)
	if pos < 0 {
		return fmt.Errorf("partition header: %w", ErrCorrupt)
	}
	if _, err := h.Static.resolve(value, pos, &hd, NotDeleted, now, dropped); err != nil {
		return err
	}
	h.Deleted = hd.deleted.ts
	h.Ranges = appendDecoded(h.Ranges, hd.ranges, hd.base)
	return nil
}

// Covering returns the timestamp of the strongest deletion that covers a clustering key, NotDeleted if none does.
func (h *Header) Covering(clustering []byte) int64 {
	if len(h.Ranges) == 0 {
		return h.Deleted
	}
	i := h.After(clustering)
	if i < len(h.Ranges) && h.Ranges[i].contains(clustering) {
		return max(h.Deleted, h.Ranges[i].Timestamp)
	}
	return h.Deleted
}

// After returns the index of the first range whose end lies behind a clustering key: the one that may cover it.
func (h *Header) After(clustering []byte) int {
	i, _ := slices.BinarySearchFunc(h.Ranges, clustering, func(r Range, key []byte) int {
		if r.before(key) {
			return 1
		}
		return -1
	})
	return i
}
