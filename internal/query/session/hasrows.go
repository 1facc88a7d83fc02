// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/read"
)

// hasRows reports whether a table has a row or a static row.
func (e *Engine) hasRows(ctx context.Context, ks *schema.Keyspace, t *schema.Table) (bool, error) {
	one := &parser.Constant{Kind: parser.IntegerConstant, Text: "1"}
	plan, err := read.Bind(&parser.Select{Limit: one}, expr.NewEnv(e.opts.Release, ks, t, 0))
	if err != nil {
		return false, err
	}
	now := e.opts.Now()
	o := read.Options{Level: dberr.Quorum, Now: now.Unix(), Deadline: now.Add(e.opts.ScanTimeout), Clock: e.opts.Now}
	var page read.Page
	err = plan.Execute(ctx, e.reader(t), &expr.Bindings{Now: now}, o, &page)
	return page.Rows > 0, err
}
