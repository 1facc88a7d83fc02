// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// unknown is the timestamp of a cell whose timestamp the server does not return.
const unknown = math.MinInt64

// Cell is the unit of a write. It is a value, an element of a collection, or a field.
type Cell struct {
	// key is the key of a map entry, the element of a set, or the number of a field. It is nil for all other cells.
	key, value []byte
	// time is the timestamp of the cell in microseconds since 1970. ttl is the remaining lifetime, in seconds, at the
	// time when the cell was read. The value 0 means that the cell does not expire.
	time int64
	ttl  int32
}

// Row is a row, or the static cells of a logical partition.
type Row struct {
	// Key contains the partition key. Unless Static is set, it also contains the clustering key.
	Key    [][]byte
	Static bool
	// Err is the reason why the row cannot be read, or nil. A row that cannot be read has only a key.
	Err error
	// nulls is the number of trailing clustering columns that are null. Only compact tables permit such columns.
	nulls int
	// columns contains the cells of each column. A null column has no cells.
	columns [][]Cell
	// at is the time at which the row was read.
	at time.Time
	// ends is set if all cells expire soon.
	ends bool
	// token, partition, and clustering define the position of the row.
	token                 token.Token
	partition, clustering []byte
}

// Newest returns the highest timestamp of the cells. If no timestamp is known, it returns math.MinInt64.
func (r *Row) Newest() int64 {
	newest := int64(unknown)
	for _, cells := range r.columns {
		for _, c := range cells {
			newest = max(newest, c.time)
		}
	}
	return newest
}

// empty reports whether the row has no cells. In this case, only the existence of the row is stored.
func (r *Row) empty() bool {
	return !slices.ContainsFunc(r.columns, func(cells []Cell) bool { return len(cells) > 0 })
}

// compare compares positions in the order in which servers return rows.
func (r *Row) compare(o *Row) int {
	if c := cmp.Or(r.token.Compare(o.token), bytes.Compare(r.partition, o.partition)); c != 0 {
		return c
	}
	if r.Static != o.Static {
		if r.Static {
			return -1
		}
		return 1
	}
	return bytes.Compare(r.clustering, o.clustering)
}

// decoder converts pages to rows.
type decoder struct {
	q *Query
	// last is the partition key of the previous row.
	last []byte
	any  bool
}

// page appends the rows of a page, which refer to the page.
func (d *decoder) page(p *cqlwire.Result, at time.Time) (rows []Row, err error) {
	l := d.q.layout
	keys := len(l.Partition) + len(l.Clustering)
	if p.Kind != cqlwire.ResultRows || p.ColumnCount != d.q.columns() {
		return nil, fmt.Errorf("the server returned %d columns instead of %d", p.ColumnCount, d.q.columns())
	}
	err = bulk.EachRow(p, func(row [][]byte) error {
		r := Row{Key: slices.Clone(row[:len(l.Partition)]), at: at}
		r.partition = token.AppendKey(nil, r.Key...)
		r.token = token.Hash(r.partition)
		begins := !d.any || !bytes.Equal(d.last, r.partition)
		d.last, d.any = r.partition, true
		cells := row[keys:]
		if len(l.Static) > 0 {
			s := r
			s.Static = true
			s.columns, cells, r.Err = d.cells(l.Static, cells)
			if begins && r.Err == nil && !s.empty() {
				rows = append(rows, s)
			}
			if r.Err == nil && len(l.Clustering) > 0 && row[len(l.Partition)] == nil {
				return nil // only static cells
			}
		}
		r.Key = append(r.Key, row[len(l.Partition):keys]...)
		if r.Err == nil {
			r.Err = r.cluster(l, row[len(l.Partition):keys])
		}
		if r.Err == nil {
			r.columns, _, r.Err = d.cells(l.Regular, cells)
		}
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// cluster decodes the clustering key. Trailing columns may be null, but not all columns may be null.
func (r *Row) cluster(l *Layout, values [][]byte) error {
	for i, c := range l.Clustering {
		v := values[i]
		r.clustering = c.Type.AppendKey(r.clustering, v, c.Descending)
		switch {
		case v == nil && i > 0:
			r.nulls++
		case v == nil || r.nulls > 0 || c.Type.Validate(v) != nil:
			return fmt.Errorf("column %s: the server returned a key that is not a %v", c.Name, c.Type)
		}
	}
	return nil
}

func (d *decoder) cells(columns []Column, row [][]byte) (out [][]Cell, rest [][]byte, err error) {
	out = make([][]Cell, len(columns))
	for i := range columns {
		c := &columns[i]
		value := row[0]
		var times, ttls []byte
		row = row[1:]
		timed := d.q.layout.timed(c, d.q.elements)
		if timed {
			times, ttls, row = row[0], row[1], row[2:]
		}
		if value == nil {
			continue
		}
		if out[i], err = d.column(c, value, times, ttls, timed); err != nil {
			return nil, nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return out, row, nil
}

func (d *decoder) column(c *Column, value, times, ttls []byte, timed bool) ([]Cell, error) {
	if !c.Several {
		cell := Cell{value: value, time: unknown}
		if timed {
			if len(times) != 8 || ttls != nil && len(ttls) != 4 {
				return nil, fmt.Errorf("the server returned no timestamp")
			}
			cell.time, cell.ttl = int64(binary.BigEndian.Uint64(times)), seconds(ttls)
		}
		return []Cell{cell}, nil
	}
	var cells []Cell
	c.cellsOf(value, func(key, value []byte) { cells = append(cells, Cell{key: key, value: value, time: unknown}) })
	if timed {
		wire, left := elements(times), elements(ttls)
		if len(wire) < len(cells) {
			return nil, fmt.Errorf("the server returned %d timestamps for %d elements", len(wire), len(cells))
		}
		for i := range cells {
			if len(wire[i]) == 8 {
				cells[i].time = int64(binary.BigEndian.Uint64(wire[i]))
			}
			if i < len(left) {
				cells[i].ttl = seconds(left[i])
			}
		}
	}
	// A null field is not a cell.
	return slices.DeleteFunc(cells, func(c Cell) bool { return c.value == nil }), nil
}

// seconds decodes a TTL. The value null represents no TTL. A TTL below one second is not treated as 0.
func seconds(wire []byte) int32 {
	if len(wire) != 4 {
		return 0
	}
	return max(1, int32(binary.BigEndian.Uint32(wire)))
}

// elements returns the elements of a list.
func elements(list []byte) (out [][]byte) {
	for _, e := range numbers.Elements(list) {
		out = append(out, e)
	}
	return out
}

// Stream contains the rows of a token range in order.
type Stream struct {
	rows  []Row
	pages chan []Row
	err   error // set before pages is closed
	last  *Row
}

// Read starts to read the rows of a range. Before it requests the next page, it calls paced with the number of rows
// and bytes of the current page. The caller must read the stream to its end or cancel the context.
func (q *Query) Read(ctx context.Context, r *bulk.Reader, tokens bulk.TokenRange, paced func(rows, bytes int)) *Stream {
	s := &Stream{pages: make(chan []Row, 1)}
	go func() {
		defer close(s.pages)
		d := decoder{q: q}
		s.err = r.Pages(ctx, q.Range(tokens), func(p *cqlwire.Result) error {
			rows, err := d.page(p, time.Now())
			if err != nil {
				return err
			}
			if paced != nil {
				paced(p.RowCount, len(p.Cells))
			}
			select {
			case s.pages <- rows:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	return s
}

// Next returns the next row, or nil at the end. If the rows are not in the order of tokens and keys, Next returns an
// error.
func (s *Stream) Next() (*Row, error) {
	for len(s.rows) == 0 {
		var ok bool
		if s.rows, ok = <-s.pages; !ok {
			return nil, s.err
		}
	}
	r := &s.rows[0]
	s.rows = s.rows[1:]
	if r.Err != nil {
		return r, nil
	}
	if s.last != nil && s.last.compare(r) >= 0 {
		return nil, fmt.Errorf("the server returned rows out of token and key order (tokens %d and %d): "+
			"its partitioner is not Murmur3, or two partition keys have the same token", s.last.token, r.token)
	}
	s.last = r
	return r, nil
}

// Merge calls f with each row of both streams. For a missing row, it passes nil. If a row has an error, Merge passes
// the row without a counterpart.
func Merge(source, target *Stream, f func(source, target *Row) error) error {
	a, err := source.Next()
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	b, err := target.Next()
	for err == nil && (a != nil || b != nil) {
		order := 0
		switch {
		case a == nil:
			order = 1
		case b == nil, a.Err != nil: // an unreadable row has no counterpart
			order = -1
		case b.Err != nil:
			order = 1
		default:
			order = a.compare(b)
		}
		x, y := a, b
		if order > 0 {
			x = nil
		} else if order < 0 {
			y = nil
		}
		if err := f(x, y); err != nil {
			return err
		}
		if x != nil {
			if a, err = source.Next(); err != nil {
				return fmt.Errorf("source: %w", err)
			}
		}
		if y != nil {
			b, err = target.Next()
		}
	}
	return err
}

// Drain waits for the end of a stream whose context has been canceled.
func (s *Stream) Drain() {
	for range s.pages {
	}
}
