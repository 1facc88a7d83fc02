// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// everything is the query that an empty text represents.
const everything = "SELECT * FROM c"

// Query executes a query page within the logical partition and ignores the request's scope. An empty text selects all
// items. It reads items in order until the page is full, starting after the previous page. Queries that sort or
// aggregate read all items within the limits of a transaction.
func (t *Transaction) Query(ctx context.Context, r *QueryRequest) (*Page, *Error) {
	if t.fatal != nil {
		return nil, refused(t.fatal)
	}
	request := *r
	if request.Text == "" {
		request.Text = everything
	}
	release, err := t.engine.Compiling(request.Text)
	if err != nil {
		return nil, refused(err)
	}
	defer release()
	q, bad := request.compile(t.c)
	if bad != nil {
		return nil, bad
	}
	if bad := t.engine.checkOrder(t.c, q); bad != nil {
		return nil, bad
	}
	run, bad := request.run(t.engine, t.c)
	if bad != nil {
		return nil, bad
	}
	run.Now = time.Unix(t.now, 0)
	run.Meter, run.PageBytes = t.engine.latched(ctx, 0), t.engine.opts.PageBytesMax
	defer run.Meter.Close()
	if q.Ranks() {
		page, err := t.rank(ctx, &request, q, run)
		if t.fatal != nil {
			return nil, refused(t.fatal)
		}
		if err != nil {
			return nil, queryError(err)
		}
		return page, nil
	}
	page := &Page{Documents: [][]byte{}}
	next, err := q.Run(ctx, t.txnScan(run.After.Start(), run.Page).source(ctx, page), run, page.take)
	if t.fatal != nil {
		return nil, refused(t.fatal)
	}
	if err != nil {
		return nil, queryError(err)
	}
	if next != nil {
		page.Continuation = t.engine.continuation(t.c, next.String())
	}
	return page, nil
}

// txnScan reads the items of the logical partition in chunks, including the transaction's own changes.
type txnScan struct {
	t *Transaction
	// place is the common prefix of all item places.
	place []byte
	// from is the clustering key at which the next read begins. more reports whether there may be further items.
	from []byte
	more bool
	// changed holds the items at or after from that the transaction has changed, in order.
	changed []txnItem
	// max is the number of items in the next chunk.
	max int
	q   command.Read
}

// txnItem is an item with its clustering key.
type txnItem struct {
	found
	clustering []byte
}

// txnScan starts at the place of an item, or at the beginning if from is empty. The first chunk has at least first
// items.
func (t *Transaction) txnScan(from string, first int) *txnScan {
	p := place{ring: t.token.Position(), key: t.keyBytes}
	w := &txnScan{t: t, place: p.append(nil), max: min(max(first+1, chunkRowsLeast), chunkRowsMax),
		q: command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Now: t.now}}
	clustering, within := strings.CutPrefix(from, string(w.place))
	if w.more = within || from < string(w.place); within {
		w.from = []byte(clustering)
	}
	for id, s := range t.items {
		if at := t.c.clustering(id); s.changed && s.is != nil && bytes.Compare(at, w.from) >= 0 {
			w.changed = append(w.changed, txnItem{found{id: id, stored: *s.is}, at})
		}
	}
	slices.SortFunc(w.changed, compareItems)
	return w
}

func compareItems(a, b txnItem) int { return bytes.Compare(a.clustering, b.clustering) }

// piece reads the next chunk.
func (w *txnScan) piece(ctx context.Context) ([]txnItem, error) {
	l := &collector{t: w.t, max: w.max}
	w.q.Slices = []command.Slice{{Start: w.from}}
	if err := w.t.txn.Read(ctx, &w.q, l); err != nil {
		return nil, err
	}
	w.q.Continued = true
	items := make([]txnItem, 0, len(l.items))
	for _, f := range l.items {
		at := w.t.c.clustering(f.id)
		if w.from = append(at[:len(at):len(at)], 0); w.t.items[f.id] == nil || !w.t.items[f.id].changed {
			items = append(items, txnItem{f, at})
		}
	}
	n := len(w.changed)
	if w.more = len(l.items) == w.max; w.more {
		n, _ = slices.BinarySearchFunc(w.changed, w.from, func(c txnItem, from []byte) int {
			return bytes.Compare(c.clustering, from)
		})
	}
	w.max = min(2*w.max, chunkRowsMax)
	items = append(items, w.changed[:n]...)
	w.changed = w.changed[n:]
	slices.SortFunc(items, compareItems)
	return items, nil
}

// source yields the items. A failed read ends the transaction.
func (w *txnScan) source(ctx context.Context, page *Page) sql.Source {
	return func(yield func(sql.Row, error) bool) {
		for w.more {
			items, err := w.piece(ctx)
			if err != nil {
				w.t.fatal = err
				yield(sql.Row{}, err)
				return
			}
			for i := range items {
				page.Metrics.RetrievedCount++
				at := append(w.place[:len(w.place):len(w.place)], items[i].clustering...)
				item := document.View(w.t.c.item(w.t.keyBytes, items[i].id, &items[i].stored).Resource())
				if !yield(sql.Row{Place: string(at), Item: item}, nil) {
					return
				}
			}
		}
	}
}
