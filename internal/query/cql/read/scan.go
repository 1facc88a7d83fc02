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
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// scan is one execution of a plan: the visitor of its commands and its buffers. Scans are pooled.
type scan struct {
	plan    *Plan
	options Options
	page    *Page
	bind    expr.Bindings
	// deadline is the deadline of USING TIMEOUT, or zero.
	deadline time.Time

	// The parts of the commands.
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
	// paged reports whether the result is paged. It is false if the client does not page, or if the result is one row.
	paged, resumed                 bool
	lowMemory                      bool // no memory is left for a larger page
	from                           position
	visits, visitedOnPage          int // rows visited by the command, and on the page
	commands                       int // number of commands sent
	room, rowBegin                 int // size up to which memory is reserved; start of the current row
	meter                          meter.Meter
	full, done, paused, continuing bool
	// err is the error of the visitor. The client receives it unchanged, even if the reader returns a different error.
	err error
	// at is the position at which to resume if the page is full or the read has paused. It points into atClustering and
	// key.
	at           position
	atClustering []byte

	// The current partition.
	open, rowsSeen, staticLive bool
	key                        []byte
	token                      token.Token
	leftInPartition            int64

	// values holds the slots of the current row. They point into the visitor's arguments, key, and the buffers below.
	values [][]byte
	// maskedValues holds the current row after masking.
	maskedValues                     [][]byte
	staticBuf, clusteringBuf, rowBuf []byte
	json                             []byte

	group group

	// The rows to sort.
	sorted   []sortedRow
	sortKeys []byte

	ann annResult
}

// pooledBytesMax limits the memory that a pooled scan retains.
const pooledBytesMax = 1 << 20

// release clears the data that must not be retained between executions.
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
	s.ann.previous = math.MaxFloat32 // the walk of the next physical partition starts again
}

func (s *scan) partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	goesOn := s.continuing && bytes.Equal(key, s.key)
	s.continuing = false
	if !goesOn {
		if err := s.endPartition(); err != nil || s.full || s.done {
			return command.Stop, err
		}
		s.open, s.rowsSeen = true, false
		s.key, s.token = keyIn(s.key, key), tok
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

// rowSteps is the number of steps allowed per row read.
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

// Passed implements command.ProgressVisitor.
func (s *scan) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if s.ann.search != nil {
		return command.More, nil // an index walk does not pause
	}
	step, err := s.passed(tok, key, looked)
	if err != nil {
		s.err = err
	}
	return step, err
}

// passed pauses the read at the end of a partition without live data if the command has visited enough keys.
func (s *scan) passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	s.visitedOnPage += looked
	if s.visits += looked; s.visits < s.options.VisitsMax {
		return command.More, nil
	}
	if err := s.endPartition(); err != nil || s.full || s.done {
		return command.Stop, err
	}
	s.key, s.token = keyIn(s.key, key), tok
	s.paused = true
	s.mark(nil, true)
	return command.Stop, nil
}

// visited pauses the read if the command has visited enough keys.
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

// mark sets the position at which to resume.
func (s *scan) mark(clustering []byte, afterPartition bool) {
	s.atClustering = append(s.atClustering[:0], clustering...)
	s.at = position{
		key: s.key, token: s.token, clustering: s.atClustering, afterPartition: afterPartition,
		remaining: s.remaining, inPartition: s.leftInPartition,
	}
}

// useRow processes a row that satisfies the filters. alone reports whether the partition has no further rows.
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

// countRow counts a row or a group of the result. clustering is its last row.
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

// endPartition ends the current partition, if there is one. A partition with only static columns is returned as a row,
// and its group ends.
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

// fillPartition sets the slots of the partition key and the static columns.
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
		s.staticBuf = []byte{} // an empty value must not be nil, which means null
	}
	var cells []row.Cell
	if static != nil {
		cells = static.Cells
	}
	var err error
	if s.staticBuf, err = s.fillCells(sel.statics, cells, s.staticBuf); err != nil {
		return err
	}
	// The cells belong to the caller, but the partition outlives the call.
	for i := range sel.statics {
		if c := &sel.statics[i]; !c.multiCell && c.part == cellValue && s.values[c.slot] != nil {
			n := len(s.staticBuf)
			s.staticBuf = append(s.staticBuf, s.values[c.slot]...)
			s.values[c.slot] = s.staticBuf[n:len(s.staticBuf):len(s.staticBuf)]
		}
	}
	return nil
}

// fillRow sets the slots of clustering and regular columns.
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

// fillCells merges the slots with the cells of a row. Both are sorted by column.
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

// appendSlot appends the value of a multi-cell column, or the write time or remaining TTL of any column. It appends
// nothing for null.
func (s *scan) appendSlot(buf []byte, w *cellSlot, cells []row.Cell) ([]byte, error) {
	switch w.part {
	case cellWriteTime, cellMaxWriteTime:
		if w.multiCell && w.part == cellWriteTime {
			return buf, nil // as in Cassandra, only a single-cell column has a write time
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

// keyIn returns a copy of a partition key in buf's memory. It is never nil: a view may have an empty key, and nil means
// null.
func keyIn(buf, key []byte) []byte {
	if buf = append(buf[:0], key...); buf == nil {
		return []byte{}
	}
	return buf
}
