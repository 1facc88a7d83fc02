// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Coordinator receives mutations and conditional writes. See package coordinator.
type Coordinator interface {
	Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion)
	ConditionalWrite(ctx context.Context, c *command.Conditional, o coordinator.WriteOptions,
		done command.Completion)
}

// Options limits writes. The zero value sets no limits.
type Options struct {
	// MutationBytesMax limits the keys and values changed in one logical partition, in bytes. If it is 0, they are not
	// limited.
	MutationBytesMax int
	// BatchBytesMax limits batches over several logical partitions, in bytes. A batch causes a warning from a tenth of
	// the limit. If it is 0, batches are limited only by the frame size.
	BatchBytesMax int
	// CellSizes computes the size of a batch from cells and clustering columns only. See compat.Release.
	CellSizes bool
	// RowBytesMax limits the keys and values changed in one row, in bytes. If it is 0, they are not limited.
	RowBytesMax int
	// DescribeLargePartition returns a warning for the client if a logical partition is large, and an empty string
	// otherwise. It may be nil.
	DescribeLargePartition func(table uint32, at token.Token) string
	// Find reads the rows that a conditional refers to. It is used if several conditionals together must not exceed
	// Request.MaxCharge. It blocks. If it is nil, each conditional may cost MaxCharge.
	Find func(ctx context.Context, c *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Spend deducts the price of evaluating the written values from the balance of their partition. It may be nil.
	Spend func(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// Request holds the parameters of an execution. Its byte slices must be valid until Execute returns.
type Request struct {
	expr.Bindings
	Level, Serial dberr.Consistency
	// Timestamp is the default timestamp in microseconds, if HasTimestamp is true.
	Timestamp    int64
	HasTimestamp bool
	// Guard holds the guardrails of the client and collects their warnings. It may be nil.
	Guard *guardrail.Check
	// MaxCharge limits the cost. A write that exceeds it is rejected before any part is applied. If it is 0, the cost
	// is not limited.
	MaxCharge ru.Units
	// Claimant identifies the client for fair sharing. See command.Mutation.
	Claimant fairshare.Principal
	// Clear disables masking in the rows of a condition that is not satisfied. See read.Options.
	Clear bool
}

// valueGuardrails returns the guardrails if any of them concerns values.
func (r *Request) valueGuardrails() *guardrail.Check {
	if r.Guard.On() && r.Guard.Writes {
		return r.Guard
	}
	return nil
}

func (r *Request) timestamp() int64 {
	if r.HasTimestamp {
		return r.Timestamp
	}
	return row.Unstamped
}

// Outcome is the result of an execution: an error, no rows (Columns is nil), or the rows of a conditional statement.
type Outcome struct {
	Err error
	// Columns describes the columns of the result, starting with [applied]. The slice is shared and must not be
	// modified.
	Columns []Column
	// Cells holds the values row by row. Each value is a 32-bit length (-1 for null) followed by that number of bytes.
	Cells    []byte
	RowCount int
	// Applied reports whether the conditions were satisfied.
	Applied bool
	// Warnings holds warnings for the client.
	Warnings []string
	// Charge is the cost of the execution.
	Charge ru.Units
}

// Completion receives the outcome of an execution once. The rules of command.Completion apply. The outcome is valid
// only during the call.
type Completion interface{ Written(o *Outcome) }

// Executor executes plans. It is safe for concurrent use.
type Executor struct {
	coordinator Coordinator
	opts        Options
	pool        sync.Pool
}

// NewExecutor returns an executor that sends its writes to c.
func NewExecutor(c Coordinator, o Options) *Executor {
	e := &Executor{coordinator: c, opts: o}
	e.pool.New = func() any { return &Execution{executor: e} }
	return e
}

// Execute executes a plan. It completes done once, possibly before it returns.
func (e *Executor) Execute(ctx context.Context, p *Plan, r *Request, done Completion) {
	x := e.pool.Get().(*Execution)
	x.begin(done)
	x.guard, x.maxCharge, x.claimant, x.clear = r.valueGuardrails(), r.MaxCharge, r.Claimant, r.Clear
	err := p.check(r)
	if err == nil {
		err = x.add(p, &r.Bindings, r.timestamp())
	}
	o := p.writeOptions(r)
	if err == nil {
		o.Timeout, err = expr.EvalTimeout(p.timeout, &r.Bindings)
	}
	if err != nil {
		x.finish(err)
		return
	}
	x.columns, x.columnsFound = p.result, p.resultFound
	x.spend(r.Meter)
	x.send(ctx, o, r.Serial)
}

// spend deducts the price of the evaluation from the balance of the first partition that is written. The session adds
// it to the charge.
func (x *Execution) spend(m *meter.Meter) {
	price := ru.Evaluation(m.Excess())
	if price > 0 && x.used > 0 && x.executor.opts.Spend != nil {
		g := &x.groups[0]
		x.executor.opts.Spend(g.table.ID, g.token, g.key, x.claimant, price)
	}
}

// check rejects an invalid number of values and unsupported consistency levels.
func (p *Plan) check(r *Request) error {
	if err := r.CheckCount(p.markers); err != nil {
		return err
	}
	return checkLevels(r, p.conditional, p.table.Counter, p.table.Name)
}

func checkLevels(r *Request, conditional, counter bool, table string) error {
	switch {
	case conditional && r.Level.IsSerial():
		return dberr.Invalidf("%s is not supported as conditional update commit consistency. Use ANY if you mean "+
			"\"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\"", r.Level)
	case conditional && r.Serial != 0 && !r.Serial.IsSerial():
		return dberr.Invalidf("Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL")
	case conditional:
	case counter && r.Level == dberr.Any:
		return dberr.Invalidf("Consistency level ANY is not yet supported for counter table %s", table)
	case counter && r.Level.IsSerial():
		return dberr.Invalidf("Counter operations are inherently non-serializable")
	case r.Level.IsSerial():
		return dberr.Invalidf("You must use conditional updates for serializable writes")
	}
	return nil
}

func (p *Plan) writeOptions(r *Request) coordinator.WriteOptions {
	o := coordinator.WriteOptions{Level: r.Level, Type: "SIMPLE"}
	switch {
	case p.conditional:
		o.Type = "CAS"
	case p.table.Counter:
		o.Type = "COUNTER"
	}
	return o
}

// Execution is one execution of a plan or batch, with the memory of its mutations. Executions are pooled.
type Execution struct {
	executor *Executor
	done     Completion
	outcome  Outcome

	// arena holds the keys, the operands, and other data that the mutations point to.
	arena       []byte
	row, header row.Builder
	groups      []group // the first used groups are in use
	used        int
	byKey       map[string]int // index of groups; used if there are many
	mutations   []command.Mutation

	// conditional reports whether there are conditions. In this case columns and columnsFound describe the result.
	conditional bool
	// conditionalBatch is set for all statements of a batch with conditions. As in Cassandra, the writes of such a
	// batch override its deletions of ranges and partitions, but a row deletion overrides writes to the same row.
	// Without clustering columns, the row is the partition.
	conditionalBatch      bool
	columns, columnsFound []Column
	// static and regular report the kinds of columns that the statements write.
	static, regular bool

	// guard checks values. It is nil if no guardrail concerns values.
	guard *guardrail.Check
	// maxCharge limits the cost. If it is 0, the cost is not limited.
	maxCharge ru.Units
	claimant  fairshare.Principal
	// clear disables masking.
	clear bool
	stamp stamp // the timestamp and TTL of the current statement
	// putRow and putStatic report whether the leader adds list elements to the current row or to the static row, which
	// may create it.
	putRow, putStatic bool
	// viewKeyValues holds the values of the current row in key columns of views.
	keyed []viewKeyValue
	// statement is the number of the current statement in a batch.
	statement int
	now       int64
	pending   atomic.Int64
	charge    atomic.Int64          // in ru.Units
	failure   atomic.Pointer[error] // the first error
}

func (x *Execution) begin(done Completion) {
	x.done, x.guard = done, nil
	x.outcome = Outcome{Cells: x.outcome.Cells[:0]}
	x.arena, x.used, x.mutations = x.arena[:0], 0, x.mutations[:0]
	x.conditional, x.conditionalBatch, x.static, x.regular, x.statement = false, false, false, false, 0
	x.columns, x.columnsFound = nil, nil
	clear(x.byKey)
	x.failure.Store(nil)
	x.charge.Store(0)
}

// add converts a plan and its values into changes of groups.
func (x *Execution) add(p *Plan, b *expr.Bindings, fallback int64) error {
	var err error
	if x.stamp, err = p.stamp(b, fallback); err != nil {
		return err
	}
	if x.guard != nil {
		if err := x.checkTimestampGuardrail(p, b.Now); err != nil {
			return err
		}
	}
	x.now = x.stamp.at
	x.statement++
	x.conditional = x.conditional || p.conditional
	if p.json != nil {
		if b, err = p.decodeJSON(b); err != nil {
			return err
		}
	}
	t := target{stamp: &x.stamp, b: b}
	if !p.where.simple {
		return x.addMany(p, &t)
	}
	begin := len(x.arena)
	if x.arena, err = p.where.appendSimpleKey(x.arena, b); err != nil {
		return err
	}
	key := x.tail(begin)
	begin = len(x.arena)
	if x.arena, err = p.where.appendSimpleClustering(x.arena, p.table, b); err != nil {
		return err
	}
	t.clustering = x.tail(begin)
	t.group = x.group(p, key)
	if p.deletesRows && !p.where.full(p.table) {
		return x.deleteRanges(p, &t, 1)
	}
	return x.change(p, &t)
}

// addMany is add for IN, tuples, and slices, which select any number of keys and rows.
func (x *Execution) addMany(p *Plan, t *target) error {
	if p.conditional && p.where.clustering.Has(relation.In) {
		return dberr.Invalidf("IN on the clustering key columns is not supported with conditional %s", p.changesName())
	}
	keys, err := p.where.keys(t.b)
	if err != nil {
		return err
	}
	if p.conditional && len(keys) > 1 {
		return dberr.Invalidf("IN on the partition key is not supported with conditional %s", p.changesName())
	}
	ranges := p.deletesRows && !p.where.full(p.table)
	var prefixes [][]byte
	if !ranges {
		if prefixes, err = p.where.prefixes(p.table, t.b); err != nil {
			return err
		}
		if err := relation.CheckCombinations(len(keys), len(prefixes)); err != nil {
			return err
		}
	}
	for _, key := range keys {
		t.group = x.group(p, x.keep(key))
		if ranges {
			if err := x.deleteRanges(p, t, len(keys)); err != nil {
				return err
			}
		}
		for _, c := range prefixes {
			t.clustering = x.keep(c)
			if err := x.change(p, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Plan) changesName() string {
	if p.kind == update {
		return "updates"
	}
	return "deletions"
}

// change applies a plan to one row or to the static row.
func (x *Execution) change(p *Plan, t *target) error {
	x.row.Reset(t.stamp.timestamp)
	x.header.Reset(t.stamp.timestamp)
	x.keyed, x.putRow, x.putStatic = x.keyed[:0], false, false
	if p.deletesRows {
		delta := 0
		if x.conditionalBatch && len(p.table.Clustering) == 0 {
			delta = -1
		}
		x.row.DeleteRowBefore(delta, t.stamp.at)
	}
	if p.rowMarker {
		x.row.Live(t.stamp.ttl, t.stamp.expiry)
	} else if p.missingCells {
		return dberr.Invalidf("Column %s is mandatory for this COMPACT STORAGE table", p.table.Regulars[0].Name)
	}
	for i := range p.ops {
		if err := x.apply(&p.ops[i], t); err != nil {
			return err
		}
	}
	if p.kind != remove && len(p.indexes) > 0 {
		if err := x.addKeyEntries(p, t); err != nil {
			return err
		}
	}
	x.operand(t.group, command.OpRow, t.clustering, &x.row)
	x.operand(t.group, command.OpHeader, nil, &x.header)
	if len(p.views) > 0 && p.writesRows && (!x.row.Empty() || p.readsRow) {
		if err := x.hint(p, t); err != nil {
			return err
		}
	}
	if p.conditional {
		return x.addConditions(p, t)
	}
	return nil
}

// deleteRanges applies a DELETE of a partition or of ranges of its rows. keys is the number of partitions of the
// statement.
func (x *Execution) deleteRanges(p *Plan, t *target, keys int) error {
	x.header.Reset(t.stamp.timestamp)
	delta := 0
	if x.conditionalBatch {
		delta = -1
	}
	if p.where.clustering.Empty() {
		x.header.DeleteRowBefore(delta, t.stamp.at)
		x.hintRange(p, t, nil, nil)
	} else {
		list, err := p.where.intervals(p.table, t.b)
		if err != nil {
			return err
		}
		if err := relation.CheckCombinations(keys, len(list)); err != nil {
			return err
		}
		for _, s := range list {
			x.header.DeleteRangeBefore(s.Start, s.End, delta, t.stamp.at)
			x.hintRange(p, t, s.Start, s.End)
		}
	}
	x.operand(t.group, command.OpHeader, nil, &x.header)
	return nil
}

// operand adds the content of a builder to a group.
func (x *Execution) operand(g *group, kind command.OpKind, clustering []byte, b *row.Builder) {
	if b.Empty() {
		return
	}
	begin := len(x.arena)
	x.arena = b.Append(x.arena)
	g.ops = append(g.ops, command.Op{Kind: kind, Clustering: clustering, Operand: x.tail(begin)})
}
