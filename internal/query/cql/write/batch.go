// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// BatchKind is the kind of a batch.
type BatchKind = parser.BatchKind

// Names resolves the tables of a batch's statements.
type Names interface {
	// Release returns the Cassandra release whose behavior the node reproduces.
	Release() *compat.Release
	// Functions returns the user-defined functions, or nil if the node does not support user-defined functions.
	Functions() *expr.Functions
	// Table finds a table. A name without a keyspace refers to a table of the session's keyspace. The errors have
	// Cassandra's error texts.
	Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error)
}

// Batch is a bound BEGIN BATCH .. APPLY BATCH statement. The plans of the statements share the bind markers.
type Batch struct {
	kind      BatchKind
	plans     []*Plan
	using     usingClause
	variables []expr.Column
	pkIndexes []uint16
	result    batchResult
	called    expr.Calls
}

// batchResult describes the result of a conditional batch.
type batchResult struct {
	conditional     bool
	columns, found  []Column
	counters, plain bool
	static, regular bool
}

// PrepareBatch binds a batch statement. markers is the number of bind markers in the statement.
func PrepareBatch(stmt *parser.Batch, names Names, markers int) (*Batch, error) {
	b := &Batch{kind: stmt.Kind}
	if stmt.Using.TTL != nil {
		return nil, dberr.Invalidf("Global TTL on the BATCH statement is not supported.")
	}
	shared := expr.NewEnv(names.Release(), nil, nil, markers)
	shared.Functions = names.Functions()
	tables := map[*schema.Table]bool{}
	for _, s := range stmt.Statements {
		ks, t, err := names.Table(parser.ModifiedTable(s))
		if err != nil {
			return nil, err
		}
		p, err := bind(s, shared.For(ks, t))
		if err != nil {
			return nil, err
		}
		b.plans = append(b.plans, p)
		tables[t] = true
	}
	env := shared
	if len(b.plans) > 0 { // the markers of USING refer to the table of the first statement
		env = env.For(b.plans[0].keyspace, b.plans[0].table)
	}
	var err error
	if b.using, err = bindUsing(&stmt.Using, env); err != nil {
		return nil, err
	}
	if b.result, err = checkBatch(b.kind, b.plans, b.using.timestamp != nil); err != nil {
		return nil, err
	}
	b.variables, b.called = shared.Variables(), shared.Called()
	if len(tables) == 1 {
		for _, p := range b.plans { // as in Cassandra, the last statement determines the result
			if p.pkIndexes != nil {
				b.pkIndexes = p.pkIndexes
			}
		}
	}
	return b, nil
}

// Variables returns the descriptions of the bind markers of all statements.
func (b *Batch) Variables() []expr.Column { return b.variables }

// PKIndexes returns the indexes of the partition key markers. It returns nil if the batch accesses several tables or a
// component of the partition key is not bound.
func (b *Batch) PKIndexes() []uint16 { return b.pkIndexes }

// Called returns the user-defined functions that the statements call.
func (b *Batch) Called() expr.Calls { return b.called }

// Plans returns the bound statements.
func (b *Batch) Plans() []*Plan { return b.plans }

// checkBatch rejects combinations of statements that a batch does not support.
func checkBatch(kind BatchKind, plans []*Plan, timestamp bool) (r batchResult, err error) {
	for _, p := range plans {
		if p.using.timeout != nil {
			return r, dberr.Invalidf("A statement in a batch cannot have USING TIMEOUT. Set USING TIMEOUT on the BATCH")
		}
		if p.conditional { // as in Cassandra, only conditional statements determine which columns are read
			r.conditional = true
			r.static, r.regular = r.static || p.static, r.regular || p.regular
		}
	}
	if timestamp && r.conditional {
		return r, dberr.Invalidf("Cannot provide custom timestamp for conditional BATCH")
	}
	if timestamp && kind == parser.Counter {
		return r, dberr.Invalidf("Cannot provide custom timestamp for counter BATCH")
	}
	for _, p := range plans {
		if timestamp && p.using.timestamp != nil {
			return r, dberr.Invalidf("Timestamp must be set either on BATCH or individual statements")
		}
		r.counters = r.counters || p.table.Counter
		r.plain = r.plain || !p.table.Counter
	}
	switch {
	case timestamp && r.counters:
		return r, dberr.Invalidf("Cannot provide custom timestamp for a BATCH containing counters")
	case kind == parser.Counter && r.plain:
		return r, dberr.Invalidf("Cannot include non-counter statement in a counter batch")
	case r.counters && r.plain:
		return r, dberr.Invalidf("Counter and non-counter mutations cannot exist in the same batch")
	case kind == parser.Logged && r.counters:
		return r, dberr.Invalidf("Cannot include a counter statement in a logged batch")
	}
	if !r.conditional {
		return r, nil
	}
	for _, p := range plans {
		if p.table.ID != plans[0].table.ID {
			return r, dberr.Invalidf("Batch with conditions cannot span multiple tables")
		}
	}
	r.columns, r.found = batchColumns(plans)
	return r, nil
}

// batchColumns returns the result columns of a conditional batch. They are the primary key columns and the columns of
// all conditions. If a statement has IF EXISTS or IF NOT EXISTS, batchColumns returns all columns.
func batchColumns(plans []*Plan) (applied, found []Column) {
	t := plans[0].table
	columns := slices.Concat(t.PartitionKey, t.Clustering)
	for _, p := range plans {
		if p.exists != mayExist {
			columns = allColumns(t)
			break
		}
		for _, c := range p.result.notApplied {
			if !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	return appliedColumns(t, nil), appliedColumns(t, columns)
}

// BatchItem holds one statement of a batch message and the values of the statement.
type BatchItem struct {
	Plan   *Plan
	Values [][]byte
	Unset  []bool
}

// ExecuteBatch executes a bound batch statement.
func (e *Executor) ExecuteBatch(ctx context.Context, b *Batch, r *Request, done Completion) {
	x := e.pool.Get().(*Execution)
	x.begin(r, done)
	err := r.CheckCount(len(b.variables))
	fallback := r.timestamp()
	if err == nil {
		fallback, err = b.using.evalTimestamp(&r.Bindings, fallback)
	}
	if err == nil {
		err = x.addBatch(&b.result, r, fallback, len(b.plans), func(i int) (*Plan, *expr.Bindings, error) {
			return b.plans[i], &r.Bindings, nil
		})
	}
	var timeout time.Duration
	if err == nil {
		timeout, err = expr.EvalTimeout(b.using.timeout, &r.Bindings)
	}
	x.sendBatch(ctx, b.kind, &b.result, r, timeout, err)
}

// ExecuteItems executes a batch message. r contains all parameters except the values.
func (e *Executor) ExecuteItems(ctx context.Context, kind BatchKind, items []BatchItem, r *Request, done Completion) {
	x := e.pool.Get().(*Execution)
	x.begin(r, done)
	plans := make([]*Plan, len(items))
	for i := range items {
		plans[i] = items[i].Plan
	}
	result, err := checkBatch(kind, plans, false)
	if err == nil {
		b := r.Bindings
		err = x.addBatch(&result, r, r.timestamp(), len(items), func(i int) (*Plan, *expr.Bindings, error) {
			p := items[i].Plan
			b.Values, b.Unset = items[i].Values, items[i].Unset
			if len(b.Values) != p.markers {
				return nil, nil, dberr.Invalidf("There were %d markers(?) in CQL but %d bound variables", p.markers,
					len(b.Values))
			}
			return p, &b, nil
		})
	}
	x.sendBatch(ctx, kind, &result, r, 0, err)
}

// addBatch adds the statements of a batch.
func (x *Execution) addBatch(result *batchResult, r *Request, fallback int64, n int,
	item func(int) (*Plan, *expr.Bindings, error)) error {
	table := ""
	if n > 0 {
		p, _, err := item(0)
		if err != nil {
			return err
		}
		table = p.table.Name
	}
	if err := checkLevels(r, result.conditional, result.counters, table); err != nil && n > 0 {
		return err
	}
	x.changes.static, x.changes.regular = result.static, result.regular
	if x.changes.conditionalBatch = result.conditional; result.conditional {
		fallback = row.Unstamped // the leader sets the timestamps of conditional writes
	}
	for i := range n {
		p, b, err := item(i)
		if err != nil {
			return err
		}
		if err := x.changes.add(p, b, fallback); err != nil {
			return err
		}
	}
	if result.conditional && x.changes.groups.used > 1 {
		return dberr.Invalidf("Batch with conditions cannot span multiple partitions")
	}
	x.columns, x.columnsFound = result.columns, result.found
	return nil
}

func (x *Execution) sendBatch(ctx context.Context, kind BatchKind, result *batchResult, r *Request,
	timeout time.Duration, err error) {
	if err != nil {
		x.finish(err)
		return
	}
	o := coordinator.WriteOptions{Level: r.Level, Type: "UNLOGGED_BATCH", Timeout: timeout}
	switch {
	case result.conditional:
		o.Type = "CAS"
	case result.counters:
		o.Type = "COUNTER"
	case kind == parser.Logged:
		o.Type, o.Atomic = "BATCH", true
	default:
		x.warnPartitions()
	}
	if !result.conditional {
		if err := x.checkSize(); err != nil {
			x.finish(err)
			return
		}
	}
	x.spend(r.Meter)
	x.send(ctx, o, r.Serial)
}
