// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// smallRange is how many items a range of values may have, and smallRangeBytes of how many bytes, for them to be
	// read by it.
	smallRange      = 2000
	smallRangeBytes = 8 << 20
	// orderedMax is how many items are looked at in the order of their values before a query sorts what a scan finds:
	// its filter leaves nearly nothing.
	orderedMax = 20_000
	// keyLooksMax is how many entries of other logical partitions are stepped over, about, before one is read whole.
	keyLooksMax = 4000
	// streamsMax is of how many physical partitions the items are merged in the order of their values.
	streamsMax = 64
)

// errAbandoned ends a run by values: the items have to be found in another way.
var errAbandoned = errors.New("container: the index does not serve the query as it was thought to")

// interval is a range of the values of entries of one path, or of one composite index.
type interval struct {
	prefix   []byte // of all entries of the path
	from, to []byte
	// fixed is of how many first properties of a composite index it has one value; pinned says that the partition key
	// is among them.
	fixed  int
	pinned bool
	// small says that it is none: whole logical partitions are read if they are small.
	small bool
	// sorts says that the query sorts by the values, and descending that the largest one is wanted first.
	sorts, descending bool
}

// ordered reads the items that have values in an interval, merged over the physical partitions.
type ordered struct {
	e       *Engine
	c       *Container
	of      interval
	streams []*stream
	charge  ru.Units
	// read says that something was read, which was paid for.
	read bool
	// partitions are those of the container when it began.
	partitions []*topology.Partition
}

// stream reads those of one physical partition. It is a command.Visitor.
type stream struct {
	o     *ordered
	q     command.Read
	index command.IndexLookup
	holds []func(tok token.Token, key []byte) bool
	rows  []scannedValue
	bytes int
	max   int
	more  bool
	at    place
	begun bool
	// budget is how many entries may be stepped over, about, if it is not 0 at first; spent says that it is.
	budget int
	spent  bool
}

// scannedValue is an item with the value by which it was found.
type scannedValue struct {
	scanned
	value []byte
}

// newOrdered begins to read scopes by values, some items of each physical partition at first.
func (e *Engine) newOrdered(c *Container, scopes []Scope, index uint32, of interval, first int, o *RequestOptions) (
	*ordered, error) {
	out := &ordered{e: e, c: c, of: of, partitions: e.opts.Coordinator.Topology().Partitions(c.table.ID)}
	for i := range scopes {
		x, err := e.newScan(c, &scopes[i], "", o)
		if err != nil {
			return nil, err
		}
		if !x.more {
			continue
		}
		if x.q.Key != nil {
			out.add(x, of, index, first).budget = keyLooksMax
			continue
		}
		for _, p := range out.partitions {
			tokens, some := x.q.Range.Intersect(p.Span.Tokens())
			if !some {
				continue
			}
			s := out.add(x, of, index, first)
			s.holds = append(s.holds, func(tok token.Token, key []byte) bool {
				return p.Span.Holds(keys.At(tok, key))
			})
			s.q.Range = tokens
		}
		if len(out.streams) > streamsMax {
			return nil, errAbandoned
		}
	}
	return out, nil
}

// add adds a stream of what a scan would read.
func (o *ordered) add(x *scan, of interval, index uint32, first int) *stream {
	s := &stream{o: o, q: x.q, more: true, max: min(max(first+1, chunkRowsLeast), chunkRowsMax)}
	s.holds = append(s.holds, x.holds)
	s.index = command.IndexLookup{Index: index, Value: of.from, End: of.to, First: []byte(largeEntry)}
	s.q.Index, s.q.Reversed = &s.index, of.descending
	o.streams = append(o.streams, s)
	return s
}

// next returns the next item, nil at the end. It is valid until the next call.
func (o *ordered) next(ctx context.Context) (*scannedValue, error) {
	var least *stream
	for _, s := range o.streams {
		if len(s.rows) == 0 && s.more {
			if err := s.fetch(ctx); err != nil {
				return nil, err
			}
		}
		if len(s.rows) > 0 && (least == nil || o.compare(&s.rows[0], &least.rows[0]) < 0) {
			least = s
		}
	}
	if least == nil {
		return nil, nil
	}
	v := &least.rows[0]
	least.rows = least.rows[1:]
	return v, nil
}

// compare is the order in which items come.
func (o *ordered) compare(a, b *scannedValue) int {
	n := bytes.Compare(a.value, b.value)
	if o.of.descending {
		n = -n
	}
	return cmp.Or(n, bytes.Compare(a.append(nil), b.append(nil)))
}

// fetch reads the next items of a physical partition. What changes hands meanwhile has no order.
func (s *stream) fetch(ctx context.Context) error {
	var charge ru.Units
	for {
		err := s.o.e.read(ctx, &s.q, &charge, func() command.Visitor {
			s.rows, s.bytes, s.more = nil, 0, false
			return s
		})
		s.o.charge += charge
		if err == nil {
			break
		}
		if until, ok := ctx.Deadline(); !ok || !s.o.read || !s.o.e.awaitBudget(ctx, err, until) {
			return err
		}
	}
	s.o.read = true
	if s.spent {
		return errAbandoned
	}
	now := s.o.e.opts.Coordinator.Topology().Partitions(s.o.c.table.ID)
	if !slices.EqualFunc(now, s.o.partitions, func(a, b *topology.Partition) bool {
		return a.ID == b.ID && a.Epoch == b.Epoch
	}) {
		return errAbandoned
	}
	if first := !s.begun; first && len(s.rows) > 0 {
		r := &s.rows[0]
		if len(r.body) > 2*entriesMax && hasEntry(r.body, r.ts, []byte(largeEntry)) {
			return errAbandoned // it is not where its value is
		}
	}
	s.begun, s.index.First = true, nil
	if s.more {
		last := &s.rows[len(s.rows)-1]
		s.index.After = last.value
		s.q.AfterKey, s.q.AfterToken, s.q.AfterClustering = last.key, token.AtPosition(last.ring), last.clustering
		s.q.Continued, s.max = true, min(2*s.max, chunkRowsMax)
	}
	return nil
}

// Partition implements command.Visitor.
func (s *stream) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	for _, holds := range s.holds {
		if !holds(tok, key) {
			return command.NextPartition, nil
		}
	}
	s.at = place{ring: tok.Position(), key: bytes.Clone(key)}
	return command.More, nil
}

// Row implements command.Visitor.
func (s *stream) Row(clustering []byte, r *row.Row) (command.Step, error) {
	id, err := s.o.c.idOf(clustering)
	if err != nil {
		return command.Stop, err
	}
	v := scannedValue{scanned: scanned{place: s.at, stored: s.o.c.read(r), id: id}}
	v.clustering, v.body = bytes.Clone(clustering), bytes.Clone(v.body)
	v.value = valueAt(v.body, v.ts, s.o.of.prefix)
	s.rows = append(s.rows, v)
	s.bytes += len(v.body)
	if s.more = len(s.rows) >= s.max || s.bytes >= chunkBytesMax; s.more {
		return command.Stop, nil
	}
	return command.More, nil
}

// Passed implements command.Walker.
func (s *stream) Passed(_ token.Token, _ []byte, looked int) (command.Step, error) {
	if s.budget == 0 {
		return command.More, nil
	}
	if s.budget -= looked; s.budget > 0 {
		return command.More, nil
	}
	s.budget, s.spent = 1, true
	return command.Stop, nil
}

// exact reports whether all values of an entry are equal, so that it has the order of the items themselves.
func (o *ordered) exact(v *scannedValue) bool {
	if isComposite(v.value) {
		return isExactComposite(v.value)
	}
	return len(v.value) > len(o.of.prefix) && document.IsExact(v.value[len(o.of.prefix):])
}
