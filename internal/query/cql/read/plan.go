// SPDX-License-Identifier: Apache-2.0

package read

import (
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
	"slices"
)

// Plan is a SELECT bound to one revision of a table.
type Plan struct {
	keyspace *schema.Keyspace
	table    *schema.Table

	columns   []Column
	variables []expr.Column
	pkIndexes []uint16

	sel      selection
	where    where
	distinct bool
	groups   grouping
	order    ordering
	// ann is the ANN OF clause, or nil.
	ann    *annOrder
	limits limitClause
	// dropped holds the dropped columns by ascending ID.
	dropped []cqltype.Dropped

	// oneRow reports whether equalities restrict the whole primary key.
	oneRow bool
	// simple is the result of where.simple. statics reports whether the plan reads static cells. staticRows reports
	// whether a partition with only static cells is returned as a row.
	simple, statics, staticRows bool
	// masks lists the slots that are masked for clients without permission.
	masks []maskedSlot
	// baseTimes is nil unless the statement selects times of view columns.
	baseTimes *baseTimes
	// computes reports whether the plan calls user-defined or built-in functions.
	computes bool
	// evaluates reports whether an execution evaluates functions, aggregates, filters, masks, JSON, or sort keys.
	evaluates bool
}

// Prepare binds a SELECT on a table of a keyspace. markers is the number of bind markers in the whole statement.
func Prepare(rel *compat.Release, stmt *parser.Select, ks *schema.Keyspace, table *schema.Table, markers int) (*Plan,
	error) {
	return Bind(stmt, expr.NewEnv(rel, ks, table, markers))
}

// Bind binds a SELECT in an environment. The statements of a transaction share an environment.
func Bind(stmt *parser.Select, env *expr.Env) (*Plan, error) {
	table := env.Table
	p := &Plan{keyspace: env.Keyspace, table: table, distinct: stmt.Distinct, dropped: table.Hidden()}
	if err := p.bindSelection(stmt, env); err != nil {
		return nil, err
	}
	var err error
	if p.ann, err = p.bindANN(stmt, env); err != nil {
		return nil, err
	}
	w, err := bindWhere(stmt, table, env, p.sel.onlyStatics(), p.ann != nil)
	if err != nil {
		return nil, err
	}
	p.where = *w
	ordering, err := orderingColumns(stmt, table)
	if err != nil {
		return nil, err
	}
	if err := p.bindDistinct(stmt); err != nil {
		return nil, err
	}
	if err := p.bindGroups(stmt, env); err != nil {
		return nil, err
	}
	if err := p.bindOrder(ordering, env.Release.PlainOrderText); err != nil {
		return nil, err
	}
	if p.ann != nil {
		err = p.checkANN(stmt)
	} else {
		err = p.where.checkFiltering(stmt.AllowFiltering || table.Virtual && env.Release.FiltersVirtual)
	}
	if err != nil {
		return nil, err
	}
	if err := p.bindLimits(stmt, env); err != nil {
		return nil, err
	}
	if err := p.checkFeed(stmt); err != nil {
		return nil, err
	}
	p.prepare(env)
	p.describe(stmt, env)
	return p, nil
}

// HasTimeout reports whether the statement has USING TIMEOUT.
func (p *Plan) HasTimeout() bool { return p.limits.timeout != nil }

// Keyspace returns the keyspace of the table.
func (p *Plan) Keyspace() *schema.Keyspace { return p.keyspace }

// Table returns the table revision to which the plan is bound.
func (p *Plan) Table() *schema.Table { return p.table }

// Columns describes the columns of the result.
func (p *Plan) Columns() []Column { return p.columns }

// Variables returns descriptions of the bind markers.
func (p *Plan) Variables() []expr.Column { return p.variables }

// PKIndexes returns the indexes of the partition key markers in key order. It returns nil unless all components of the
// partition key are bound.
func (p *Plan) PKIndexes() []uint16 { return p.pkIndexes }

// IsShort reports whether an execution with the given page size reads at most about rowsMax rows of one logical
// partition. A short execution reads one row, or a page that is neither filtered nor aggregated, and takes
// microseconds.
func (p *Plan) IsShort(pageSize, rowsMax int) bool {
	w := &p.where
	if p.computes || p.ann != nil || p.baseTimes != nil || w.feed.start != nil || w.keyRange || w.lookup.index != nil ||
		w.token != nil || w.pk.Has(relation.In) {
		return false
	}
	return p.oneRow || pageSize > 0 && pageSize <= rowsMax && !p.groups.aggregated && len(w.filtered) == 0
}

// OneRow reports whether a result has at most one row, because the whole primary key is restricted or all rows are
// aggregated.
func (p *Plan) OneRow() bool { return p.oneRow || p.groups.aggregated && !p.groups.grouped }

// Indexed reports whether an index is used.
func (p *Plan) Indexed() bool { return p.where.lookup.index != nil }

// Key returns the partition key that the plan reads. It returns an error unless the plan reads exactly one partition
// key.
func (p *Plan) Key(b *expr.Bindings) ([]byte, error) {
	if p.where.feed.start != nil {
		return nil, dberr.Invalidf("A SELECT in a transaction cannot read the change feed")
	}
	if p.ann != nil {
		return nil, dberr.Invalidf("A SELECT in a transaction cannot order by ANN")
	}
	if p.where.keyRange || p.where.token != nil {
		return nil, dberr.Invalidf("A SELECT in a transaction must specify the whole partition key")
	}
	keys, err := p.where.keys(b)
	if err == nil && len(keys) != 1 {
		err = dberr.Invalidf("A statement in a transaction must specify one partition key, not %d", len(keys))
	}
	if err != nil {
		return nil, err
	}
	return keys[0].bytes, nil
}

// Keys returns the partition keys that the plan reads. If the statement does not specify the partition keys, ok is
// false.
func (p *Plan) Keys(b *expr.Bindings) (list [][]byte, ok bool, err error) {
	w := &p.where
	if w.feed.start != nil || p.ann != nil || w.keyRange || w.lookup.index != nil || w.token != nil {
		return nil, false, nil
	}
	keys, err := w.keys(b)
	for _, k := range keys {
		list = append(list, k.bytes)
	}
	return list, err == nil, err
}

// Scans reports whether an execution scans a token range or an index instead of reading partition keys.
func (p *Plan) Scans() bool {
	return p.where.keyRange || p.where.lookup.index != nil || p.where.token != nil
}

// Evaluates reports whether an execution evaluates expressions and is limited by Options.Evaluation.
func (p *Plan) Evaluates() bool { return p.evaluates }

// FansOut reports whether an execution reads all physical partitions or the partitions of a token range.
func (p *Plan) FansOut() bool { return p.where.keyRange }

// Filters reports whether an execution may read rows that it does not return.
func (p *Plan) Filters() bool { return len(p.where.filtered) > 0 }

// prepare sets the fields that executions require.
func (p *Plan) prepare(env *expr.Env) {
	p.computes = env.Computes()
	p.evaluates = p.computes || p.table.Masked() || p.groups.aggregated || p.sel.json || len(p.where.filtered) > 0 ||
		len(p.order.sort) > 0 || p.ann != nil ||
		slices.ContainsFunc(p.sel.outputs, func(o output) bool { return o.slot < 0 || o.masked })
	p.where.filterSlots = map[*schema.Column]int{}
	for _, r := range p.where.filtered {
		for _, c := range r.Columns {
			p.where.filterSlots[c] = p.sel.slotOf(slot{c, cellValue})
		}
	}
	if p.ann != nil {
		p.ann.walks = !p.table.Virtual
		p.ann.slot = p.sel.slotOf(slot{p.ann.column, cellValue})
	}
	p.bindMasks(env)
	p.bindBaseTimes()
	p.sel.sortSlots()
	p.simple = p.where.simple()
	p.oneRow = p.where.oneRow()
	p.staticRows = len(p.table.Statics) > 0 && p.where.wholePartitions() && !p.distinct
	p.statics = p.staticRows || len(p.sel.statics) > 0
	for i := range p.sel.outputs {
		p.sel.outputs[i].jsonName = jsonName(p.sel.outputs[i].name)
	}
}

// describe sets the result columns, the bind markers, and the indexes of the partition key markers.
func (p *Plan) describe(stmt *parser.Select, env *expr.Env) {
	if stmt.JSON {
		p.columns = []Column{{Keyspace: p.table.Keyspace, Table: p.table.Name, Name: "[json]",
			Type: cqltype.Native(cqltype.Text)}}
	} else {
		for _, o := range p.sel.outputs {
			p.columns = append(p.columns, Column{Keyspace: p.table.Keyspace, Table: p.table.Name, Name: o.name,
				Type: o.typ})
		}
	}
	p.describeFeed()
	p.variables = env.Variables()
	p.pkIndexes = relation.PartitionMarkers(stmt.Where, p.table)
}
