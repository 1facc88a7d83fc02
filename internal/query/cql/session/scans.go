// SPDX-License-Identifier: Apache-2.0

package session

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/read"
)

// maxScanShapes limits the number of scan kinds counted per table. A new kind replaces the kind with the lowest total
// cost. A replaced kind is not counted until a statement of this kind is bound again.
const maxScanShapes = 16

// ScanShape describes a kind of scan or filtered read and its counters since the node started.
type ScanShape struct {
	read.Shape
	// Count is the number of reads. Pages and Rows are the numbers of returned pages and rows.
	Count, Pages, Rows uint64
	Units              ru.Units
}

type scanCount struct {
	shape              read.Shape
	count, pages, rows atomic.Uint64
	units              atomic.Int64
}

func (c *scanCount) record(first bool, rows int, u ru.Units) {
	if first {
		c.count.Add(1)
	}
	c.pages.Add(1)
	c.rows.Add(uint64(rows))
	c.units.Add(int64(u))
}

// scanCounts holds the scan counters of all tables.
type scanCounts struct {
	mu     sync.Mutex
	tables map[uint32]map[string]*scanCount
}

// counter returns the counter for scans of a table with a given shape.
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

// keep removes the counters of tables that the schema does not contain.
func (s *scanCounts) keep(sch *schema.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.tables {
		if sch.TableByID(id) == nil {
			delete(s.tables, id)
		}
	}
}

// Scans returns the kinds of scans of a table that this node has served, in no particular order.
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
