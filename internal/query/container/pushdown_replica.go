// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/container/sql"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// aggregation evaluates a part of a query over the rows of a read. aggregation implements partition.Aggregation.
type aggregation struct {
	c       *Container
	request pushdownRequest
	q       *sql.Query
	part    *sql.Collector
	columns columns
	// sorted reports whether items arrive in the order of the results. bare reports whether the query does not need the
	// system properties of the items.
	sorted, bare bool
	// placed reports whether the query uses the places of the items.
	placed bool

	meter *meter.Meter
	// release releases the query's memory.
	release      func()
	at           place
	items, bytes int64
	buffer       []byte
	text         []byte // the encoded place
}

// Aggregate implements partition.Aggregator.
func (e *Engine) Aggregate(ctx context.Context, c *command.Read) (partition.Aggregation, error) {
	r, err := decodePushdown(c.Pushdown.Program)
	if err != nil {
		return nil, err
	}
	t := e.tableByID(c.Table)
	if t == nil || t.Revision != r.revision || t.Container == nil {
		return nil, partition.ErrNoPushdown
	}
	ks := e.schema().Keyspace(t.Keyspace)
	if ks == nil || ks.Database == nil {
		return nil, partition.ErrNoPushdown
	}
	f := &aggregation{c: e.container(e.database(ks), t), request: r}
	f.columns = f.c.columns
	if f.release, err = e.Compiling(r.text); err != nil {
		return nil, partition.ErrNoPushdown
	}
	if f.q, err = e.queries.find(f.c, &r); err != nil || !f.q.Parts() {
		f.release()
		return nil, partition.ErrNoPushdown
	}
	run := sql.Run{Page: r.page, Now: r.now}
	if r.continuation != "" {
		if run.After, err = sql.ParseContinuation(r.continuation); err != nil {
			f.release()
			return nil, err
		}
	}
	limits := e.evaluation(c.Principal)
	limits.Steps = pushdownSteps
	run.Meter = meter.New(ctx, limits)
	f.meter = run.Meter
	f.sorted, f.bare, f.placed = !f.q.Sorts(), f.q.Bare(), !f.q.Groups()
	if f.part, err = f.q.Part(ctx, run); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Partition implements command.Visitor.
func (f *aggregation) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if !f.request.within.holds(f.c.Definition, tok, key) {
		return command.NextPartition, nil
	}
	f.at.ring, f.at.key = tok.Position(), append(f.at.key[:0], key...)
	return command.More, nil
}

// Row implements command.Visitor.
func (f *aggregation) Row(clustering []byte, r *row.Row) (command.Step, error) {
	item := sql.Row{Ordered: f.sorted}
	if f.placed {
		f.at.clustering = clustering
		f.text = f.at.append(f.text[:0])
		item.Place = string(f.text)
	}
	if f.bare {
		cell := r.Cell(f.columns.body)
		if cell == nil {
			cell = &row.Cell{}
		}
		item.Item = document.View(cell.Value)
		f.bytes += int64(len(cell.Value))
	} else {
		id, err := f.c.idOf(clustering)
		if err != nil {
			return command.Stop, err
		}
		s := f.c.read(r)
		f.buffer = f.c.item(f.at.key, id, &s).AppendResource(f.buffer[:0])
		item.Item = document.View(f.buffer)
		f.bytes += int64(len(s.body))
	}
	f.items++
	more, err := f.part.Add(item)
	if err != nil || !more || f.part.Enough() {
		return command.Stop, err
	}
	return command.More, nil
}

// Charge implements partition.Aggregation.
func (f *aggregation) Charge() ru.Units { return evaluated(f.meter) }

// Close implements partition.Aggregation.
func (f *aggregation) Close() {
	f.meter.Close()
	f.release()
}

// pushdownSteps limits the work of an aggregation beyond its allowance. Above this limit, the replica returns the items
// and the coordinating node evaluates them.
const pushdownSteps = 5_000_000

// Result implements partition.Aggregation.
func (f *aggregation) Result() ([]byte, error) {
	if f.items == 0 {
		return appendPartial(0, 0, nil), nil
	}
	return appendPartial(f.items, f.bytes, f.part.Partial()), nil
}

// itemOf returns the item of a row for a query. The item has the form that clients see (built in buffer) or the form in
// which the client sent it.
func (x *pageScan) itemOf(s *scanned) document.Value {
	if x.bare {
		return document.View(s.body)
	}
	x.buffer = x.c.item(s.key, s.id, &s.stored).AppendResource(x.buffer[:0])
	return document.View(x.buffer)
}

var _ partition.Aggregator = (*Engine)(nil)
