// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// cellPart selects the part of a cell that a slot holds.
type cellPart uint8

const (
	cellValue cellPart = iota
	cellWriteTime
	cellMaxWriteTime
	cellTTL
	// These parts are the times of all cells as lists.
	cellWriteTimes
	cellTTLs
	// These parts are the times of all cells by key or field. See expr.TimesOf.
	cellWriteTimesByKey
	cellTTLsByKey
)

// slot is a value that is read from each row. It is the value, the write time, or the TTL of a column.
type slot struct {
	column *schema.Column
	part   cellPart
}

// output is a column of the result.
type output struct {
	name string
	// jsonName is the key of the column in JSON, including the colon.
	jsonName string
	typ      *cqltype.Type
	// If the selector is a plain column, slot is the slot of the value. Otherwise, slot is -1 and term computes the
	// value.
	slot int
	term expr.Term
	// masked reports whether the value is derived from a masked column.
	masked bool
}

// selection is a SELECT clause. During binding, selection is also the expr.Scope of the selectors.
type selection struct {
	release *compat.Release
	table   *schema.Table
	outputs []output
	slots   []slot
	indexes map[slot]int
	// selected holds the column of each slot that the selectors use. wildcard reports whether the clause is SELECT *.
	selected   []*schema.Column
	wildcard   bool
	aggregates []*expr.Aggregate
	json       bool
	// masked is set when a masked column is used.
	masked bool

	// These fields hold the slots by source. keys and clusterings contain the slot for each key column, or -1 for
	// unused columns. clusterings ends with the last used column. statics and regulars are sorted by column ID.
	keys, clusterings []int
	statics, regulars []cellSlot
}

// cellSlot is a slot whose value is read from the cells of a row.
type cellSlot struct {
	id        uint32
	slot      int
	part      cellPart
	multiCell bool
	oneCell   bool // row.OneCell
	typ       *cqltype.Type
}

// Column implements expr.Scope.
func (s *selection) Column(name parser.Ident) (int, *cqltype.Type, error) {
	c, err := expr.FindColumn(s.table, name)
	if err != nil {
		return 0, nil, err
	}
	return s.use(slot{c, cellValue}), c.Type, nil
}

// CellMeta implements expr.Scope.
func (s *selection) CellMeta(kind parser.CellMetaKind, name parser.Ident) (int, *cqltype.Type, error) {
	c, part, typ, err := s.cellMeta(kind, name)
	if err != nil {
		return 0, nil, err
	}
	switch {
	case kind == parser.MaxWriteTime:
	case s.release.SingleCellMeta && c.Type.IsCollection():
		return 0, nil, dberr.Invalidf("Cannot use selection function %s on collections", s.metaName(kind))
	case !s.release.SingleCellMeta && c.Type.MultiCell():
		typ = cqltype.ListOf(typ)
		if part = cellWriteTimes; kind == parser.TTL {
			part = cellTTLs
		}
	}
	return s.use(slot{c, part}), typ, nil
}

// CellMetas implements expr.Scope.
func (s *selection) CellMetas(kind parser.CellMetaKind, name parser.Ident) (m expr.CellMetas, err error) {
	c, part, typ, err := s.cellMeta(kind, name)
	if err != nil {
		return m, err
	}
	if c.Type.MultiCell() {
		typ = expr.TimesOf(c.Type, typ)
		if part = cellWriteTimesByKey; kind == parser.TTL {
			part = cellTTLsByKey
		}
	}
	return expr.CellMetas{Slot: s.use(slot{c, part}), Type: typ, Column: c.Type}, nil
}

// cellMeta resolves the column of writetime, maxwritetime, or ttl. It also returns the result type for a single cell.
func (s *selection) cellMeta(kind parser.CellMetaKind, name parser.Ident) (c *schema.Column, part cellPart,
	typ *cqltype.Type, err error) {
	if c, err = expr.FindColumn(s.table, name); err != nil {
		return nil, 0, nil, err
	}
	if c.Kind == schema.PartitionKey || c.Kind == schema.Clustering {
		return nil, 0, nil, dberr.Invalidf("Cannot use selection function %s on PRIMARY KEY part %s", s.metaName(kind),
			c.Name)
	}
	switch kind {
	case parser.TTL:
		return c, cellTTL, cqltype.Native(cqltype.Int), nil
	case parser.MaxWriteTime:
		return c, cellMaxWriteTime, cqltype.Native(cqltype.Bigint), nil
	}
	return c, cellWriteTime, cqltype.Native(cqltype.Bigint), nil
}

// metaName returns the function name for error messages.
func (s *selection) metaName(kind parser.CellMetaKind) string {
	name := map[parser.CellMetaKind]string{parser.TTL: "ttl", parser.MaxWriteTime: "maxWriteTime",
		parser.WriteTime: "writeTime"}[kind]
	if s.release.CamelCellMeta {
		return name
	}
	return strings.ToLower(name)
}

// use returns the slot of a selected column.
func (s *selection) use(v slot) int {
	s.masked = s.masked || v.part == cellValue && v.column.Mask != nil
	n := len(s.slots)
	i := s.slotOf(v)
	if i == n {
		s.selected = append(s.selected, v.column)
	}
	return i
}

func (s *selection) slotOf(v slot) int {
	if i, ok := s.indexes[v]; ok {
		return i
	}
	if s.indexes == nil {
		s.indexes = map[slot]int{}
	}
	s.indexes[v] = len(s.slots)
	s.slots = append(s.slots, v)
	return len(s.slots) - 1
}

// onlyStatics reports whether the clause selects at least one static column and no columns other than static and
// partition key columns.
func (s *selection) onlyStatics() bool {
	any := false
	for _, c := range s.selected {
		if c.Kind != schema.Static && c.Kind != schema.PartitionKey {
			return false
		}
		any = any || c.Kind == schema.Static
	}
	return any && !s.wildcard
}

// bindSelection binds the SELECT clause.
func (p *Plan) bindSelection(stmt *parser.Select, env *expr.Env) error {
	s := &p.sel
	s.release = env.Release
	s.table, s.json, s.wildcard = p.table, stmt.JSON, len(stmt.Selectors) == 0
	if s.wildcard {
		for _, list := range [][]*schema.Column{p.table.PartitionKey, p.table.Clustering, p.table.Statics,
			p.table.Regulars} {
			for _, c := range list {
				s.outputs = append(s.outputs, output{name: c.Name, typ: c.Type, slot: s.use(slot{c, cellValue}),
					masked: c.Mask != nil})
			}
		}
		return nil
	}
	for _, raw := range stmt.Selectors {
		s.masked = false
		t, err := expr.BindSelector(raw.Term, s, env)
		if err != nil {
			return err
		}
		o := output{name: raw.Alias.Name, typ: t.Type(), slot: -1, term: t, masked: s.masked}
		if o.name == "" {
			o.name = expr.SelectorName(raw.Term, s, env)
		}
		if i, ok := expr.SlotIndex(t); ok {
			o.slot = i
		}
		s.outputs = append(s.outputs, o)
	}
	s.aggregates = env.Aggregates
	return nil
}

// sortSlots groups the slots by source. All slots must be allocated before the call.
func (s *selection) sortSlots() {
	s.indexes = nil
	s.keys = make([]int, len(s.table.PartitionKey))
	s.clusterings = make([]int, len(s.table.Clustering))
	for i := range s.keys {
		s.keys[i] = -1
	}
	for i := range s.clusterings {
		s.clusterings[i] = -1
	}
	depth, anyKey := 0, false
	for i, v := range s.slots {
		c := v.column
		cell := cellSlot{id: c.ID, slot: i, part: v.part, multiCell: c.Type.MultiCell(), oneCell: row.OneCell(c.Type),
			typ: c.Type}
		switch c.Kind {
		case schema.PartitionKey:
			s.keys[c.Position], anyKey = i, true
		case schema.Clustering:
			s.clusterings[c.Position] = i
			depth = max(depth, c.Position+1)
		case schema.Static:
			s.statics = append(s.statics, cell)
		default:
			s.regulars = append(s.regulars, cell)
		}
	}
	s.clusterings = s.clusterings[:depth]
	if !anyKey {
		s.keys = nil
	}
	for _, list := range [][]cellSlot{s.statics, s.regulars} {
		slices.SortStableFunc(list, func(a, b cellSlot) int { return int(int64(a.id) - int64(b.id)) })
	}
}
