// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// rowSlots decodes the current row into the slots of a selection.
type rowSlots struct {
	sel *selection
	// now is the Unix time in seconds that is used to compute remaining TTLs.
	now int64
	// values holds the slots. The slots refer to the visitor's arguments, the partition key, and the buffers below.
	values [][]byte
	// maskedValues holds the slots after masking.
	maskedValues                     [][]byte
	staticBuf, clusteringBuf, rowBuf []byte
	// staticLive reports whether the partition has static cells.
	staticLive bool
}

// begin prepares the slots of a selection.
func (d *rowSlots) begin(sel *selection, now int64) {
	d.sel, d.now = sel, now
	d.values = grow(d.values, len(sel.slots))
}

func (d *rowSlots) reset() {
	clear(d.values)
	clear(d.maskedValues)
	d.sel, d.values, d.maskedValues, d.staticLive = nil, d.values[:0], d.maskedValues[:0], false
}

// retained returns the size of the buffers in bytes.
func (d *rowSlots) retained() int { return cap(d.staticBuf) + cap(d.rowBuf) + cap(d.clusteringBuf) }

// fillPartition sets the slots of the partition key and the static columns. These slots refer to key.
func (d *rowSlots) fillPartition(key []byte, static *row.Row) error {
	sel := d.sel
	if len(sel.keys) == 1 {
		d.values[sel.keys[0]] = key
	} else {
		rest := key
		for _, i := range sel.keys {
			v, r, ok := token.SplitComponent(rest)
			if !ok {
				return dberr.Serverf("malformed partition key of %s.%s", d.sel.table.Keyspace, d.sel.table.Name)
			}
			if rest = r; i >= 0 {
				d.values[i] = v
			}
		}
	}
	d.staticLive = static != nil && len(static.Cells) > 0
	if len(sel.statics) == 0 {
		return nil
	}
	if d.staticBuf = d.staticBuf[:0]; d.staticBuf == nil {
		d.staticBuf = []byte{} // nil would represent null instead of an empty value
	}
	var cells []row.Cell
	if static != nil {
		cells = static.Cells
	}
	var err error
	if d.staticBuf, err = d.fillCells(sel.statics, cells, d.staticBuf); err != nil {
		return err
	}
	// The static cells must be copied because they are valid only during the call.
	for i := range sel.statics {
		if c := &sel.statics[i]; !c.multiCell && c.part == cellValue && d.values[c.slot] != nil {
			n := len(d.staticBuf)
			d.staticBuf = append(d.staticBuf, d.values[c.slot]...)
			d.values[c.slot] = d.staticBuf[n:len(d.staticBuf):len(d.staticBuf)]
		}
	}
	return nil
}

// fillRow sets the slots of clustering and regular columns.
func (d *rowSlots) fillRow(clustering []byte, r *row.Row) error {
	sel := d.sel
	if len(sel.clusterings) > 0 {
		if need := 4*len(clustering) + 64; cap(d.clusteringBuf) < need {
			d.clusteringBuf = make([]byte, 0, 2*need)
		}
		dst, rest := d.clusteringBuf[:0], clustering
		var err error
		for position, i := range sel.clusterings {
			c := d.sel.table.Clustering[position]
			if i < 0 {
				rest, err = c.Type.SkipKey(rest, c.Desc)
			} else {
				var v []byte
				v, rest, err = c.Type.ReadKey(dst, rest, c.Desc)
				if d.values[i] = v; v != nil {
					d.values[i] = v[:len(v):len(v)]
					dst = v[len(v):]
				}
			}
			if err != nil {
				return dberr.Serverf("clustering key of %s.%s: %v", d.sel.table.Keyspace, d.sel.table.Name, err)
			}
		}
	}
	var err error
	d.rowBuf, err = d.fillCells(sel.regulars, r.Cells, d.rowBuf[:0])
	return err
}

// fillCells merges the slots with the cells of a row. Both slots and cells are sorted by column ID.
func (d *rowSlots) fillCells(wanted []cellSlot, cells []row.Cell, buf []byte) ([]byte, error) {
	next := 0
	for i := range wanted {
		w := &wanted[i]
		for next < len(cells) && cells[next].Column < w.id {
			next++
		}
		if next == len(cells) || cells[next].Column != w.id {
			d.values[w.slot] = nil
			continue
		}
		if w.oneCell && w.part == cellValue {
			d.values[w.slot] = cells[next].Value
			continue
		}
		end := next + 1
		for end < len(cells) && cells[end].Column == w.id {
			end++
		}
		start := len(buf)
		var err error
		if buf, err = d.appendSlot(buf, w, cells[next:end]); err != nil {
			return buf, err
		}
		if d.values[w.slot] = buf[start:len(buf):len(buf)]; start == len(buf) {
			d.values[w.slot] = nil
		}
	}
	return buf, nil
}

// appendSlot appends the value of a multi-cell column, or the write time or the remaining TTL of a column. For null, it
// appends nothing.
func (d *rowSlots) appendSlot(buf []byte, w *cellSlot, cells []row.Cell) ([]byte, error) {
	switch w.part {
	case cellWriteTime, cellMaxWriteTime:
		if w.multiCell && w.part == cellWriteTime {
			return buf, nil // like Cassandra, only single-cell columns have a write time
		}
		newest := cells[0].Timestamp
		for i := range cells {
			newest = max(newest, cells[i].Timestamp)
		}
		return binary.BigEndian.AppendUint64(buf, uint64(newest)), nil
	case cellWriteTimes, cellTTLs:
		return d.appendTimes(buf, w, cells), nil
	case cellWriteTimesByKey, cellTTLsByKey:
		return d.appendTimesByKey(buf, w, cells)
	case cellTTL:
		if w.multiCell || cells[0].TTL == 0 {
			return buf, nil
		}
		return binary.BigEndian.AppendUint32(buf, uint32(cells[0].Expiry-d.now)), nil
	}
	buf, err := row.AppendValue(buf, w.typ, cells)
	if err != nil {
		return buf, dberr.Serverf("column of %s.%s: %v", d.sel.table.Keyspace, d.sel.table.Name, err)
	}
	return buf, nil
}

// fillNoRow sets the slots of a row to null.
func (d *rowSlots) fillNoRow() {
	for _, i := range d.sel.clusterings {
		if i >= 0 {
			d.values[i] = nil
		}
	}
	for i := range d.sel.regulars {
		d.values[d.sel.regulars[i].slot] = nil
	}
}
