// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Kind is what a request does.
type Kind uint8

// The kinds of requests, as a physical partition sees them.
const (
	// Point reads one row of a logical partition, or none; Slice reads several, or goes on with it.
	Point Kind = iota
	Slice
	// Scan reads without a partition key.
	Scan
	// Write writes without reading.
	Write
	// Condition reads and decides whether to write; Update reads what it changes: a counter, or a place of a list.
	Condition
	Update
	// Applied is what a Condition or an Update writes: it is not a request of its own.
	Applied
	// Kinds is how many there are.
	Kinds
)

var kindNames = [Kinds]string{"point", "slice", "scan", "write", "condition", "update", "applied"}

func (k Kind) String() string { return kindNames[k] }

// Counts are what was done since the replica was opened. Bytes are logical (see package ru).
type Counts struct {
	Requests                [Kinds]uint64
	Units                   [Kinds]ru.Units
	RowsRead                uint64
	BytesRead, BytesWritten uint64
}

// Total is what all requests have cost.
func (c *Counts) Total() (u ru.Units) {
	for _, n := range c.Units {
		u += n
	}
	return u
}

// Asked is how many requests there were.
func (c *Counts) Asked() (n uint64) {
	for k := range Applied {
		n += c.Requests[k]
	}
	return n
}

// Partition is what has been spent at one replica. Its zero value is ready for use, also concurrently.
type Partition struct {
	requests                          [Kinds]atomic.Uint64
	units                             [Kinds]atomic.Int64
	rowsRead, bytesRead, bytesWritten atomic.Uint64

	// step is below which price requests are sampled, in ru.Units; 0 while all are noted.
	step atomic.Int64

	mu      sync.Mutex // guards what follows
	heavy   *table
	history *history // nil until something was spent: see past
}

// Read counts a read of the logical partition key at tok, or of a part of one. key may be nil if the key is stored.
func (p *Partition) Read(k Kind, tok token.Token, key []byte, u ru.Units, rows, bytes int64) {
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

// Wrote counts a write to the logical partition at tok, and returns how many bytes all have written.
func (p *Partition) Wrote(k Kind, tok token.Token, u ru.Units, bytes int64) (written uint64) {
	written = p.bytesWritten.Add(uint64(bytes))
	p.note(tok, nil, u, p.units[k].Add(int64(u)))
	p.requests[k].Add(1)
	return written
}

// Evaluated adds request units for work on what a request of a kind has read from the logical partition key at tok. The
// request itself is counted elsewhere. key may be nil if the key is stored.
func (p *Partition) Evaluated(k Kind, tok token.Token, key []byte, u ru.Units) {
	total := p.units[k].Add(int64(u))
	if k != Scan {
		p.note(tok, key, u, total)
	}
}

// Counts returns what was counted.
func (p *Partition) Counts() (c Counts) {
	for k := range Kinds {
		c.Requests[k] = p.requests[k].Load()
		c.Units[k] = ru.Units(p.units[k].Load())
	}
	c.RowsRead, c.BytesRead, c.BytesWritten = p.rowsRead.Load(), p.bytesRead.Load(), p.bytesWritten.Load()
	return c
}
