// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/sql"
)

// holds reports whether the condition of a patch, from c where .., holds of an item.
func (t *Transaction) holds(ctx context.Context, condition, id string, s *stored) (bool, *Error) {
	q, err := sql.Compile(condition, nil)
	if err != nil {
		return false, queryError(err)
	}
	item := document.View(t.c.item(t.keyBytes, id, s).Resource())
	ok, err := q.Matches(ctx, item, sql.Run{Now: time.Unix(t.now, 0)})
	if err != nil {
		return false, queryError(err)
	}
	return ok, nil
}

// everything is the query that an empty text stands for.
const everything = "SELECT * FROM c"

// Query runs a page of a query within the logical partition; of the scope nothing counts. An empty text reads all
// items. It reads the whole logical partition, within the bounds of a transaction.
func (t *Transaction) Query(ctx context.Context, r *QueryRequest) (*Page, *Error) {
	if t.fatal != nil {
		return nil, refused(t.fatal)
	}
	request := *r
	if request.Text == "" {
		request.Text = everything
	}
	q, bad := request.compile()
	if bad != nil {
		return nil, bad
	}
	if bad := t.engine.checkOrder(t.c, q); bad != nil {
		return nil, bad
	}
	run, bad := request.run(t.engine)
	if bad != nil {
		return nil, bad
	}
	run.Now = time.Unix(t.now, 0)
	items, err := t.all(ctx)
	if err != nil {
		t.fatal = err
		return nil, refused(err)
	}
	page := &Page{Documents: [][]byte{}}
	next, err := q.Run(ctx, t.source(items, run.After.Start(), page), run, page.take)
	if err != nil {
		return nil, queryError(err)
	}
	if next != nil {
		page.Continuation = next.String()
	}
	return page, nil
}

// all are the items of the logical partition as the transaction sees them, in the order of their clustering keys.
func (t *Transaction) all(ctx context.Context) ([]found, error) {
	l := &collector{t: t}
	q := &command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Now: t.now}
	if err := t.txn.Read(ctx, q, l); err != nil {
		return nil, err
	}
	items := slices.DeleteFunc(l.items, func(f found) bool { return t.items[f.id] != nil && t.items[f.id].changed })
	for id, s := range t.items {
		if s.changed && s.is != nil {
			items = append(items, found{id: id, stored: *s.is})
		}
	}
	slices.SortFunc(items, func(a, b found) int { return bytes.Compare(t.c.clustering(a.id), t.c.clustering(b.id)) })
	return items, nil
}

// source yields items from a place on.
func (t *Transaction) source(items []found, from string, page *Page) sql.Source {
	return func(yield func(sql.Row, error) bool) {
		for i := range items {
			p := place{ring: t.token.Position(), key: t.keyBytes, clustering: t.c.clustering(items[i].id)}
			at := string(p.append(nil))
			if at < from {
				continue
			}
			page.Metrics.RetrievedCount++
			item := document.View(t.c.item(t.keyBytes, items[i].id, &items[i].stored).Resource())
			if !yield(sql.Row{Place: at, Item: item}, nil) {
				return
			}
		}
	}
}
