// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// rankBytesMax is the maximum size of the results of the queries that replace a query with ORDER BY RANK.
const rankBytesMax = 64 << 20

// errRankBytes rejects a query with ORDER BY RANK whose results are too large.
var errRankBytes = Errorf(400, 0, "The query sorts more data than the memory limit allows (%d bytes). Select fewer "+
	"properties, use TOP, or specify a partition key.", rankBytesMax)

// rank executes a page of a query with ORDER BY RANK by executing other queries.
func (e *Engine) rank(ctx context.Context, c *Container, r *QueryRequest, q *sql.Query) (*Page, error) {
	run, bad := r.run(e, c)
	if bad != nil {
		return nil, bad
	}
	if !r.CrossPartition {
		if _, bad := r.scopes(c, q); bad != nil {
			return nil, bad
		}
	}
	ctx, cancel := e.opts.Sched.WithTimeout(ctx, queryTimes*e.opts.QueryTime)
	defer cancel()
	m := e.Evaluation(ctx, r.Claimant)
	defer m.Close()
	run.PageBytes = e.opts.PageBytesMax
	out := &Page{Documents: [][]byte{}}
	kept := 0
	p := e.newPlanner(c)
	hooks := sql.RankHooks{Finds: func(f *sql.Filter) bool { return len(p.sets(f)) > 0 }}
	hooks.Totals = func(path document.Path, compute func() (sql.Totals, error)) (sql.Totals, error) {
		return e.totals.find(c, path.String(), e.opts.Sched, compute)
	}
	hooks.Execute = func(part sql.RankQuery) (results []document.Value, err error) {
		each := *r
		each.Text, each.Continuation, each.MaxItems = part.Text, "", 0
		if part.Global {
			each.Scope, each.CrossPartition = Scope{}, true
		}
		for {
			page, err := e.Query(ctx, c, &each)
			if err != nil {
				return nil, err
			}
			out.merge(page)
			for _, text := range page.Documents {
				if kept += len(text); kept > rankBytesMax {
					return nil, errRankBytes
				}
				if err := m.Keep(len(text)); err != nil {
					return nil, err
				}
				results = append(results, document.View(text))
			}
			if each.Continuation = page.Continuation; each.Continuation == "" {
				return results, nil
			}
		}
	}
	next, err := q.Rank(run, hooks, out.take)
	if err != nil {
		bad := queryError(err)
		bad.Charge = max(bad.Charge, out.Charge)
		return nil, bad
	}
	if next != nil {
		out.Continuation = e.continuation(c, next.String())
	}
	return out, nil
}

// merge adds the charge and the metrics of another page, but not its results.
func (p *Page) merge(part *Page) {
	charge := p.Charge + part.Charge
	p.Where, p.Index = part.Where, part.Index
	p.Charge = charge
	p.Metrics.RetrievedCount += part.Metrics.RetrievedCount
	p.Metrics.RetrievedBytes += part.Metrics.RetrievedBytes
	p.Metrics.IndexHits += part.Metrics.IndexHits
	p.Metrics.PushedDownCount += part.Metrics.PushedDownCount
}

// rank executes a page of a query with ORDER BY RANK within the logical partition, whose items determine the
// statistics.
func (t *Transaction) rank(ctx context.Context, r *QueryRequest, q *sql.Query, run sql.Run) (*Page, error) {
	out := &Page{Documents: [][]byte{}}
	run.PageBytes = t.engine.opts.PageBytesMax
	hooks := sql.RankHooks{Execute: func(part sql.RankQuery) (results []document.Value, err error) {
		each := *r
		each.Text = part.Text
		compiled, bad := each.compile(t.c)
		if bad != nil {
			return nil, bad
		}
		m := t.engine.latched(ctx, 0)
		defer m.Close()
		_, err = compiled.Run(ctx, t.txnScan("", run.Page).source(ctx, out), sql.Run{Now: time.Unix(t.now, 0),
			Functions: r.Functions, Meter: m}, func(v document.Value) error {
			results = append(results, v.Clone())
			return run.Meter.Keep(v.TextSize())
		})
		return results, err
	}}
	next, err := q.Rank(run, hooks, out.take)
	if next != nil {
		out.Continuation = t.engine.continuation(t.c, next.String())
	}
	return out, err
}
