// SPDX-License-Identifier: Apache-2.0

package call

import (
	"context"
	"errors"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// Containers finds containers by their CQL names. *container.Engine implements it.
type Containers interface {
	ContainerByName(keyspace, table string) (*container.Container, error)
}

// Procedures runs stored procedures. *script.Service implements it.
type Procedures interface {
	Execute(ctx context.Context, c *container.Container, key epk.Key, id string, args []byte, log bool,
		o container.RequestOptions) (*script.Executed, container.Where, error)
}

// Executor executes plans. It is safe for concurrent use.
type Executor struct {
	containers Containers
	procedures Procedures
}

// NewExecutor returns an executor.
func NewExecutor(c Containers, p Procedures) *Executor { return &Executor{c, p} }

// Outcome is the result of a procedure.
type Outcome struct {
	// Cells holds the values of the single result row in the order of Plan.Columns. A nil value represents null.
	Cells [][]byte
	// Charge is the cost of the call in request units. Charge is set even if the procedure has failed.
	Charge ru.Units
}

// Execute executes a plan and waits for the result. The outcome is valid even if Execute returns an error.
func (e *Executor) Execute(ctx context.Context, p *Plan, b *expr.Bindings, o container.RequestOptions) (Outcome,
	error) {
	var out Outcome
	if err := b.CheckCount(len(p.variables)); err != nil {
		return out, err
	}
	paths := len(p.table.PartitionKey)
	header, err := list(p.args[:paths]).append(nil, b)
	if err != nil {
		return out, err
	}
	args, err := list(p.args[paths:]).append(nil, b)
	if err != nil {
		return out, err
	}
	c, err := e.containers.ContainerByName(p.table.Keyspace, p.table.Name)
	if err != nil {
		return out, lookupError(err)
	}
	key, err := c.ParseKey(string(header))
	if err == nil {
		_, err = c.Script(container.StoredProcedure, p.id)
	}
	if err != nil {
		return out, lookupError(err)
	}
	trace.From(ctx).Add("Calling procedure " + p.Name() + " at the leader of " + key.String())
	done, where, err := e.procedures.Execute(ctx, c, key, p.id, args, p.log, o)
	if out.Charge = where.Charge; err != nil {
		return out, p.executionError(err)
	}
	out.Cells = [][]byte{done.Body}
	if p.log {
		out.Cells = append(out.Cells, []byte(done.Log))
	}
	return out, nil
}

// lookupError converts an error that occurred before the procedure was executed.
func lookupError(err error) error {
	if e, ok := errors.AsType[*container.Error](err); ok {
		return dberr.Invalidf("%s", e.Message)
	}
	return err
}

// executionError converts an error of a procedure. The error is an error from the database or an exception of the
// script.
func (p *Plan) executionError(err error) error {
	e, ok := errors.AsType[*container.Error](err)
	switch {
	case !ok:
		return err
	case e.Cause != nil:
		return e.Cause
	case e.Status == 429 || e.Status == 503:
		return &dberr.Overloaded{Message: e.Message, RetryAfter: e.RetryAfter}
	}
	return &dberr.FunctionFailure{Keyspace: p.table.Keyspace, Function: p.Name(), ArgTypes: p.types,
		Message: "execution of '" + p.table.Keyspace + "." + p.Name() + "[" + strings.Join(p.types, ", ") +
			"]' failed: " + e.Message}
}
