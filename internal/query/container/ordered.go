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
	// smallRange is the maximum number of items in a value range that is read by value. smallRangeBytes is their
	// maximum total size.
	smallRange      = 2000
	smallRangeBytes = 8 << 20
	// orderedMax is the maximum number of items read in value order before the query scans and sorts. When this limit
	// is reached, the filter has rejected nearly all items.
	orderedMax = 20_000
	// keyLooksMax is the approximate number of entries of other logical partitions that a read skips before it reads
	// the requested partition completely.
	keyLooksMax = 4000
	// streamsMax is the maximum number of physical partitions whose items are merged in value order.
	streamsMax = 64
)

// errAbandoned ends a read by value. The caller must find the items without the index.
var errAbandoned = errors.New("container: index read abandoned")

// interval is a value range of the entries of a path or a composite index.
type interval struct {
	prefix   []byte // prefix of all entries of the path
	from, to []byte
	// fixed is the number of leading properties of a composite index that have a single value. pinned reports whether
	// these properties include the partition key.
	fixed  int
	pinned bool
	// small reports whether the interval represents a complete read of the logical partitions, if they are small,
	// instead of a value range.
	small bool
	// sorts reports whether the query sorts by the values. descending reports whether the greatest value comes first.
	sorts, descending bool
}

// ordered reads the items of an interval and merges the physical partitions.
type ordered struct {
	e       *Engine
	c       *Container
	of      interval
	streams []*stream
	charge  ru.Units
	// read is set if data has been read and charged.
	read bool
	// partitions holds the container's physical partitions at the start of the read.
	partitions []*topology.Partition
}

// stream reads the items of one physical partition. stream implements command.Visitor.
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
	// budget is the approximate number of entries that may still be skipped; an initial value of 0 means unlimited.
	// spent reports whether the budget is exhausted.
	budget int
	spent  bool
}

// scannedValue is an item with the value by which it was found.
type scannedValue struct {
	scanned
	value []byte
}

// newOrdered starts a read of scopes in value order. The first read of each physical partition returns up to first
// items.
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

// add adds a stream for the partitions of a scan.
func (o *ordered) add(x *scan, of interval, index uint32, first int) *stream {
	s := &stream{o: o, q: x.q, more: true, max: min(max(first+1, chunkRowsLeast), chunkRowsMax)}
	s.holds = append(s.holds, x.holds)
	s.index = command.IndexLookup{Index: index, Value: of.from, End: of.to, First: []byte(largeEntry)}
	s.q.Index, s.q.Reversed = &s.index, of.descending
	o.streams = append(o.streams, s)
	return s
}

// next returns the next item, or nil at the end. The item is valid until the next call.
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

// compare defines the order of the items.
func (o *ordered) compare(a, b *scannedValue) int {
	n := bytes.Compare(a.value, b.value)
	if o.of.descending {
		n = -n
	}
	return cmp.Or(n, bytes.Compare(a.append(nil), b.append(nil)))
}

// fetch reads the next items of a physical partition. If a partition moves during the read, the order is lost.
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
			return errAbandoned // The value of this entry does not determine the order of the item.
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

// Passed implements command.ProgressVisitor.
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

// exact reports whether all items with the same entry value have equal property values. If so, the entries are in the
// order of the items.
func (o *ordered) exact(v *scannedValue) bool {
	if isComposite(v.value) {
		return isExactComposite(v.value)
	}
	return len(v.value) > len(o.of.prefix) && document.IsExact(v.value[len(o.of.prefix):])
}
