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

// Parameter is a value that comes with a query.
type Parameter struct {
	Name  string // with @
	Value document.Value
}

// Query is a query that is ready to be run, any number of times and by many goroutines at once.
type Query struct {
	tree  *Select
	bound *boundQuery
	slots int
	// parameters are the values by name.
	parameters map[string]document.Value
	items      bool   // it looks at items at all
	bare       bool   // see Bare
	calls      bool   // it has user-defined functions
	id         string // of the text and the parameters, for continuations
}

// Compile reads a query and puts its parameters in. Errors are *Error.
func Compile(text string, parameters []Parameter) (*Query, error) {
	tree, err := Parse(text)
	if err != nil {
		return nil, err
	}
	b := &binder{text: text, parameters: map[string]document.Value{}}
	h := fnv.New64a()
	h.Write([]byte(text))
	for _, p := range parameters {
		b.parameters[p.Name] = p.Value.Clone()
		h.Write(appendKey([]byte(p.Name), p.Value))
	}
	q := &Query{tree: tree, items: usesContainer(tree), parameters: b.parameters, id: strconv.FormatUint(h.Sum64(), 36)}
	if q.bound, err = b.query(tree, true); err != nil {
		return nil, err
	}
	q.slots, q.bare, q.calls = b.slots, b.whole == 0 && !b.system, b.calls
	return q, nil
}

// String returns the query's text as it was understood.
func (q *Query) String() string { return q.tree.String() }

// Row is an item of a Source.
type Row struct {
	// Place tells the item from all others of the container, and is not above, as bytes, that of any later one. It is
	// made by whoever makes the Source, and comes back in Continuation.Start.
	Place string
	// Item is the whole item. It has to stay as it is until the next row is asked for. Properties that the database
	// appends may be left out where the query is Bare.
	Item document.Value
	// Partial, if not nil, is not an item, but what a Part of the same query has made of several: those behind the row
	// before, up to Place.
	Partial []byte
	// Ordered says that all items that come after it are behind it in the order of results too: by what the query sorts
	// by, and by their places where that is the same.
	Ordered bool
}

// Source yields items in the order of their places. An error ends the run; ErrPause ends the page.
type Source = iter.Seq2[Row, error]

// ErrPause says that a Source has yielded as much as a page may cost. It is for queries that Stream.
var ErrPause = errors.New("sql: the source pauses")

// Pause is an ErrPause of a Source that has come further than the last item that it has yielded, or has yielded none:
// the next page begins at Place. Without it a page that finds nothing would begin where it began.
type Pause struct{ Place string }

func (Pause) Error() string { return ErrPause.Error() }

// Is reports whether target is ErrPause.
func (Pause) Is(target error) bool { return target == ErrPause }

// Run says how a query is run.
type Run struct {
	// Page is how many results are wanted; 0 is all.
	Page int
	// After is where the page before ended, or nil.
	After     *Continuation
	Functions Functions // may be nil
	Now       time.Time // of date functions
	Bounds    Bounds
	// Meter bounds the evaluation; nil bounds its work alone. PageBytes ends a page before its results have more bytes,
	// about; 0 does not.
	Meter     *meter.Meter
	PageBytes int
}

// Streams reports whether results come as items do: a run keeps nothing, may pause, and goes on where it ended. Others
// look at all items again for each page.
func (q *Query) Streams() bool { return q.bound.plain() }

// Bare reports whether the query looks at no property that the database appends to items, whose names begin with _, and
// at no item as a whole: it finds the same in the items as they were sent.
func (q *Query) Bare() bool { return q.bare }

// UsesItems reports whether the query looks at items at all; SELECT 1 does not.
func (q *Query) UsesItems() bool { return q.items }

// CountsOnly reports whether the query is SELECT VALUE COUNT of a constant without WHERE: it needs no item's text.
func (q *Query) CountsOnly() bool {
	b := q.bound
	if len(b.aggregates) != 1 || b.where != nil || len(b.groups) > 0 || len(b.inputs) != 1 ||
		b.inputs[0].of != (rootNode{}) {
		return false
	}
	c, ok := b.aggregates[0].arg.(constNode)
	return ok && c.value.IsDefined() && b.aggregates[0].kind == aggregateCount
}

func (q *Query) newEnv(ctx context.Context, r *Run) *env {
	m := r.Meter
	if m == nil {
		m = meter.New(ctx, meter.Limits{})
	}
	return &env{ctx: ctx, meter: m, slots: make([]document.Value, q.slots), cursors: make([]document.Cursor, q.slots),
		functions: r.Functions, now: r.Now, bounds: r.Bounds}
}

// Collector evaluates a query over items that are added one by one. It is used by one goroutine.
type Collector struct {
	q   *Query
	c   *collector
	e   *env
	row int
	at  string // the place of the item under way, or of the last one
	// reached is how far the source has come beyond it.
	reached string
	// visit is made once, so that rows do not allocate.
	visit func() bool
}

// Collect begins an evaluation. Results are kept until Finish or Partial; errors are those of a continuation that
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
			return nil, &Error{Code: codeArguments, Message: "The continuation belongs to another query, or the query's parameters " +
				"have changed."}
		}
		c.c.skip, c.c.left, c.c.after = a.skip, a.left, &a.position
	}
	c.visit = func() bool {
		c.row++
		return c.c.row(c.at, c.row)
	}
	return c, nil
}

// An item allows for itemSteps of work, and one more for each itemBytes bytes that it has.
const itemSteps, itemBytes = 200, 8

// Add takes an item in, or what has been made of several. It returns false when no more are needed.
func (c *Collector) Add(r Row) (more bool, err error) {
	if r.Partial != nil {
		c.at = r.Place
		return c.merge(r.Partial)
	}
	c.at, c.row, c.e.root, c.c.ordered = r.Place, 0, r.Item, r.Ordered
	c.e.meter.Allow(itemSteps + r.Item.TextSize()/itemBytes)
	more = c.q.bound.rows(c.e, 0, c.visit)
	return more, c.e.err
}

// Finish gives the results to sink, and returns where the next page begins, or nil if there is none.
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

// next is where the next page begins. paused says that not all items have been seen.
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

// Run evaluates the query over a source and gives each result to sink, valid during the call. It returns where the next
// page begins, or nil if there is none. Errors are *Error, *LimitError, those of the source, the sink, the functions
// and the context.
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

// exhausted ends a page whose evaluation has come to its bound of work or time: the next page begins behind the last
// result, or behind the item before, whose place is given. Without either, and where results do not stream, the error
// stays.
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

// Matches reports whether the query has a result for an item, as a condition does: FROM c WHERE c.n = 1.
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
