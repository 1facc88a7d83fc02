// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// PageBytes is the size, in bytes, at which a page of rows is sent. A larger row is sent as a separate page.
const PageBytes = 64 << 10

// A page consists of the version, the flags, and items. An item is a partition (token, key, and optional static row), a
// row (clustering key and cells), or the progress of a read without results (token, key, and number of keys). The last
// page ends with itemEnd, the number of items on all pages, and the trace. A failed read ends with itemFailed, the
// error, and the trace. If a follower has requested units, the lent units precede itemEnd. If the read has requested an
// aggregation, the items may be the result of the aggregation instead of rows.
const (
	itemPartition byte = 1 + iota
	itemPartitionStatic
	itemRow
	itemEnd
	itemFailed
	itemPassed
	itemLent
	itemPushedDown
)

// These are the flags of an encoded row.
const (
	rowLive = 1 << iota
	rowLifetime
)

// These are the flags of an encoded cell.
const (
	cellPath     = 1 << iota
	cellTime     // the timestamp differs from the base timestamp of the row
	cellLifetime // the cell has a TTL or an expiry
)

// appendRow encodes a row. It encodes a timestamp as the difference from the row's base timestamp.
func appendRow(dst []byte, r *row.Row) []byte {
	base := r.Liveness.Timestamp
	if !r.Live && len(r.Cells) > 0 {
		base = r.Cells[0].Timestamp
	}
	lifetime := r.Liveness.TTL != 0 || r.Liveness.Expiry != row.NoExpiry && r.Live
	dst = append(dst, codec.Bit(r.Live)*rowLive|codec.Bit(lifetime)*rowLifetime)
	dst = binary.AppendVarint(dst, base)
	if lifetime {
		dst = binary.AppendVarint(binary.AppendVarint(dst, int64(r.Liveness.TTL)), r.Liveness.Expiry)
	}
	dst = appendInt(dst, len(r.Cells))
	last := uint32(0)
	for i := range r.Cells {
		c := &r.Cells[i]
		life := c.TTL != 0 || c.Expiry != row.NoExpiry
		flags := codec.Bit(c.Path != nil)*cellPath | codec.Bit(c.Timestamp != base)*cellTime |
			codec.Bit(life)*cellLifetime
		dst = binary.AppendUvarint(append(dst, flags), uint64(c.Column-last)) // cells must be sorted by column
		last = c.Column
		if c.Path != nil {
			dst = codec.AppendBytes(dst, c.Path)
		}
		if c.Timestamp != base {
			dst = binary.AppendVarint(dst, c.Timestamp-base)
		}
		if life {
			dst = binary.AppendVarint(binary.AppendVarint(dst, int64(c.TTL)), c.Expiry)
		}
		dst = codec.AppendBytes(dst, c.Value)
	}
	return dst
}

// takeRow decodes a row into out and reuses the memory of out. The bytes of the row refer to the page.
func (r *reader) takeRow(out *row.Row) {
	flags := r.Byte()
	base := r.Int()
	*out = row.Row{Cells: out.Cells[:0], Live: flags&rowLive != 0}
	if out.Live {
		out.Liveness = row.Liveness{Timestamp: base, Expiry: row.NoExpiry}
	}
	if flags&rowLifetime != 0 {
		out.Liveness.TTL, out.Liveness.Expiry = int32(r.Int()), r.Int()
	}
	column := uint32(0)
	for range r.Count(3) {
		f := r.Byte()
		column += uint32(r.Uint())
		c := row.Cell{Column: column, Timestamp: base, Expiry: row.NoExpiry}
		if f&cellPath != 0 {
			c.Path = r.Bytes()
		}
		if f&cellTime != 0 {
			c.Timestamp = base + r.Int()
		}
		if f&cellLifetime != 0 {
			c.TTL, c.Expiry = int32(r.Int()), r.Int()
		}
		c.Value = r.Bytes()
		out.Cells = append(out.Cells, c)
	}
}

func appendPartition(dst []byte, t token.Token, key []byte, static *row.Row) []byte {
	kind := itemPartition
	if static != nil {
		kind = itemPartitionStatic
	}
	dst = codec.AppendBytes(binary.BigEndian.AppendUint64(append(dst, kind), uint64(t)), key)
	if static != nil {
		dst = appendRow(dst, static)
	}
	return dst
}

// pageReader decodes the pages of a read and passes their items to a visitor.
type pageReader struct {
	v command.Visitor
	// skipping is set when the visitor needs no more rows of the current partition. over is set when the visitor needs
	// no more data or has failed.
	skipping, over bool
	failure        error
	items          uint64
	row            row.Row
	// lent is the number of units that the leader lends to the replica on this node.
	lent ru.Units
	// c is the read. The cost of the read is computed from the items that the visitor has received, because the other
	// node may have read ahead.
	c *command.Read
	ru.Meter
}

func (p *pageReader) begin(c *command.Read, v command.Visitor) {
	*p = pageReader{c: c, v: v, row: row.Row{Cells: p.row.Cells[:0]}}
}

// end removes the references to pages.
func (p *pageReader) end() {
	clear(p.row.Cells[:cap(p.row.Cells)])
	p.v, p.c, p.failure = nil, nil, nil
}

// take passes the items of a page to the visitor, and reports whether the page is the last page. The bytes after the
// items remain in r.
func (p *pageReader) take(r *reader) (last bool, err error) {
	for len(r.Rest()) > 0 {
		switch kind := r.Byte(); kind {
		case itemPartition, itemPartitionStatic:
			tok, key := token.Token(r.Fixed()), r.Bytes()
			var static *row.Row
			if kind == itemPartitionStatic {
				static = &p.row
				r.takeRow(static)
			}
			p.items++
			if r.Err() == nil && !p.over {
				p.skipping = false
				p.Partition(p.c, key, static)
				p.handleStep(p.v.Partition(tok, key, static))
			}
		case itemRow:
			clustering := r.Bytes()
			r.takeRow(&p.row)
			p.items++
			if r.Err() == nil && !p.over && !p.skipping {
				p.Row(clustering, &p.row)
				p.handleStep(p.v.Row(clustering, &p.row))
			}
		case itemPassed:
			tok, key, looked := token.Token(r.Fixed()), r.Bytes(), r.Uint()
			p.items++
			if r.Err() == nil && !p.over {
				p.Entries(p.c, int(min(looked, math.MaxInt32)))
				p.handleStep(command.Passed(p.v, tok, key, int(min(looked, math.MaxInt32))))
			}
		case itemPushedDown:
			f := command.TakePushdownResult(&r.Reader)
			p.items++
			if r.Err() == nil && !p.over {
				p.pushedDown(&f)
			}
		case itemLent:
			p.lent = ru.Units(r.UpTo(math.MaxInt64))
		case itemEnd:
			if n := r.Uint(); n != p.items {
				r.Fail()
			}
			return true, r.Err()
		case itemFailed:
			return true, r.failure()
		default:
			r.Fail()
		}
	}
	return false, r.Err()
}

// pushedDown passes the result of an aggregation to the visitor.
func (p *pageReader) pushedDown(f *command.PushdownResult) {
	to, ok := p.v.(command.PushdownVisitor)
	if !ok || p.c.Pushdown == nil {
		p.over, p.failure = true, ErrMalformed
		return
	}
	p.Rows, p.Bytes = p.Rows+f.Rows, p.Bytes+f.Bytes
	p.handleStep(to.PushedDown(f))
}

func (p *pageReader) handleStep(s command.Step, err error) {
	switch {
	case err != nil:
		p.over, p.failure = true, err
	case s == command.Stop, s == command.Enough:
		p.over = true
	case s == command.NextPartition:
		p.skipping = true
	}
}
