// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Executor sends transactions to the leaders of their partitions. It is safe for concurrent use.
type Executor struct{ coordinator write.Coordinator }

// NewExecutor returns an executor that sends transactions through c.
func NewExecutor(c write.Coordinator) *Executor { return &Executor{c} }

// Execute executes a plan. It calls done exactly once, possibly before Execute returns. See write.Executor.Execute.
func (e *Executor) Execute(ctx context.Context, p *Plan, r *write.Request, done write.Completion) {
	c, err := p.command(r)
	if err != nil {
		done.Written(&write.Outcome{Err: err})
		return
	}
	c.MaxCharge = int64(r.MaxCharge)
	e.coordinator.ConditionalWrite(ctx, c, coordinator.WriteOptions{Level: r.Level, Type: "CAS"}, &execution{p, done})
}

// Explain returns the price of a plan and the cost of computing the price. It blocks.
func (e *Executor) Explain(ctx context.Context, p *Plan, r *write.Request) (price, cost ru.Units, err error) {
	c, err := p.command(r)
	if err != nil {
		return 0, 0, err
	}
	c.Dry = true
	decided := make(command.OutcomeChannel, 1)
	e.coordinator.ConditionalWrite(ctx, c, coordinator.WriteOptions{Level: r.Level, Type: "CAS"}, decided)
	o := <-decided
	if o.Err != nil {
		return 0, 0, o.Err
	}
	n, size := binary.Uvarint(o.CAS.Result)
	if size <= 0 {
		return 0, 0, errMalformed
	}
	return ru.Units(n), ru.Units(o.Charge), nil
}

type execution struct {
	plan *Plan
	done write.Completion
}

// Done implements command.Completion.
func (x *execution) Done(result command.Outcome) {
	o := write.Outcome{Err: result.Err}
	if o.Err == nil {
		var a programResult
		if a, o.Err = decodeResult(result.CAS.Result); o.Err == nil {
			o.Applied, o.Charge, o.Warnings = result.CAS.Applied, ru.Units(result.Charge), a.warnings
			o.Columns, o.Cells, o.RowCount = x.plan.columns, a.cells, a.rows
		}
	}
	x.done.Written(&o)
}

// command returns the command for the leader.
func (p *Plan) command(r *write.Request) (*command.Conditional, error) {
	if err := r.CheckCount(len(p.variables)); err != nil {
		return nil, err
	}
	key, err := p.key(&r.Bindings)
	if err != nil {
		return nil, err
	}
	serial := r.Serial
	if serial == 0 {
		serial = dberr.Serial
	}
	return &command.Conditional{
		Mutation: command.Mutation{Table: p.table.ID, Token: p.table.Token(key), Key: key,
			SchemaVersion: p.table.Revision},
		Serial: serial, Now: r.Now.Unix(), Program: appendProgram(p, &r.Bindings, r.Guard.On(), r.Clear),
	}, nil
}

// key returns the partition key that all statements use (TX1).
func (p *Plan) key(b *expr.Bindings) (key []byte, err error) {
	join := func(next []byte, err error) error {
		switch {
		case err != nil:
			return err
		case key == nil:
			key = bytes.Clone(next)
		case !bytes.Equal(key, next):
			return dberr.Invalidf("A transaction must access a single logical partition, but this one accesses %s and %s of "+
				"table %s", p.keyText(key), p.keyText(next), p.table)
		}
		return nil
	}
	for i := range p.lets {
		if err := join(p.lets[i].plan.Key(b)); err != nil {
			return nil, err
		}
	}
	if p.result != nil {
		if err := join(p.result.Key(b)); err != nil {
			return nil, err
		}
	}
	for i := range p.steps {
		for _, plan := range p.steps[i].plans {
			if err := join(plan.Key(b)); err != nil {
				return nil, err
			}
		}
	}
	return key, nil
}

// keyTextMax is the maximum length in bytes of a value in an error text.
const keyTextMax = 100

// keyText returns a partition key in the form of CQL comparisons, such as id = 5 AND day = '2026-01-01'.
func (p *Plan) keyText(key []byte) string {
	parts := make([]string, len(p.table.PartitionKey))
	for i, c := range p.table.PartitionKey {
		text := "?"
		if v, err := expr.PartitionKeyValue(p.table, key, i); err == nil {
			text = c.Type.Format(v)
		}
		if len(text) > keyTextMax {
			text = strings.ToValidUTF8(text[:keyTextMax], "") + ".."
		}
		parts[i] = c.Name + " = " + text
	}
	return strings.Join(parts, " AND ")
}
