// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// Parameter is a query parameter.
type Parameter struct {
	Name  string // name, including the @
	Value document.Value
}

// Query is a compiled query. Query may be run repeatedly and concurrently.
type Query struct {
	tree  *Select
	bound *boundQuery
	slots int
	// parameters contains the parameter values by name.
	parameters map[string]document.Value
	schema     *Schema
	items      bool   // the query reads items
	bare       bool   // see Bare
	calls      bool   // the query calls user-defined functions
	id         string // hash of the text and the parameters, for continuations
}

// Compile parses a query and binds its parameters. Errors are of type *Error.
func Compile(text string, parameters []Parameter) (*Query, error) {
	return (*Schema)(nil).Compile(text, parameters)
}

// Compile works like the function Compile for the items of a container.
func (s *Schema) Compile(text string, parameters []Parameter) (*Query, error) {
	tree, err := Parse(text)
	if err != nil {
		return nil, err
	}
	b := &binder{text: text, parameters: map[string]document.Value{}, schema: s}
	h := fnv.New64a()
	h.Write([]byte(text))
	h.Write(s.Text())
	for _, p := range parameters {
		b.parameters[p.Name] = p.Value.Clone()
		h.Write(appendKey([]byte(p.Name), p.Value))
	}
	q := &Query{tree: tree, items: usesContainer(tree), parameters: b.parameters, schema: s,
		id: strconv.FormatUint(h.Sum64(), 36)}
	if q.bound, err = b.query(tree, true); err != nil {
		return nil, err
	}
	q.slots, q.bare, q.calls = b.slots, b.whole == 0 && !b.system, b.calls
	return q, nil
}

// String returns the query's text in canonical form.
func (q *Query) String() string { return q.tree.String() }

// Row is an item of a Source.
type Row struct {
	// Place identifies the item in the container. Places are in ascending byte order. The Source defines them, and
	// Continuation.Start returns them.
	Place string
	// Item is the whole item. It must remain unchanged until the next row is requested. It may lack system properties
	// if the query is Bare.
	Item document.Value
	// Partial is a partial result that replaces the item, or nil. It is the partial result of the items after the
	// previous row, up to and including Place.
	Partial []byte
	// Ordered reports whether all later items follow this item in the order of the results, which is defined by the
	// sort values and then the place.
	Ordered bool
}

// Source yields items in place order. An error ends the run. ErrPause ends only the page.
type Source = iter.Seq2[Row, error]

// ErrPause reports that a Source has reached the cost limit of a page. ErrPause is valid only for streaming queries.
var ErrPause = errors.New("sql: the source is paused")

// Pause is an ErrPause of a Source that has already advanced beyond the last item that it yielded. The next page begins
// at Place. Without a Pause, a page that finds no items would make no progress.
type Pause struct{ Place string }

func (Pause) Error() string { return ErrPause.Error() }

// Is reports whether target is ErrPause.
func (Pause) Is(target error) bool { return target == ErrPause }

// Run configures the execution of a query.
type Run struct {
	// Page is the maximum number of results. If Page is 0, all results are returned.
	Page int
	// After is the end of the previous page, or nil.
	After     *Continuation
	Functions Functions // may be nil
	Now       time.Time // current time of date functions
	Bounds    Bounds
	// Meter limits the evaluation. If it is nil, only the work is limited. PageBytes is the approximate maximum size
	// of a page's results in bytes. If PageBytes is 0, the size is not limited.
	Meter     *meter.Meter
	PageBytes int
}

// Streams reports whether results are returned as items arrive. A streaming run keeps no state, can pause, and resumes
// at the position at which it paused. Other queries read all items again for each page.
func (q *Query) Streams() bool { return q.bound.plain() }

// Bare reports whether the query uses neither system properties, whose names begin with _, nor items as a whole. The
// results of a bare query do not depend on the system properties of the items.
func (q *Query) Bare() bool { return q.bare }

func (q *Query) newEnv(ctx context.Context, r *Run) *env {
	m := r.Meter
	if m == nil {
		m = meter.New(ctx, meter.Limits{})
	}
	return &env{ctx: ctx, meter: m, slots: make([]document.Value, q.slots), cursors: make([]document.Cursor, q.slots),
		functions: r.Functions, now: r.Now, bounds: r.Bounds}
}

// Collector evaluates a query over items that are added individually. Collector is used by one goroutine.
type Collector struct {
	q   *Query
	c   *collector
	e   *env
	row int
	at  string // place of the current or last item
	// reached is the position of the source beyond that item.
	reached string
	// visit is created once, so that visits of rows do not allocate memory.
	visit func() bool
}

// Collect starts an evaluation. Results are kept until Finish or Partial. It returns an error if the continuation
// belongs to another query.
func (q *Query) Collect(ctx context.Context, run Run) (*Collector, error) {
	c, err := q.begin(ctx, &run)
	if err != nil {
		return nil, err
	}
	c.c.collect = true
	return c, nil
}

func (q *Query) begin(ctx context.Context, run *Run) (*Collector, error) {
	e := q.newEnv(ctx, run)
	c := &Collector{q: q, e: e, c: newCollector(q.bound, e, run.Bounds, document.Value.Clone)}
	if run.Page > 0 {
		c.c.page = int64(run.Page)
	}
	c.c.pageBytes = run.PageBytes
	if a := run.After; a != nil {
		if a.query != q.id {
			return nil, errForeign
		}
		c.c.skip, c.c.left, c.c.after = a.skip, a.left, &a.position
	}
	c.visit = func() bool {
		c.row++
		return c.c.row(c.at, c.row)
	}
	return c, nil
}

// Each item allows itemSteps of work plus one step for each itemBytes bytes of its size.
const itemSteps, itemBytes = 200, 8

// Add adds an item or a partial result. Add returns false when no more items are needed.
func (c *Collector) Add(r Row) (more bool, err error) {
	if r.Partial != nil {
		c.at = r.Place
		return c.merge(r.Partial)
	}
	c.at, c.row, c.e.root, c.c.ordered = r.Place, 0, r.Item, r.Ordered
	c.e.analyzed.reset()
	c.e.meter.Allow(itemSteps + r.Item.TextSize()/itemBytes)
	more = c.q.bound.rows(c.e, 0, c.visit)
	return more, c.e.err
}

// Finish passes the results to sink. Finish returns the beginning of the next page, or nil after the last page.
func (c *Collector) Finish(sink func(document.Value) error) (*Continuation, error) {
	c.c.emit = func(v document.Value) bool {
		if err := sink(v); err != nil {
			c.e.fail(err)
		}
		return c.e.err == nil
	}
	c.c.finish()
	return c.next(false), c.e.err
}

// next returns the beginning of the next page. paused reports whether some items have not been read.
func (c *Collector) next(paused bool) *Continuation {
	if c.c.done || !c.c.full && !paused || c.e.err != nil {
		return nil
	}
	at := c.c.last
	if !c.c.full {
		at = position{place: c.at, row: math.MaxInt32}
		if c.reached > c.at && (c.c.after == nil || c.reached > c.c.after.place) {
			at = position{place: c.reached}
		} else if c.at == "" {
			if c.c.after == nil {
				return &Continuation{query: c.q.id, skip: c.c.skip, left: c.c.left, streams: true}
			}
			at = *c.c.after
		}
	}
	return &Continuation{query: c.q.id, position: at, skip: c.c.skip, left: c.c.left, streams: c.q.Streams()}
}

// Run evaluates the query over a source and passes each result to sink. A result is valid only until sink returns. Run
// returns the beginning of the next page, or nil after the last page. An error is an *Error, a *LimitError, or an
// error from the source, the sink, a function, or the context.
func (q *Query) Run(ctx context.Context, source Source, run Run, sink func(document.Value) error) (*Continuation,
	error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := q.begin(ctx, &run)
	if err != nil {
		return nil, err
	}
	c.c.emit = func(v document.Value) bool {
		if err := sink(v); err != nil {
			c.e.fail(err)
		}
		return c.e.err == nil
	}
	switch {
	case c.c.left == 0:
		return nil, nil
	case q.Ranks():
		return q.rankOver(ctx, source, run, sink)
	case !q.items:
		if _, err := c.Add(Row{}); err != nil {
			return nil, err
		}
		return c.Finish(sink)
	}
	for r, err := range source {
		if errors.Is(err, ErrPause) && q.Streams() {
			if p, ok := errors.AsType[Pause](err); ok {
				c.reached = p.Place
			}
			return c.next(true), nil
		}
		if err != nil {
			return nil, err
		}
		before := c.at
		more, err := c.Add(r)
		if err != nil {
			return c.exhausted(before, err)
		}
		if !more {
			break
		}
	}
	return c.Finish(sink)
}

// exhausted ends a page whose evaluation has reached its work or time limit. The next page begins after the last
// result. If the page has no result, it begins after the previous item, whose place is before. If neither exists or the
// results do not stream, it returns the error.
func (c *Collector) exhausted(before string, err error) (*Continuation, error) {
	if !c.q.Streams() || !c.e.meter.Exhausted() {
		return nil, err
	}
	at := c.c.last
	if before > at.place || before == at.place && before != c.at {
		at = position{place: before, row: math.MaxInt32}
	}
	if at.place == "" || !c.c.moved && before == "" {
		return nil, err
	}
	return &Continuation{query: c.q.id, position: at, skip: c.c.skip, left: c.c.left, streams: true}, nil
}

// Matches reports whether the query has a result for an item. It evaluates conditions such as FROM c WHERE c.n = 1.
func (q *Query) Matches(ctx context.Context, item document.Value, run Run) (bool, error) {
	run.Page, run.After = 1, nil
	found := false
	source := func(yield func(Row, error) bool) { yield(Row{Place: "0", Item: item}, nil) }
	_, err := q.Run(ctx, source, run, func(document.Value) error {
		found = true
		return nil
	})
	return found, err
}
