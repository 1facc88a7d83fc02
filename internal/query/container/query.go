// SPDX-License-Identifier: Apache-2.0

package container

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// Scope limits the part of the container that a query reads. The zero Scope is the whole container.
type Scope struct {
	// Key is a partition key or a prefix of a partition key. If Key is nil, the scope is not limited to a key.
	Key epk.Key
	// Range is the ID of a physical partition. A query returns 410/1002 if no partition has this ID. MinEPK and MaxEPK
	// are hexadecimal effective partition keys. MinEPK is an inclusive lower bound, and MaxEPK is an exclusive upper
	// bound.
	Range, MinEPK, MaxEPK string
	// id is the ID of the only item in the scope if hasID is set. In this case, Key is complete.
	id    string
	hasID bool
}

// Parameter is a parameter of a query.
type Parameter struct {
	Name  string // name, including the @
	Value []byte // JSON
}

// QueryRequest requests one page of a query.
type QueryRequest struct {
	Scope
	Text       string
	Parameters []Parameter
	// CrossPartition reports whether the client allows the query to read more than one logical partition. If it is
	// false, a query without a key is rejected (400).
	CrossPartition bool
	// Continuation is the continuation of the previous page, or empty for the first page. MaxItems limits the page. If
	// MaxItems is not positive, the limit is 1000.
	Continuation string
	MaxItems     int
	// Functions executes user-defined functions. Functions may be nil.
	Functions sql.Functions
	RequestOptions
}

// Page is a page of a query or a feed.
type Page struct {
	// Documents are JSON texts. In a feed, they are items with their system properties.
	Documents [][]byte
	// Continuation requests the next page. It is empty on the last page.
	Continuation string
	Where
	// Metrics holds the values of the metrics headers.
	Metrics QueryMetrics
	// Index describes the index utilization of the query.
	Index IndexUtilization
}

// QueryMetrics describes the execution of a page.
type QueryMetrics struct {
	RetrievedCount, RetrievedBytes, OutputCount, OutputBytes int64
	// IndexHits counts the items found by an index. PushedDownCount counts the items that replicas have aggregated.
	IndexHits, PushedDownCount int64
}

// queryError returns the client error for a failed query.
func queryError(err error) *Error {
	if e, ok := errors.AsType[*sql.Error](err); ok {
		return Errorf(400, 0, "%s", e.JSON())
	}
	if e, ok := errors.AsType[*sql.LimitError](err); ok {
		return Errorf(400, 0, "%s", e.Message)
	}
	return refused(err)
}

// compile parses the text and the parameters of a request over a container.
func (r *QueryRequest) compile(c *Container) (*sql.Query, *Error) {
	parameters := make([]sql.Parameter, len(r.Parameters))
	for i, p := range r.Parameters {
		v, err := document.Parse(p.Value, document.Limits{})
		if err != nil {
			return nil, Errorf(400, 0, "The parameter %s is invalid: %v", p.Name, err)
		}
		parameters[i] = sql.Parameter{Name: p.Name, Value: v}
	}
	q, err := c.Definition.Schema.Compile(r.Text, parameters)
	if err != nil {
		return nil, queryError(err)
	}
	return q, nil
}

// run returns the execution parameters of a page. run removes the container ID from the continuation.
func (r *QueryRequest) run(e *Engine, c *Container) (run sql.Run, bad *Error) {
	run = sql.Run{Page: r.MaxItems, Functions: r.Functions, Now: e.opts.Clock.Wall()}
	if run.Page <= 0 {
		run.Page = feedItemsMax
	}
	if r.Continuation != "" {
		if r.Continuation, bad = c.continued(r.Continuation); bad != nil {
			return run, bad
		}
		after, err := sql.ParseContinuation(r.Continuation)
		if err != nil {
			return run, queryError(err)
		}
		run.After = after
	}
	return run, nil
}

// errCross returns the error for a query without a partition key.
func errCross() *Error {
	return Errorf(400, 0, "Cross partition query is required but disabled. Please set "+
		"x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or revise your query "+
		"to avoid this exception.")
}

// scopes returns the parts of the container that a query must read, in order. scopes returns an empty list if no item
// can match.
func (r *QueryRequest) scopes(c *Container, q *sql.Query) ([]Scope, *Error) {
	paths := c.Definition.keyPaths
	if len(r.Key) > len(paths) {
		return nil, Errorf(400, 0, "The partition key has %d values, but the container has the paths %v.", len(r.Key),
			c.Definition.Paths)
	}
	found, pinned := q.Keys(paths)
	if !pinned {
		if len(r.Key) == 0 && !r.CrossPartition && r.Range == "" && r.MinEPK == "" && r.MaxEPK == "" {
			return nil, errCross()
		}
		return []Scope{r.Scope}, nil
	}
	var out []Scope
	whole := true
	for i := range found {
		s := r.Scope
		s.Key = make(epk.Key, len(found[i].Components))
		for j, v := range found[i].Components {
			s.Key[j] = valueOf(v)
		}
		switch {
		case s.Key.HasPrefix(r.Key):
		case r.Key.HasPrefix(s.Key):
			s.Key = r.Key
		default:
			continue // The request contains a different key.
		}
		if len(s.Key) == len(paths) {
			s.id, s.hasID = found[i].ID, found[i].HasID
		} else {
			whole = false
		}
		out = append(out, s)
	}
	if len(out) > 1 {
		switch {
		case !whole:
			return []Scope{r.Scope}, nil
		case !r.CrossPartition && len(r.Key) == 0 && !sameKey(out):
			return nil, errCross()
		}
	}
	slices.SortFunc(out, func(a, b Scope) int { return cmp.Compare(c.placeOf(&a), c.placeOf(&b)) })
	return out, nil
}

func sameKey(scopes []Scope) bool {
	return !slices.ContainsFunc(scopes, func(s Scope) bool { return !s.Key.Equal(scopes[0].Key) })
}

// placeOf returns the encoded place at the beginning of a key's scope.
func (c *Container) placeOf(s *Scope) string {
	key := epk.AppendKey(nil, s.Key)
	p := place{ring: c.table.Token(key).Position(), key: key}
	if s.hasID {
		p.clustering = c.clustering(s.id)
	}
	return string(p.append(nil))
}

// queryTimes is the factor by which the time limit of a non-streaming query exceeds the limit of a streaming query. A
// non-streaming query must read all items.
const queryTimes = 12

// Query executes one page of a query.
func (e *Engine) Query(ctx context.Context, c *Container, request *QueryRequest) (*Page, error) {
	asked := *request
	r := &asked
	release, err := e.Compiling(r.Text)
	if err != nil {
		return nil, err
	}
	defer release()
	q, bad := r.compile(c)
	if bad != nil {
		return nil, bad
	}
	if bad := e.restored(c); bad != nil {
		return nil, bad
	}
	if q.Ranks() {
		return e.rank(ctx, c, r, q)
	}
	if bad := e.checkOrder(c, q); bad != nil {
		return nil, bad
	}
	run, bad := r.run(e, c)
	if bad != nil {
		return nil, bad
	}
	scopes, bad := r.scopes(c, q)
	if bad != nil {
		return nil, bad
	}
	x := &pageScan{e: e, c: c, scopes: scopes, request: r, streams: q.Streams(), start: run.After.Start(),
		page: &Page{Documents: [][]byte{}}, bare: q.Bare(), until: e.opts.Sched.Now().Add(e.opts.QueryTime)}
	if !e.opts.NoPushdown {
		x.pushdownPlan = newPushdownPlan(c, q, r, &run)
	}
	x.plan(q, &run)
	var cancel context.CancelFunc
	ctx, cancel = e.opts.Sched.WithTimeout(ctx, queryTimes*e.opts.QueryTime)
	defer cancel()
	run.Meter, run.PageBytes = x.evaluate(ctx), e.opts.PageBytesMax
	defer run.Meter.Close()
	next, err := q.Run(ctx, x.source(ctx), run, x.take)
	for errors.Is(err, errAbandoned) {
		x.intervals = x.intervals[1:]
		_ = run.Meter.Keep(-int(x.page.Metrics.OutputBytes))
		x.page.Documents, x.page.Metrics.OutputCount, x.page.Metrics.OutputBytes = x.page.Documents[:0], 0, 0
		next, err = q.Run(ctx, x.source(ctx), run, x.take)
	}
	x.page.Where = x.where()
	if err != nil {
		bad := queryError(err)
		bad.Charge = x.page.Charge
		return nil, bad
	}
	if next != nil {
		x.page.Continuation = e.continuation(c, next.String())
	}
	return x.page, nil
}

// take adds a result to the page and reserves its memory.
func (x *pageScan) take(v document.Value) error {
	if err := x.meter.Keep(v.TextSize()); err != nil {
		return err
	}
	return x.page.take(v)
}

// errResult rejects a result that exceeds the maximum size of an item.
var errResult = Errorf(400, 0, "A result of the query exceeds 2 MB, the maximum size of an item. "+
	"Select fewer or smaller properties.")

// resultMax is the maximum size of a result. Escaped characters can make it larger than the items from which it is
// computed.
const resultMax = 2 * document.SizeMax

// take adds a result to a page.
func (p *Page) take(v document.Value) error {
	text := v.Append(make([]byte, 0, v.TextSize()))
	if len(text) > resultMax {
		return errResult
	}
	p.Documents = append(p.Documents, text)
	p.Metrics.OutputCount++
	p.Metrics.OutputBytes += int64(len(text))
	return nil
}

// pageScan is the source of one query page. It yields the items of its scopes one scope after another.
type pageScan struct {
	e       *Engine
	c       *Container
	scopes  []Scope
	request *QueryRequest
	streams bool
	start   string
	page    *Page
	access
	// last is the current scan. before is the charge of the previous scans.
	last   *scan
	before Where
	read   bool
	// buffer holds the client view of the current item. bare reports whether the query does not need system properties.
	buffer []byte
	bare   bool
	// pushdownPlan adds pushdown to the reads of scans, or is nil.
	pushdownPlan *pushdownPlan
	// meter counts the work of the evaluation. until is the time at which a page of a streaming query ends.
	meter *meter.Meter
	until time.Time
	// spent is the part of the evaluation charge that has already been deducted from the balances of partitions.
	spent ru.Units
}

// source returns the source of the items.
func (x *pageScan) source(ctx context.Context) sql.Source {
	if len(x.intervals) > 0 {
		return x.byValues(ctx)
	}
	return func(yield func(sql.Row, error) bool) {
		for i := range x.scopes {
			if x.last != nil {
				x.before.Charge += x.last.charge
			}
			var err error
			if x.last, err = x.e.newScan(x.c, &x.scopes[i], x.start, &x.request.RequestOptions); err != nil {
				yield(sql.Row{}, err)
				return
			}
			if x.index != nil && !x.scopes[i].hasID {
				x.last.by(x.index, x.first)
			}
			if !x.scopes[i].hasID {
				x.last.pushdownPlan, x.last.page = x.pushdownPlan, x.page
			}
			if !x.yieldAll(ctx, i, yield) {
				return
			}
		}
	}
}

// yieldAll yields the items of the current scan, which reads the scope with the given index. yieldAll returns false if
// no more items are wanted. A page of a streaming query ends early if it would have to wait for request units beyond
// its time limit.
func (x *pageScan) yieldAll(ctx context.Context, scope int, yield func(sql.Row, error) bool) bool {
	var at []byte
	until := x.until
	x.last.until = until
	if deadline, ok := ctx.Deadline(); ok && !x.streams {
		until = deadline
	}
	pause := func() bool {
		place := string(x.last.behind().append(nil))
		if x.last.at.key == nil {
			place = x.c.placeOf(&x.scopes[scope]) // The scan has read nothing in the scope.
		}
		yield(sql.Row{}, sql.Pause{Place: place})
		return false
	}
	for x.last.more {
		if x.streams && x.read && (x.tired(0) || x.page.Metrics.OutputBytes > int64(x.e.opts.PageBytesMax)) {
			return pause()
		}
		x.meter.Pause()
		x.spend()
		if err := x.last.piece(ctx, x.read, until); err != nil {
			if x.streams && x.read && isSpent(err) {
				return pause()
			}
			yield(sql.Row{}, err)
			return false
		}
		x.read = true
		partials := x.last.partials
		for i := range x.last.rows {
			var ok bool
			if partials, ok = x.yieldPartials(partials, i, yield); !ok {
				return false
			}
			row := &x.last.rows[i]
			at = row.append(at[:0])
			x.page.Metrics.RetrievedCount++
			if x.last.q.Index != nil {
				x.page.Metrics.IndexHits++
			}
			x.page.Metrics.RetrievedBytes += int64(len(row.body))
			if !yield(sql.Row{Place: string(at), Item: x.itemOf(row)}, nil) {
				return false
			}
			if x.streams && x.tired(i+1) && i+1 < len(x.last.rows) {
				yield(sql.Row{}, sql.ErrPause)
				return false
			}
		}
		if _, ok := x.yieldPartials(partials, len(x.last.rows), yield); !ok {
			return false
		}
	}
	return true
}

// yieldPartials yields the partial results that precede a row of the current scan and returns the remaining results.
// yieldPartials returns false if the query needs no more rows.
func (x *pageScan) yieldPartials(partials []partial, before int, yield func(sql.Row, error) bool) ([]partial, bool) {
	for len(partials) > 0 && partials[0].before <= before {
		if !yield(partials[0].row(&x.page.Metrics, x.last.q.Index != nil), nil) {
			return nil, false
		}
		partials = partials[1:]
	}
	return partials, true
}

// where returns the position of the page and its charge.
func (x *pageScan) where() Where {
	if x.last == nil {
		var err error
		if x.last, err = x.e.newScan(x.c, &Scope{}, "", &x.request.RequestOptions); err != nil {
			return x.before
		}
	}
	x.spend()
	w := x.e.whereOf(x.c, &x.request.Scope, x.last)
	w.Charge = max(w.Charge+x.before.Charge+evaluated(x.meter), 1)
	return w
}
