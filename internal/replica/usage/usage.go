// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Kind is the kind of a request.
type Kind uint8

// These are the kinds of requests to a physical partition.
const (
	// Point reads up to one row of a logical partition. Slice reads several rows or continues a read of several rows.
	Point Kind = iota
	Slice
	// Scan reads without a partition key.
	Scan
	// Write writes without reading.
	Write
	// Condition reads data to decide whether to write. Update reads the data that it changes, such as a counter or a
	// list.
	Condition
	Update
	// Applied is the write of a Condition or an Update. It does not count as a separate request.
	Applied
	// Kinds is the number of kinds.
	Kinds
)

var kindNames = [Kinds]string{"point", "slice", "scan", "write", "condition", "update", "applied"}

func (k Kind) String() string { return kindNames[k] }

// Counts holds totals since the replica was opened. Bytes are logical (see package ru).
type Counts struct {
	Requests                [Kinds]uint64
	Units                   [Kinds]ru.Units
	RowsRead                uint64
	BytesRead, BytesWritten uint64
}

// Total returns the cost of all requests.
func (c *Counts) Total() (u ru.Units) {
	for _, n := range c.Units {
		u += n
	}
	return u
}

// RequestCount returns the number of requests.
func (c *Counts) RequestCount() (n uint64) {
	for k := range Applied {
		n += c.Requests[k]
	}
	return n
}

// Partition records the resources spent on one replica. The zero value is ready for use. It is safe for concurrent use.
type Partition struct {
	requests                          [Kinds]atomic.Uint64
	units                             [Kinds]atomic.Int64
	rowsRead, bytesRead, bytesWritten atomic.Uint64

	// step is the price, in ru.Units, below which requests are sampled. It is 0 while all requests are recorded.
	step atomic.Int64

	mu      sync.Mutex // mu guards the fields below
	heavy   *counterTable
	history *history // nil until resources have been spent; see readHistory
}

// RecordRead records a read of a logical partition or a part of it. key may be nil if the key has already been stored.
func (p *Partition) RecordRead(k Kind, tok token.Token, key []byte, u ru.Units, rows, bytes int64) {
	if rows > 0 {
		p.rowsRead.Add(uint64(rows))
		p.bytesRead.Add(uint64(bytes))
	}
	total := p.units[k].Add(int64(u))
	if k != Scan {
		p.note(tok, key, u, total)
	}
	p.requests[k].Add(1)
}

// RecordWrite records a write to the logical partition at token tok. It returns the total number of bytes written.
func (p *Partition) RecordWrite(k Kind, tok token.Token, u ru.Units, bytes int64) (written uint64) {
	written = p.bytesWritten.Add(uint64(bytes))
	p.note(tok, nil, u, p.units[k].Add(int64(u)))
	p.requests[k].Add(1)
	return written
}

// Evaluated adds request units for processing the result of a request. It does not count the request. key may be nil if
// the key has already been stored.
func (p *Partition) Evaluated(k Kind, tok token.Token, key []byte, u ru.Units) {
	total := p.units[k].Add(int64(u))
	if k != Scan {
		p.note(tok, key, u, total)
	}
}

// Counts returns the totals.
func (p *Partition) Counts() (c Counts) {
	for k := range Kinds {
		c.Requests[k] = p.requests[k].Load()
		c.Units[k] = ru.Units(p.units[k].Load())
	}
	c.RowsRead, c.BytesRead, c.BytesWritten = p.rowsRead.Load(), p.bytesRead.Load(), p.bytesWritten.Load()
	return c
}
