// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/guardrail"
	"github.com/ilion-db/ilion/internal/query/relation"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Coordinator is where mutations and conditions go; see package coordinator.
type Coordinator interface {
	Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion)
	Decide(ctx context.Context, c *command.Conditional, o coordinator.WriteOptions, done command.DecisionCompletion)
}

// Options bound what a write may be; the zero value has the defaults.
type Options struct {
	// MutationBytesMax refuses what changes more of one logical partition at once, in bytes of keys and values; 0 = no
	// bound.
	MutationBytesMax int
	// BatchBytesMax refuses batches over several logical partitions that are larger, in bytes, and warns from a tenth
	// of it on; 0 = no bound but that of a frame.
	BatchBytesMax int
	// CellSizes counts only cells and clustering columns of a batch; see release.Release.
	CellSizes bool
	// RowBytesMax refuses what changes more of one row at once, in bytes of keys and values; 0 = no bound.
	RowBytesMax int
	// Large says in words that a logical partition is large, for a warning to the client; empty if it is not. nil: none
	// is.
	DescribeLargePartition func(table uint32, at token.Token) string
	// Find reads the rows that a conditional refers to, for Request.MaxCharge where several must not cost more
	// together; it waits. nil: each may cost so much.
	Find func(ctx context.Context, c *command.Conditional) (found []*row.Row, price ru.Units, err error)
}

// Request is what an execution of a plan is given by the client. Its views need to be valid only until Execute returns.
type Request struct {
	expr.Bindings
	Level, Serial dberr.Consistency
	// Timestamp is the default timestamp in microseconds, if HasTimestamp.
	Timestamp    int64
	HasTimestamp bool
	// Guard has the guardrails that hold for the client and takes their warnings; nil: none.
	Guard *guardrail.Check
	// MaxCharge refuses what costs more, before anything of it is done; 0: nothing.
	MaxCharge ru.Units
	// Claimant is who asks, if that matters; see command.Mutation.
	Claimant share.Claimant
	// Clear shows masked columns as they are in the rows of a refused condition; see read.Options.
	Clear bool
}

// values is the guard if any guardrail concerns values.
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

// Outcome is how an execution ended: an error, nothing (Columns is nil), or the rows of a conditional statement.
type Outcome struct {
	Err error
	// Columns are the columns of the result, [applied] first; they are shared and not to be changed.
	Columns []Column
	// Cells holds the values row by row, each as a 32-bit length (-1 = null) and that many bytes.
	Cells    []byte
	RowCount int
	// Applied tells whether the conditions held.
	Applied bool
	// Warnings are for the client.
	Warnings []string
	// Charge is what it has cost.
	Charge ru.Units
}

// Completion is told once how an execution ended. The rules of command.Completion hold. The outcome is valid during the
// call.
type Completion interface{ Written(o *Outcome) }

// Executor executes plans. It may be used by many goroutines at once.
type Executor struct {
	coordinator Coordinator
	opts        Options
	pool        sync.Pool
}

// NewExecutor makes an executor that sends its writes to c.
func NewExecutor(c Coordinator, o Options) *Executor {
	e := &Executor{coordinator: c, opts: o}
	e.pool.New = func() any { return &Execution{executor: e} }
	return e
}

// Execute executes a plan and completes done once, perhaps before it returns.
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
	x.send(ctx, o, r.Serial)
}

// check refuses wrong numbers of values and consistency levels.
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

	// arena holds keys, operands and whatever else the mutations point to.
	arena       []byte
	row, header row.Builder
	groups      []group // of which the first used are in use
	used        int
	byKey       map[string]int // index of groups, once they are many
	mutations   []command.Mutation

	// conditional is true if there are conditions; columns and columnsFound then describe the result.
	conditional bool
	// decided is set for all statements of a batch with conditions. What such a batch writes outlasts its deletions of
	// ranges and of the partition, which come first, as in Cassandra; of one row a deletion wins. Where there are no
	// clustering columns the row is the partition.
	conditionalBatch      bool
	columns, columnsFound []Column
	// static and regular tell what kinds of columns the statements write.
	static, regular bool

	// guard checks values; nil if nothing is asked of them.
	guard *guardrail.Check
	// maxCharge is what the execution may cost, 0 if there is no bound.
	maxCharge ru.Units
	claimant  share.Claimant
	// clear shows masked columns as they are.
	clear bool
	stamp stamp // of the statement being added
	// putRow and putStatic are true if the leader adds list elements to the row being changed, or to the static row,
	// and may so create it.
	putRow, putStatic bool
	// keyed are the values that the row being changed gets in the keys of views.
	keyed []viewKeyValue
	// statement numbers the statements of a batch.
	statement int
	now       int64
	pending   atomic.Int64
	charge    atomic.Int64          // in ru.Units
	failure   atomic.Pointer[error] // the first
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

// add turns a plan and its values into changes of groups.
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

// addMany is add where IN, tuples or slices give any number of keys and rows.
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

// change applies a plan to one row, or to the static row.
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

// deleteRanges applies a DELETE of a partition or of ranges of its rows; keys is of how many partitions it does.
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

// operand adds what a builder holds to a group.
func (x *Execution) operand(g *group, kind command.OpKind, clustering []byte, b *row.Builder) {
	if b.Empty() {
		return
	}
	begin := len(x.arena)
	x.arena = b.Append(x.arena)
	g.ops = append(g.ops, command.Op{Kind: kind, Clustering: clustering, Operand: x.tail(begin)})
}
