// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/sql"
)

// access is how the index finds the items of a page.
type access struct {
	// index, if not nil, finds them by single values, in the order of their places; first is how many are read first.
	index *command.IndexLookup
	first int
	// id is that of the index. intervals find them by ranges of values, each tried until it turns out not to serve;
	// then they are scanned.
	id        uint32
	intervals []*interval
}

// plan chooses how the items of a page are found.
func (x *pageScan) plan(q *sql.Query, run *sql.Run) {
	p := x.e.newPlanner(x.c)
	if x.first = run.Page; p.index != nil {
		x.id = p.index.Index
	}
	if most := q.Most(); most >= 0 && most < int64(x.first) {
		x.first = int(most)
	}
	if x.index = p.lookup(q); x.index == nil && !x.ofKeys() {
		few, sorted := p.ranged(q), p.order(q, run.After.After())
		if few != nil && (sorted == nil || string(few.prefix) != string(sorted.prefix)) {
			x.intervals = append(x.intervals, few)
		}
		if sorted != nil {
			x.intervals = append(x.intervals, sorted)
		}
	}
	x.page.Index = p.utilization(x.index != nil || len(x.intervals) > 0)
}

// ofKeys reports whether the query looks at whole logical partitions: then they are read, as the ranges of values are
// those of all.
func (x *pageScan) ofKeys() bool {
	return slices.ContainsFunc(x.scopes, func(s Scope) bool { return len(s.Key) == len(x.c.Definition.Paths) })
}

// byValues yields the items that the first interval has: in the order of values, if the query sorts by them, else in
// that of places, if they are few.
func (x *pageScan) byValues(ctx context.Context) sql.Source {
	in := x.intervals[0]
	return func(yield func(sql.Row, error) bool) {
		o, err := x.e.newOrdered(x.c, x.scopes, x.id, *in, x.first, &x.request.RequestOptions)
		if err != nil {
			yield(sql.Row{}, err)
			return
		}
		defer func() { x.before.Charge += o.charge }()
		if in.sorts {
			x.inOrder(ctx, o, yield)
		} else {
			x.few(ctx, o, yield)
		}
	}
}

// inOrder yields items in the order of their values.
func (x *pageScan) inOrder(ctx context.Context, o *ordered, yield func(sql.Row, error) bool) {
	for n := 0; ; n++ {
		v, err := o.next(ctx)
		if err == nil && n == orderedMax {
			err = errAbandoned
		}
		if err != nil {
			yield(sql.Row{}, err)
			return
		}
		if v == nil || !x.give(&v.scanned, o.exact(v), yield) {
			return
		}
	}
}

// few yields items in the order of their places.
func (x *pageScan) few(ctx context.Context, o *ordered, yield func(sql.Row, error) bool) {
	var all []scanned
	size := 0
	for {
		v, err := o.next(ctx)
		if err == nil && v != nil {
			if size += len(v.body); len(all) == smallRange || size > smallRangeBytes {
				err = errAbandoned
			}
		}
		if err != nil {
			yield(sql.Row{}, err)
			return
		}
		if v == nil {
			break
		}
		all = append(all, v.scanned)
	}
	slices.SortFunc(all, func(a, b scanned) int { return bytes.Compare(a.append(nil), b.append(nil)) })
	for i := range all {
		if string(all[i].append(nil)) >= x.start && !x.give(&all[i], false, yield) {
			return
		}
	}
}

// give yields one item that the index has found.
func (x *pageScan) give(s *scanned, ordered bool, yield func(sql.Row, error) bool) bool {
	m := &x.page.Metrics
	m.RetrievedCount, m.IndexHits = m.RetrievedCount+1, m.IndexHits+1
	m.RetrievedBytes += int64(len(s.body))
	item := x.c.item(s.key, s.id, &s.stored).AppendResource(nil)
	return yield(sql.Row{Place: string(s.append(nil)), Item: document.View(item), Ordered: ordered}, nil)
}
