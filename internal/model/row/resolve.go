// SPDX-License-Identifier: Apache-2.0

package row

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Resolve decodes a stored row as it is seen at the second now and reports whether it exists. deleted is the timestamp
// of the strongest deletion in the partition header that covers the row (Header.Covering), NotDeleted for none. Cells
// that dropped (ascending by columns) hides are absent. The row points into value and allocates nothing once grown. An
// error wraps ErrCorrupt.
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
	if pos, cells = plainCells(value, pos, h.base, h.base > floor && len(dropped) == 0, cells); pos < len(value) {
		cells, err = resolveRest(value, pos, h.base, floor, now, dropped, cells)
	}
	if err != nil {
		r.Live, r.Cells = false, cells[:0]
		return false, err
	}
	r.Cells = cells
	return r.Live || len(cells) > 0, nil
}

// plainCells is the short way past the entries that most rows have and nothing else: live cells with the row's
// timestamp, no path, ascending small column ids and values of less than 16 KiB. It stops at the first other entry.
func plainCells(b []byte, pos int, base int64, live bool, cells []Cell) (int, []Cell) {
	if !live {
		return pos, cells
	}
	for last := byte(0); pos+2 < len(b); {
		h := b[pos : pos+3]
		body, n := pos+3, int(h[2])
		if n >= 0x80 && body < len(b) { // two bytes of length
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

// resolveRest decodes the entries from pos on. Those before it were plain cells, the last of which is the last in
// cells.
func resolveRest(value []byte, pos int, base, floor, now int64, dropped []cqltype.Dropped, cells []Cell) ([]Cell,
	error) {
	columnFloor, column := floor, uint32(0)
	var last, e entry
	first := len(cells) == 0
	if !first {
		last.col, last.kind = cells[len(cells)-1].Column, kindCell
	}
	for ; pos < len(value); first = false {
		if pos = e.read(value, pos, base); pos < 0 || !first && disordered(&last, &e) {
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

// disordered is the order check of entries, cheap for the common case of ascending columns.
func disordered(last, e *entry) bool {
	if last.col != e.col {
		return last.col > e.col
	}
	return last.compare(e) >= 0
}

// Header is what a reader sees of a partition beside its rows. Its slices are valid until the next Resolve.
type Header struct {
	// Static holds the static cells.
	Static Row
	// Deleted is the timestamp of the partition deletion, NotDeleted if there is none.
	Deleted int64
	// Ranges are the deleted intervals, disjoint and ascending.
	Ranges []Range
	// Apart is true if more ranges are stored under keys of their own.
	Apart bool
}

// Clear makes h the header of a partition that has none.
func (h *Header) Clear() {
	h.Static.Live, h.Static.Cells, h.Deleted, h.Ranges = false, h.Static.Cells[:0], NotDeleted, h.Ranges[:0]
	h.Apart = false
}

// Resolve decodes the merge of header operands, or the deletions among them alone, as it is seen at the second now. An
// error wraps ErrCorrupt.
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
	h.Apart = hd.apart
	return nil
}

// Covering returns the timestamp of the strongest deletion that covers a clustering key, NotDeleted if none does.
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

// After returns the index of the first range whose end lies after a clustering key: the one that may cover it.
func (h *Header) After(clustering []byte) int {
	i, _ := slices.BinarySearchFunc(h.Ranges, clustering, func(r Range, key []byte) int {
		if r.before(key) {
			return 1
		}
		return -1
	})
	return i
}
