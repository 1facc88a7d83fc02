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
	"github.com/ilion-db/ilion/internal/replica/quota"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Coordinator receives mutations and conditional writes. See package coordinator.
type Coordinator interface {
	Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion)
	ConditionalWrite(ctx context.Context, c *command.Conditional, o coordinator.WriteOptions,
		done command.Completion)
}

// Options limits writes. In the zero value, writes are not limited.
type Options struct {
	// MutationBytesMax limits the total size of the keys and values that a write changes in one logical partition, in
	// bytes. If MutationBytesMax is 0, this size is not limited.
	MutationBytesMax int
	// BatchBytesMax is the maximum size in bytes of a batch that changes several logical partitions. A batch that
	// exceeds a tenth of the limit causes a warning. If BatchBytesMax is 0, only the frame size limits batches.
	BatchBytesMax int
	// CellSizes reports whether only cells and clustering columns contribute to the size of a batch. See
	// compat.Release.
	CellSizes bool
	// RowBytesMax limits the total size of the keys and values that a write changes in one row, in bytes. If
	// RowBytesMax is 0, this size is not limited.
	RowBytesMax int
	// Large provides the large logical partitions. Large may be nil.
	Large *quota.Quota
	// Pricing determines prices and charges evaluations. If Pricing is nil, each conditional may cost
	// Request.MaxCharge, and the evaluation of values is not charged.
	Pricing Pricing
}

// Pricing determines the prices of conditionals and charges the evaluation of values. The coordinator of stored tables
// implements Pricing.
type Pricing interface {
	// Find reads the rows to which a conditional refers. It also returns the price of the read. Find is called if the
	// total price of several conditionals must not exceed Request.MaxCharge. Find blocks.
	Find(ctx context.Context, c *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Spend deducts the price of evaluating the written values from the balance of their partition.
	Spend(table uint32, t token.Token, key []byte, who fairshare.Principal, u ru.Units)
}

// Request holds the parameters of an execution. The byte slices of the request must remain valid until Execute returns.
type Request struct {
	expr.Bindings
	Level, Serial dberr.Consistency
	// Timestamp is the default timestamp in microseconds. Timestamp is valid only if HasTimestamp is true.
	Timestamp    int64
	HasTimestamp bool
	// Guard holds the guardrails of the client and collects the warnings. Guard may be nil.
	Guard *guardrail.Check
	// MaxCharge limits the cost of the write. If the cost exceeds MaxCharge, the write is rejected before any part is
	// applied. If MaxCharge is 0, the cost is not limited.
	MaxCharge ru.Units
	// Claimant identifies the client for fair sharing. See command.Mutation.
	Claimant fairshare.Principal
	// Clear disables the masking of the rows that the result of a conditional statement contains. See read.Options.
	Clear bool
}

// valueGuardrails returns the guardrails if a guardrail applies to values. Otherwise, it returns nil.
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

// Outcome is the result of an execution. It is an error or the rows of a conditional statement. For other statements,
// Columns is nil.
type Outcome struct {
	Err error
	// Columns describes the columns of the result, starting with [applied]. The slice is shared and must not be
	// modified.
	Columns []Column
	// Cells holds the values of all rows in row order. Each value consists of a 32-bit length and the bytes of the
	// value. The length -1 represents null.
	Cells    []byte
	RowCount int
	// Applied reports whether the conditions were satisfied.
	Applied bool
	// Warnings holds warnings for the client.
	Warnings []string
	// Charge is the cost of the execution.
	Charge ru.Units
}

// Completion receives the outcome of an execution exactly once. The rules of command.Completion apply. The outcome is
// valid only during the call.
type Completion interface{ Written(o *Outcome) }

// Executor executes plans. Executor is safe for concurrent use.
type Executor struct {
	coordinator Coordinator
	opts        Options
	pool        sync.Pool
}

// NewExecutor returns an executor that sends writes to c.
func NewExecutor(c Coordinator, o Options) *Executor {
	e := &Executor{coordinator: c, opts: o}
	e.pool.New = func() any { return &Execution{executor: e} }
	return e
}

// Execute executes a plan. It calls done exactly once, possibly before Execute returns.
func (e *Executor) Execute(ctx context.Context, p *Plan, r *Request, done Completion) {
	x := e.pool.Get().(*Execution)
	x.begin(r, done)
	err := p.check(r)
	if err == nil {
		err = x.changes.add(p, &r.Bindings, r.timestamp())
	}
	o := p.writeOptions(r)
	if err == nil {
		o.Timeout, err = expr.EvalTimeout(p.using.timeout, &r.Bindings)
	}
	if err != nil {
		x.finish(err)
		return
	}
	x.columns, x.columnsFound = p.result.applied, p.result.found
	x.spend(r.Meter)
	x.send(ctx, o, r.Serial)
}

// spend deducts the price of the evaluation from the balance of the first partition that is written. The session adds
// the price to the charge.
func (x *Execution) spend(m *meter.Meter) {
	price := ru.Evaluation(m.Excess())
	if price > 0 && x.changes.groups.used > 0 && x.executor.opts.Pricing != nil {
		g := &x.changes.groups.list[0]
		x.executor.opts.Pricing.Spend(g.table.ID, g.token, g.key, x.claimant, price)
	}
}

// check rejects requests with an invalid number of values or an unsupported consistency level.
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

// Execution holds the state and the mutations of one execution of a plan or batch. Executions are pooled.
type Execution struct {
	executor *Executor
	done     Completion
	outcome  Outcome

	changes   changes
	mutations []command.Mutation
	// columns and columnsFound describe the result of a conditional execution. See Plan.
	columns, columnsFound []Column

	// maxCharge limits the cost. If maxCharge is 0, the cost is not limited.
	maxCharge ru.Units
	claimant  fairshare.Principal
	// clear is Request.Clear.
	clear   bool
	pending atomic.Int64
	charge  atomic.Int64          // in ru.Units
	failure atomic.Pointer[error] // the first error
}

// begin prepares an execution of a request.
func (x *Execution) begin(r *Request, done Completion) {
	x.done = done
	x.changes.begin(r.valueGuardrails())
	x.outcome = Outcome{Cells: x.outcome.Cells[:0]}
	x.mutations, x.columns, x.columnsFound = x.mutations[:0], nil, nil
	x.maxCharge, x.claimant, x.clear = r.MaxCharge, r.Claimant, r.Clear
	x.failure.Store(nil)
	x.charge.Store(0)
}
