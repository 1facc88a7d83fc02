// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/read"
)

// scanShapesMax bounds the kinds of scans of a table that are told apart: a new one takes the place of the one that has
// cost least, which is not counted any more until its statement is bound again.
const maxScanShapes = 16

// ScanShape is a kind of read that finds its partitions along the ring, or filters the rows of some, with what there
// was of it since the node started.
type ScanShape struct {
	read.Shape
	// Count are the reads that began, Pages the pages of all, Rows the rows that they returned.
	Count, Pages, Rows uint64
	Units              ru.Units
}

// scanCount counts the reads of a kind.
type scanCount struct {
	shape              read.Shape
	count, pages, rows atomic.Uint64
	units              atomic.Int64
}

// note counts a page of a read.
func (c *scanCount) record(first bool, rows int, u ru.Units) {
	if first {
		c.count.Add(1)
	}
	c.pages.Add(1)
	c.rows.Add(uint64(rows))
	c.units.Add(int64(u))
}

// scanCounts are the kinds of scans of all tables.
type scanCounts struct {
	mu     sync.Mutex
	tables map[uint32]map[string]*scanCount
}

// of is the count of a kind of scan of a table.
func (s *scanCounts) counter(table uint32, shape read.Shape) *scanCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables == nil {
		s.tables = map[uint32]map[string]*scanCount{}
	}
	all := s.tables[table]
	if all == nil {
		all = map[string]*scanCount{}
		s.tables[table] = all
	}
	if c := all[shape.Text]; c != nil {
		return c
	}
	if len(all) >= maxScanShapes {
		least := ""
		for text, c := range all {
			if have := all[least]; have == nil || c.units.Load() < have.units.Load() {
				least = text
			}
		}
		delete(all, least)
	}
	c := &scanCount{shape: shape}
	all[shape.Text] = c
	return c
}

// keep forgets the tables that a schema does not have.
func (s *scanCounts) keep(sch *schema.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.tables {
		if sch.TableByID(id) == nil {
			delete(s.tables, id)
		}
	}
}

// Scans lists the kinds of scans of a table that clients have asked this node for, in no order.
func (e *Engine) Scans(table uint32) (out []ScanShape) {
	s := &e.scans
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.tables[table] {
		if pages := c.pages.Load(); pages > 0 {
			out = append(out, ScanShape{Shape: c.shape, Count: c.count.Load(), Pages: pages, Rows: c.rows.Load(),
				Units: ru.Units(c.units.Load())})
		}
	}
	return out
}
