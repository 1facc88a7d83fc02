// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// access describes how a page finds its items.
type access struct {
	// index looks up single values and yields items in place order. It is nil if the page does not use an index in
	// this way. first is the size of the first read.
	index *command.IndexLookup
	first int
	// id is the ID of the index. Each element of intervals is a value range that contains all items of the query. The
	// intervals are tried in order. If no interval is efficient enough, the items are scanned.
	id        uint32
	intervals []*interval
	// any reports whether the query has a single page that may contain any of the matching items, up to the requested
	// number of items.
	any bool
}

// plan selects the access path for the items of a page.
func (x *pageScan) plan(q *sql.Query, run *sql.Run) {
	p := x.e.newPlanner(x.c)
	if x.first = run.Page; p.index != nil {
		x.id = p.index.Index
	}
	if most := q.Most(); most >= 0 && most <= int64(x.first) {
		x.first, x.any = int(most), x.streams && run.After == nil
	}
	keyed := x.ofKeys()
	if keyed {
		p.implied = x.c.Definition.keyPaths
	}
	if x.index = p.lookup(q); !slices.ContainsFunc(x.scopes, func(s Scope) bool { return s.hasID }) {
		x.intervals = p.intervals(q, x.equalities(q), run.After.After(), x.index == nil)
	}
	if keyed && len(x.intervals) > 0 && !x.intervals[0].pinned {
		x.intervals = slices.Insert(x.intervals, 0, &interval{small: true})
	}
	x.page.Index = p.utilization(x.index != nil || len(x.intervals) > 0)
}

// equalities returns the property values that are fixed by the query's filter and partition key.
func (x *pageScan) equalities(q *sql.Query) equals {
	eq := equalities(conjuncts(q.Filter()))
	if len(x.scopes) == 1 {
		for i, v := range x.scopes[0].Key {
			if value := jsonOf(v); value.IsDefined() {
				eq[x.c.Definition.keyPaths[i].String()] = value
			}
		}
	}
	return eq
}

// ofKeys reports whether the query reads whole logical partitions.
func (x *pageScan) ofKeys() bool {
	return slices.ContainsFunc(x.scopes, func(s Scope) bool { return len(s.Key) == len(x.c.Definition.Paths) })
}

// byValues yields the items of the first interval. Items are in value order if the query sorts by the values.
// Otherwise, they are in place order, which requires that the interval contains few items.
func (x *pageScan) byValues(ctx context.Context) sql.Source {
	in := x.intervals[0]
	if in.small {
		return x.small(ctx)
	}
	return func(yield func(sql.Row, error) bool) {
		o, err := x.e.newOrdered(x.c, x.scopes, x.id, *in, x.first, &x.request.RequestOptions)
		if err != nil {
			yield(sql.Row{}, err)
			return
		}
		defer func() { x.before.Charge += o.charge }()
		if in.sorts || x.any {
			x.inOrder(ctx, o, yield)
		} else {
			x.few(ctx, o, yield)
		}
	}
}

// smallItems is the maximum number of items for which the logical partitions of a query are read without an index.
const smallItems = 100

// small yields the items of logical partitions that contain few items. Reading small partitions is cheaper than reading
// the index, because a value range of the index contains entries of all logical partitions.
func (x *pageScan) small(ctx context.Context) sql.Source {
	return func(yield func(sql.Row, error) bool) {
		var all []scanned
		for i := range x.scopes {
			s, err := x.e.newScan(x.c, &x.scopes[i], x.start, &x.request.RequestOptions)
			for s.max = smallItems; err == nil && s.more; {
				if err = s.piece(ctx, x.read, s.until); err == nil && (s.more || len(all)+len(s.rows) > smallItems) {
					err = errAbandoned
				}
			}
			if s != nil {
				x.before.Charge += s.charge
			}
			if err != nil {
				yield(sql.Row{}, err)
				return
			}
			x.read = true
			all = append(all, s.rows...)
		}
		for i := range all {
			if !x.give(&all[i], false, yield) {
				return
			}
		}
	}
}

// inOrder yields items in value order, which is the order in which the scan returns them.
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
		if v == nil || !x.give(&v.scanned, o.of.sorts && o.exact(v), yield) {
			return
		}
	}
}

// few yields the items of a small interval in place order.
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

// give yields an item that the index has found.
func (x *pageScan) give(s *scanned, ordered bool, yield func(sql.Row, error) bool) bool {
	m := &x.page.Metrics
	m.RetrievedCount, m.IndexHits = m.RetrievedCount+1, m.IndexHits+1
	m.RetrievedBytes += int64(len(s.body))
	return yield(sql.Row{Place: string(s.append(nil)), Item: x.itemOf(s), Ordered: ordered}, nil)
}
