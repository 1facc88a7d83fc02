// SPDX-License-Identifier: Apache-2.0

package read

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/relation"
	"slices"
)

// Plan is a SELECT bound to one revision of a table.
type Plan struct {
	keyspace *schema.Keyspace
	table    *schema.Table

	columns   []Column
	variables []expr.Variable
	pkIndexes []uint16

	sel      selection
	where    where
	distinct bool
	// aggregated is true if rows are folded together: there are aggregates or a GROUP BY. grouped is true with GROUP
	// BY, and groupPrefix is the number of clustering columns that tell groups of a partition apart.
	aggregated, grouped bool
	groupPrefix         int
	// groupBy is a function of the clustering column after the prefix, whose value tells groups apart, too; nil if
	// there is none. groupText is the function as written.
	groupBy   expr.Term
	groupText string
	reversed  bool
	// near is what the result is nearest to, nil without ANN OF.
	ann *annOrder
	// walks says that rows can be looked at in the order of their nearness: they are stored, and neither in the key nor
	// static.
	walksANN bool
	// sort lists the clustering positions to order by after the read, for ORDER BY over several partitions.
	sort []int

	limit, partitionLimit expr.Term
	// timeout is that of USING TIMEOUT, nil if there is none.
	timeout expr.Term
	// limitText and partitionLimitText are the limits as written, for Explain.
	limitText, partitionLimitText string
	// dropped are the ids of dropped columns, ascending.
	dropped []uint32

	// filterSlots are the slots of the columns that rows are checked by.
	filterSlots map[*schema.Column]int
	// oneRow is true if the whole primary key is given by equalities.
	oneRow bool
	// simple is true if the clustering restrictions give one interval without allocating. statics asks commands for
	// static cells; staticRows is true if a partition with nothing but static cells shows as a row.
	simple, statics, staticRows bool
	jsonNames                   []string
	// masks are the slots that are masked for those who may not see them.
	masks []maskedSlot
	// origin is the base table of a view whose columns' times are selected; else nil.
	baseTimes *baseTimes
	// computes says that functions are called, user-defined or not.
	computes bool
	// evaluates says that an execution does more with rows than to pass columns on: functions, aggregates, filters,
	// masks, JSON, sorting.
	evaluates bool
}

// Prepare binds a SELECT on a table of a keyspace. markers is the number of bind markers of the whole statement.
func Prepare(rel *release.Release, stmt *parser.Select, ks *schema.Keyspace, table *schema.Table, markers int) (*Plan,
	error) {
	return Bind(stmt, expr.NewEnv(rel, ks, table, markers))
}

// Bind binds a SELECT in an environment that other statements of a transaction may share.
func Bind(stmt *parser.Select, env *expr.Env) (*Plan, error) {
	table := env.Table
	p := &Plan{keyspace: env.Keyspace, table: table, distinct: stmt.Distinct, dropped: table.DroppedIDs()}
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
func (p *Plan) HasTimeout() bool { return p.timeout != nil }

// Keyspace is the keyspace of the table.
func (p *Plan) Keyspace() *schema.Keyspace { return p.keyspace }

// Table is the table at the revision the plan was made for.
func (p *Plan) Table() *schema.Table { return p.table }

// Columns describes the columns of the result.
func (p *Plan) Columns() []Column { return p.columns }

// Variables describes the bind markers.
func (p *Plan) Variables() []expr.Variable { return p.variables }

// PKIndexes are the markers that give the components of the partition key, in their order; nil if not all are bound.
func (p *Plan) PKIndexes() []uint16 { return p.pkIndexes }

// Short reports whether an execution with pages of that many rows looks at no more than about rowsMax rows of one
// logical partition, so that it takes microseconds: it reads one row, or a page that is neither filtered nor folded.
func (p *Plan) IsShort(pageSize, rowsMax int) bool {
	w := &p.where
	if p.computes || p.ann != nil || p.baseTimes != nil || w.feedStart != nil || w.keyRange || w.index != nil ||
		w.token != nil || w.pk.Has(relation.In) {
		return false
	}
	return p.oneRow || pageSize > 0 && pageSize <= rowsMax && !p.aggregated && len(w.filtered) == 0
}

// OneRow reports whether a result has at most one row: the whole primary key is given, or all rows are folded into one.
func (p *Plan) OneRow() bool { return p.oneRow || p.aggregated && !p.grouped }

// Indexed reports whether rows are found through an index.
func (p *Plan) Indexed() bool { return p.where.index != nil }

// Key is the partition key that is read, which must be one.
func (p *Plan) Key(b *expr.Bindings) ([]byte, error) {
	if p.where.feedStart != nil {
		return nil, dberr.Invalidf("A SELECT within a transaction reads rows, and not the change feed")
	}
	if p.ann != nil {
		return nil, dberr.Invalidf("A SELECT within a transaction cannot order by ANN")
	}
	if p.where.keyRange || p.where.token != nil {
		return nil, dberr.Invalidf("A SELECT within a transaction must give the whole partition key")
	}
	keys, err := p.where.keys(b)
	if err == nil && len(keys) != 1 {
		err = dberr.Invalidf("A statement within a transaction must name one partition key, not %d", len(keys))
	}
	if err != nil {
		return nil, err
	}
	return keys[0].bytes, nil
}

// Keys returns the partition keys that are read; ok is false if the statement does not name them.
func (p *Plan) Keys(b *expr.Bindings) (list [][]byte, ok bool, err error) {
	w := &p.where
	if w.feedStart != nil || p.ann != nil || w.keyRange || w.index != nil || w.token != nil {
		return nil, false, nil
	}
	keys, err := w.keys(b)
	for _, k := range keys {
		list = append(list, k.bytes)
	}
	return list, err == nil, err
}

// Scans reports whether an execution walks along the ring instead of looking partition keys up.
func (p *Plan) Scans() bool { return p.where.keyRange || p.where.index != nil || p.where.token != nil }

// Evaluates reports whether an execution evaluates expressions, and so is bounded by Options.Evaluation.
func (p *Plan) Evaluates() bool { return p.evaluates }

// FansOut reports whether an execution asks all physical partitions, or those of a range of tokens.
func (p *Plan) FansOut() bool { return p.where.keyRange }

// Filters reports whether an execution may look at rows that it does not return.
func (p *Plan) Filters() bool { return len(p.where.filtered) > 0 }

// prepare works out what executions need to know.
func (p *Plan) prepare(env *expr.Env) {
	p.computes = env.Computes()
	p.evaluates = p.computes || p.table.Masked() || p.aggregated || p.sel.json || len(p.where.filtered) > 0 ||
		len(p.sort) > 0 || p.ann != nil ||
		slices.ContainsFunc(p.sel.outputs, func(o output) bool { return o.slot < 0 || o.masked })
	p.filterSlots = map[*schema.Column]int{}
	for _, r := range p.where.filtered {
		for _, c := range r.Columns {
			p.filterSlots[c] = p.sel.slotOf(slot{c, cellValue})
		}
	}
	if p.ann != nil {
		p.walksANN = !p.table.Virtual
		p.ann.slot = p.sel.slotOf(slot{p.ann.column, cellValue})
	}
	p.bindMasks(env)
	p.bindBaseTimes()
	p.sel.sortSlots()
	p.simple = p.where.simple()
	p.oneRow = p.where.oneRow()
	p.staticRows = len(p.table.Statics) > 0 && p.where.wholePartitions() && !p.distinct
	p.statics = p.staticRows || len(p.sel.statics) > 0
	for _, o := range p.sel.outputs {
		p.jsonNames = append(p.jsonNames, jsonName(o.name))
	}
}

// describe fills what PREPARED shows: columns, markers and which of them are the partition key.
func (p *Plan) describe(stmt *parser.Select, env *expr.Env) {
	if stmt.JSON {
		p.columns = []Column{{p.table.Keyspace, p.table.Name, "[json]", cqltype.Native(cqltype.Text)}}
	} else {
		for _, o := range p.sel.outputs {
			p.columns = append(p.columns, Column{p.table.Keyspace, p.table.Name, o.name, o.typ})
		}
	}
	p.describeFeed()
	p.variables = env.Variables()
	p.pkIndexes = relation.PartitionMarkers(stmt.Where, p.table)
}
