// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/sql"
)

// compile makes a query ready to be run.
func compile(q *container.QueryRequest) (*sql.Query, error) {
	parameters := make([]sql.Parameter, len(q.Parameters))
	for i := range q.Parameters {
		v, err := document.Parse(q.Parameters[i].Value, document.Limits{})
		if err != nil {
			return nil, badRequest("The parameter " + q.Parameters[i].Name + " is not JSON: " + err.Error())
		}
		parameters[i] = sql.Parameter{Name: q.Parameters[i].Name, Value: v}
	}
	compiled, err := sql.Compile(q.Text, parameters)
	return compiled, ofQuery(err)
}

// ofQuery is an error of a query as clients are told.
func ofQuery(err error) error {
	if e, ok := errors.AsType[*sql.Error](err); ok {
		return badRequest(e.JSON())
	}
	if e, ok := errors.AsType[*sql.LimitError](err); ok {
		return badRequest(e.Message)
	}
	return err
}

// selectFrom is what a query says of a list of resources.
func (x *exchange) selectFrom(ctx context.Context, q *container.QueryRequest, all [][]byte) (out [][]byte, err error) {
	release, err := x.server.engine.Compiling(q.Text)
	if err != nil {
		return nil, err
	}
	defer release()
	compiled, err := compile(q)
	if err != nil {
		return nil, err
	}
	source := func(yield func(sql.Row, error) bool) {
		for i, r := range all {
			if !yield(sql.Row{Place: fmt.Sprintf("%08d", i), Item: document.View(r)}, nil) {
				return
			}
		}
	}
	m := x.server.engine.Evaluation(ctx, x.claimant())
	defer m.Close()
	_, err = compiled.Run(ctx, source, sql.Run{Now: x.server.opts.Now(), Meter: m}, func(v document.Value) error {
		if err := m.Keep(v.TextSize()); err != nil {
			return err
		}
		out = append(out, v.Append(nil))
		return nil
	})
	return out, ofQuery(err)
}
