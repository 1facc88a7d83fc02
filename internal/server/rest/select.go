// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// compile compiles a query.
func compile(q *container.QueryRequest, schema *sql.Schema) (*sql.Query, error) {
	parameters := make([]sql.Parameter, len(q.Parameters))
	for i := range q.Parameters {
		v, err := document.Parse(q.Parameters[i].Value, document.Limits{})
		if err != nil {
			return nil, badRequest("The parameter " + q.Parameters[i].Name + " is not JSON: " + err.Error())
		}
		parameters[i] = sql.Parameter{Name: q.Parameters[i].Name, Value: v}
	}
	compiled, err := schema.Compile(q.Text, parameters)
	return compiled, ofQuery(err)
}

// ofQuery converts an error from a query to a client error.
func ofQuery(err error) error {
	if e, ok := errors.AsType[*sql.Error](err); ok {
		return badRequest(e.JSON())
	}
	if e, ok := errors.AsType[*sql.LimitError](err); ok {
		return badRequest(e.Message)
	}
	return err
}

// selectFrom returns a page of a query over a list of resources. The resources are in the order of their keys. It also
// returns the continuation of the next page, or an empty string after the last page.
func (l lists) selectFrom(ctx context.Context, who fairshare.Principal, q *container.QueryRequest,
	all []listed) (out [][]byte, next string, err error) {
	release, err := l.Compiling(q.Text)
	if err != nil {
		return nil, "", err
	}
	defer release()
	compiled, err := compile(q, nil)
	if err != nil {
		return nil, "", err
	}
	m := l.Evaluation(ctx, who)
	defer m.Close()
	run := sql.Run{Page: q.MaxItems, Now: l.opts.Clock.Wall(), Meter: m}
	if q.Continuation != "" {
		if run.After, err = sql.ParseContinuation(q.Continuation); err != nil {
			return nil, "", ofQuery(err)
		}
	}
	start := run.After.Start()
	source := func(yield func(sql.Row, error) bool) {
		for _, r := range all {
			if r.key >= start && !yield(sql.Row{Place: r.key, Item: document.View(r.text())}, nil) {
				return
			}
		}
	}
	more, err := compiled.Run(ctx, source, run, func(v document.Value) error {
		if err := m.Keep(v.TextSize()); err != nil {
			return err
		}
		out = append(out, v.Append(nil))
		return nil
	})
	if err != nil {
		return nil, "", ofQuery(err)
	}
	if more != nil {
		next = more.String()
	}
	return out, next, nil
}
