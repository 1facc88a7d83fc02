// SPDX-License-Identifier: Apache-2.0

package row

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Resolve decodes a stored row as a reader sees the row at the second now. It reports whether the row exists. deleted
// is the timestamp of the strongest deletion in the partition header that covers the row (Header.Covering). If no
// deletion covers the row, deleted is NotDeleted. Cells in dropped, which is in ascending order of columns, are
// treated as absent. The row points into value. Resolve does not allocate once its buffers have grown. An error wraps
// ErrCorrupt.
func (r *Row) Resolve(value []byte, deleted, now int64, dropped []cqltype.Dropped) (exists bool, err error) {
	var h head
	pos := h.read(value)
	if pos < 0 {
		return false, fmt.Errorf("head of row: %w", ErrCorrupt)
	}
	return r.resolve(value, pos, &h, deleted, now, dropped)
}

func (r *Row) resolve(value []byte, pos int, h *head, deleted, now int64, dropped []cqltype.Dropped) (bool, error) {
	floor := max(deleted, h.deleted.ts) // NotDeleted is below every timestamp
	r.Live = h.live && h.marker.Timestamp > floor && h.marker.Expiry > now
	if r.Live {
		r.Liveness = h.marker
	} else {
		r.Liveness = Liveness{}
	}
	cells, err := r.Cells[:0], error(nil)
	if pos, cells = resolvePlainCells(value, pos, h.base, h.base > floor && len(dropped) == 0,
		cells); pos < len(value) {
		cells, err = resolveRest(value, pos, h.base, floor, now, dropped, cells)
	}
	if err != nil {
		r.Live, r.Cells = false, cells[:0]
		return false, err
	}
	r.Cells = cells
	return r.Live || len(cells) > 0, nil
}

// resolvePlainCells is the fast path for the entries of most rows. These entries are live cells with the row's
// timestamp, without a path, with ascending small column IDs, and with values of less than 16 KiB. It stops at the
// first other entry.
func resolvePlainCells(b []byte, pos int, base int64, live bool, cells []Cell) (int, []Cell) {
	if !live {
		return pos, cells
	}
	for last := byte(0); pos+2 < len(b); {
		h := b[pos : pos+3]
		body, n := pos+3, int(h[2])
		if n >= 0x80 && body < len(b) { // the length has two bytes
			n = n&0x7f | int(b[body])<<7
			if body++; n >= 1<<14 {
				break
			}
		}
		next := body + n
		if h[0] != kindCell|timeBase || h[1] >= 0x80 || h[1] <= last || next > len(b) {
			break
		}
		last = h[1]
		if len(cells) == cap(cells) {
			cells = append(cells, Cell{})
		} else {
			cells = cells[:len(cells)+1]
		}
		c := &cells[len(cells)-1]
		c.Column, c.Path, c.Value, c.Timestamp, c.TTL, c.Expiry = uint32(h[1]), nil, b[body:next:next], base, 0,
			NoExpiry
		pos = next
	}
	return pos, cells
}

// resolveRest decodes the entries that start at pos. The entries before pos must be plain cells, and the last of them
// must be the last cell in cells.
func resolveRest(value []byte, pos int, base, floor, now int64, dropped []cqltype.Dropped, cells []Cell) ([]Cell,
	error) {
	columnFloor, column := floor, uint32(0)
	var last, e entry
	first := len(cells) == 0
	if !first {
		last.col, last.kind = cells[len(cells)-1].Column, kindCell
	}
	for ; pos < len(value); first = false {
		if pos = e.read(value, pos, base); pos < 0 || !first && outOfOrder(&last, &e) {
			return cells, fmt.Errorf("entry of row: %w", ErrCorrupt)
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
			if cqltype.Hides(dropped, e.col, e.ts) {
				continue
			}
		}
		cells = append(cells, Cell{Column: e.col, Path: e.path, Value: e.value, Timestamp: e.ts, TTL: e.ttl,
			Expiry: e.when})
	}
	return cells, nil
}

// outOfOrder reports whether entries are out of order. The check is cheap in the common case of ascending columns.
func outOfOrder(last, e *entry) bool {
	if last.col != e.col {
		return last.col > e.col
	}
	return last.compare(e) >= 0
}

// Header is the part of a partition, other than its rows, that a reader sees. Its slices are valid until the next
// Resolve.
type Header struct {
	// Static holds the static cells.
	Static Row
	// Deleted is the timestamp of the partition deletion, or NotDeleted if the partition has not been deleted.
	Deleted int64
	// Ranges holds the deleted intervals in a disjoint, ascending list.
	Ranges []Range
	// MoreRanges is true if more ranges are stored under separate keys.
	MoreRanges bool
}

// Clear makes h the header of a partition without header data.
func (h *Header) Clear() {
	h.Static.Live, h.Static.Cells, h.Deleted, h.Ranges = false, h.Static.Cells[:0], NotDeleted, h.Ranges[:0]
	h.MoreRanges = false
}

// Resolve decodes the merge of header operands, or of their deletions alone, as a reader sees the header at the second
// now. An error wraps ErrCorrupt.
func (h *Header) Resolve(value []byte, now int64, dropped []cqltype.Dropped) error {
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
	h.MoreRanges = hd.moreRanges
	return nil
}

// Covering returns the timestamp of the strongest deletion that covers a clustering key, or NotDeleted if none exists.
func (h *Header) Covering(clustering []byte) int64 {
	if len(h.Ranges) == 0 {
		return h.Deleted
	}
	i := h.After(clustering)
	if i < len(h.Ranges) && h.Ranges[i].Contains(clustering) {
		return max(h.Deleted, h.Ranges[i].Timestamp)
	}
	return h.Deleted
}

// After returns the index of the first range that ends after a clustering key. Only this range can contain the key.
func (h *Header) After(clustering []byte) int {
	i, _ := slices.BinarySearchFunc(h.Ranges, clustering, func(r Range, key []byte) int {
		if r.before(key) {
			return 1
		}
		return -1
	})
	return i
}
