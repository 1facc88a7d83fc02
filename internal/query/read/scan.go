// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/binary"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// scan is one execution of a plan: the visitor of its commands and all that it needs memory for. Scans are pooled.
type scan struct {
	plan    *Plan
	options Options
	page    *Page
	bind    expr.Bindings
	// deadline is that of USING TIMEOUT, zero if there is none.
	deadline time.Time

	// What the commands are made of.
	cmd                          command.Read
	index                        command.IndexLookup
	terms                        []command.IndexTerm
	slices                       []command.Slice
	start, end, keyBytes         []byte
	components                   [][]byte
	oneKey                       [1]partitionKey
	partitionFilters, rowFilters []filter
	afterKey, afterClustering    []byte
	remaining, pageLeft          int64
	partitionLimit, trim         int64
	// paged is false if the result comes in one piece: the client does not page, or the result is one row.
	paged, resumed                 bool
	lowMemory                      bool // there is no memory for a larger page
	from                           position
	visits, visitedOnPage          int // of the command, of the page
	commands                       int // that were sent
	room, rowBegin                 int // how many bytes the page may have without asking; where the row at hand begins
	meter                          meter.Meter
	full, done, paused, continuing bool
	// err is what went wrong in the visitor: the client is to see it as it is, whatever the reader makes of it.
	err error
	// at is where to go on if the page is full or the read has paused; it points into atClustering and key.
	at           position
	atClustering []byte

	// The partition at hand.
	open, rowsSeen, staticLive bool
	key                        []byte
	token                      token.Token
	leftInPartition            int64

	// values are the slots of the row at hand; they point into what was passed to the visitor, key and these buffers.
	values [][]byte
	// shown is the row at hand with its masks.
	maskedValues                     [][]byte
	staticBuf, clusteringBuf, rowBuf []byte
	json                             []byte

	group group

	// Rows to be sorted.
	sorted   []sortedRow
	sortKeys []byte

	ann annResult
}

// keptMax bounds the memory that a pooled scan keeps.
const pooledBytesMax = 1 << 20

// release forgets what must not be kept between executions.
func (s *scan) release() {
	if cap(s.staticBuf)+cap(s.rowBuf)+cap(s.clusteringBuf)+cap(s.json)+cap(s.sortKeys)+cap(s.group.buf)+
		32*cap(s.sorted) > pooledBytesMax {
		*s = scan{}
		return
	}
	clear(s.values)
	clear(s.maskedValues)
	clear(s.components)
	clear(s.slices)
	clear(s.terms)
	clear(s.sorted)
	*s = scan{
		slices: s.slices[:0], terms: s.terms[:0], start: s.start[:0], end: s.end[:0], keyBytes: s.keyBytes[:0],
		components: s.components[:0],
		afterKey:   s.afterKey[:0], afterClustering: s.afterClustering[:0], atClustering: s.atClustering[:0],
		key:    s.key[:0],
		values: s.values[:0], maskedValues: s.maskedValues[:0],
		staticBuf: s.staticBuf[:0], clusteringBuf: s.clusteringBuf[:0], rowBuf: s.rowBuf[:0],
		json: s.json[:0], group: s.group.reset(), sorted: s.sorted[:0], sortKeys: s.sortKeys[:0],
		ann: annResult{target: s.ann.target[:0], buf: s.ann.buf[:0]},
	}
}

// Partition implements command.Visitor.
func (s *scan) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	step, err := s.partition(tok, key, static)
	if err != nil {
		s.err = err
	}
	return step, err
}

// Row implements command.Visitor.
func (s *scan) Row(clustering []byte, r *row.Row) (command.Step, error) {
	step, err := s.row(clustering, r)
	if err != nil {
		s.err = err
	}
	return step, err
}

// Charge implements ru.Charged.
func (s *scan) Charge(u ru.Units) {
	s.page.Charge += u
	s.ann.previous = math.MaxFloat32 // the next physical partition begins anew
}

func (s *scan) partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	goesOn := s.continuing && bytes.Equal(key, s.key)
	s.continuing = false
	if !goesOn {
		if err := s.endPartition(); err != nil || s.full || s.done {
			return command.Stop, err
		}
		s.open, s.rowsSeen = true, false
		s.key, s.token = append(s.key[:0], key...), tok
		s.leftInPartition = s.partitionLimit
		s.page.Partitions++
	}
	if err := s.fillPartition(static); err != nil {
		return command.Stop, err
	}
	if ok, err := s.passes(s.partitionFilters); err != nil {
		return command.Stop, err
	} else if !ok {
		s.open = false
		return s.visited(command.NextPartition, nil, true), nil
	}
	if !s.plan.distinct {
		return command.More, nil
	}
	s.rowsSeen = true
	step, err := s.useRow(nil, true)
	return s.visited(step, nil, true), err
}

// rowSteps is the work that a row which was read allows for.
const rowSteps = 200

func (s *scan) row(clustering []byte, r *row.Row) (command.Step, error) {
	s.rowsSeen = true
	s.page.Visited++
	if s.bind.Meter != nil {
		s.bind.Meter.Release(0)
		s.bind.Meter.Allow(rowSteps)
	}
	if err := s.fillRow(clustering, r); err != nil {
		return command.Stop, err
	}
	step := command.More
	if s.ann.search != nil {
		if step = s.annStep(); step == command.Enough {
			return step, nil
		}
	}
	ok, err := s.passes(s.rowFilters)
	if err != nil {
		return command.Stop, err
	}
	if ok {
		if step, err = s.useRow(clustering, false); err != nil {
			return command.Stop, err
		}
	}
	return s.visited(step, clustering, false), nil
}

// Passed implements command.Walker.
func (s *scan) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if s.ann.search != nil {
		return command.More, nil // entries that were looked at: it does not pause
	}
	step, err := s.passed(tok, key, looked)
	if err != nil {
		s.err = err
	}
	return step, err
}

// passed pauses the read at the end of a partition with nothing in it once the command has looked at enough.
func (s *scan) passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	s.visitedOnPage += looked
	if s.visits += looked; s.visits < s.options.VisitsMax {
		return command.More, nil
	}
	if err := s.endPartition(); err != nil || s.full || s.done {
		return command.Stop, err
	}
	s.key, s.token = append(s.key[:0], key...), tok
	s.paused = true
	s.mark(nil, true)
	return command.Stop, nil
}

// visited pauses the read when a command has visited enough.
func (s *scan) visited(step command.Step, clustering []byte, afterPartition bool) command.Step {
	s.visits++
	s.visitedOnPage++
	if s.visits < s.options.VisitsMax || step == command.Stop || s.ann.search != nil {
		return step
	}
	s.paused = true
	s.mark(clustering, afterPartition || step == command.NextPartition)
	return command.Stop
}

// mark sets the place to go on from.
func (s *scan) mark(clustering []byte, afterPartition bool) {
	s.atClustering = append(s.atClustering[:0], clustering...)
	s.at = position{
		key: s.key, token: s.token, clustering: s.atClustering, afterPartition: afterPartition,
		remaining: s.remaining, inPartition: s.leftInPartition,
	}
}

// take uses a row that has passed the filters. alone says that the partition has no further ones.
func (s *scan) useRow(clustering []byte, alone bool) (command.Step, error) {
	if err := s.applyMasks(); err != nil {
		return command.Stop, err
	}
	if s.plan.aggregated {
		return s.aggregate(clustering, alone)
	}
	if s.plan.ann != nil {
		return command.More, s.offerANN()
	}
	if len(s.plan.sort) > 0 {
		if err := s.noteSorted(clustering); err != nil {
			return command.Stop, err
		}
	}
	if err := s.emit(); err != nil {
		return command.Stop, err
	}
	return s.countRow(clustering, alone), nil
}

// counted counts a row, or a group, of the result. clustering is the last row in it.
func (s *scan) countRow(clustering []byte, alone bool) command.Step {
	s.pageLeft--
	if s.remaining != unlimited {
		s.remaining--
	}
	if s.leftInPartition != unlimited {
		s.leftInPartition--
	}
	over := alone || s.leftInPartition == 0 || len(s.plan.table.Clustering) == 0
	switch {
	case s.remaining == 0:
		s.done = true
	case s.pageLeft == 0 || s.paged && (s.lowMemory || len(s.page.Cells) >= s.options.PageBytesMax):
		s.full = true
		s.mark(clustering, over)
	case over:
		return command.NextPartition
	default:
		return command.More
	}
	return command.Stop
}

// endPartition ends the partition at hand, if any: one that has nothing but static columns shows as a row, and groups
// end.
func (s *scan) endPartition() error {
	if !s.open {
		return nil
	}
	s.open, s.continuing = false, false
	if !s.rowsSeen && s.staticLive && s.plan.staticRows {
		s.fillNoRow()
		if _, err := s.useRow(nil, true); err != nil || s.full || s.done {
			return err
		}
	}
	if s.plan.grouped && s.group.open {
		_, err := s.closeGroup()
		return err
	}
	return nil
}

// fillPartition fills the slots of the partition key and of static columns.
func (s *scan) fillPartition(static *row.Row) error {
	sel := &s.plan.sel
	if len(sel.keys) == 1 {
		s.values[sel.keys[0]] = s.key
	} else {
		rest := s.key
		for _, i := range sel.keys {
			v, r, ok := token.SplitComponent(rest)
			if !ok {
				return dberr.Serverf("malformed partition key of %s.%s", s.plan.table.Keyspace, s.plan.table.Name)
			}
			if rest = r; i >= 0 {
				s.values[i] = v
			}
		}
	}
	s.staticLive = static != nil && len(static.Cells) > 0
	if len(sel.statics) == 0 {
		return nil
	}
	if s.staticBuf = s.staticBuf[:0]; s.staticBuf == nil {
		s.staticBuf = []byte{} // a part of it that is empty must not be nil, which is null
	}
	var cells []row.Cell
	if static != nil {
		cells = static.Cells
	}
	var err error
	if s.staticBuf, err = s.fillCells(sel.statics, cells, s.staticBuf); err != nil {
		return err
	}
	// The cells are the caller's, and the partition outlives the call.
	for i := range sel.statics {
		if c := &sel.statics[i]; !c.multiCell && c.part == cellValue && s.values[c.slot] != nil {
			n := len(s.staticBuf)
			s.staticBuf = append(s.staticBuf, s.values[c.slot]...)
			s.values[c.slot] = s.staticBuf[n:len(s.staticBuf):len(s.staticBuf)]
		}
	}
	return nil
}

// fillRow fills the slots of clustering and regular columns.
func (s *scan) fillRow(clustering []byte, r *row.Row) error {
	sel := &s.plan.sel
	if len(sel.clusterings) > 0 {
		if need := 4*len(clustering) + 64; cap(s.clusteringBuf) < need {
			s.clusteringBuf = make([]byte, 0, 2*need)
		}
		dst, rest := s.clusteringBuf[:0], clustering
		var err error
		for position, i := range sel.clusterings {
			c := s.plan.table.Clustering[position]
			if i < 0 {
				rest, err = c.Type.SkipKey(rest, c.Desc)
			} else {
				var v []byte
				v, rest, err = c.Type.ReadKey(dst, rest, c.Desc)
				if s.values[i] = v; v != nil {
					s.values[i] = v[:len(v):len(v)]
					dst = v[len(v):]
				}
			}
			if err != nil {
				return dberr.Serverf("clustering key of %s.%s: %v", s.plan.table.Keyspace, s.plan.table.Name, err)
			}
		}
	}
	var err error
	s.rowBuf, err = s.fillCells(sel.regulars, r.Cells, s.rowBuf[:0])
	return err
}

// fillCells merges the wanted slots with the cells of a row; both ascend by column.
func (s *scan) fillCells(wanted []cellSlot, cells []row.Cell, buf []byte) ([]byte, error) {
	next := 0
	for i := range wanted {
		w := &wanted[i]
		for next < len(cells) && cells[next].Column < w.id {
			next++
		}
		if next == len(cells) || cells[next].Column != w.id {
			s.values[w.slot] = nil
			continue
		}
		if w.oneCell && w.part == cellValue {
			s.values[w.slot] = cells[next].Value
			continue
		}
		end := next + 1
		for end < len(cells) && cells[end].Column == w.id {
			end++
		}
		start := len(buf)
		var err error
		if buf, err = s.appendSlot(buf, w, cells[next:end]); err != nil {
			return buf, err
		}
		if s.values[w.slot] = buf[start:len(buf):len(buf)]; start == len(buf) {
			s.values[w.slot] = nil
		}
	}
	return buf, nil
}

// appendSlot appends the value of a column that may have several cells, or the write time or remaining time to live of
// any; nothing for null.
func (s *scan) appendSlot(buf []byte, w *cellSlot, cells []row.Cell) ([]byte, error) {
	switch w.part {
	case cellWriteTime, cellMaxWriteTime:
		if w.multiCell && w.part == cellWriteTime {
			return buf, nil // as Cassandra: only a single cell has one
		}
		newest := cells[0].Timestamp
		for i := range cells {
			newest = max(newest, cells[i].Timestamp)
		}
		return binary.BigEndian.AppendUint64(buf, uint64(newest)), nil
	case cellWriteTimes, cellTTLs:
		return s.appendTimes(buf, w, cells), nil
	case cellWriteTimesByKey, cellTTLsByKey:
		return s.appendTimesByKey(buf, w, cells)
	case cellTTL:
		if w.multiCell || cells[0].TTL == 0 {
			return buf, nil
		}
		return binary.BigEndian.AppendUint32(buf, uint32(cells[0].Expiry-s.options.Now)), nil
	}
	buf, err := row.AppendValue(buf, w.typ, cells)
	if err != nil {
		return buf, dberr.Serverf("column of %s.%s: %v", s.plan.table.Keyspace, s.plan.table.Name, err)
	}
	return buf, nil
}
