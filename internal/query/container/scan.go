// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// These are limits of a single read.
const (
	chunkRowsMax   = 500
	chunkRowsLeast = 16
	chunkBytesMax  = 1 << 20
)

// place is the position of an item in its container. Encoded places have the same sort order as the items.
type place struct {
	ring       uint64
	key        []byte
	clustering []byte
}

// append appends the encoded place.
func (p *place) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.ring)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.key)))
	return append(append(dst, p.key...), p.clustering...)
}

// parsePlace decodes the output of append.
func parsePlace(s string) (p place, ok bool) {
	if len(s) < 10 {
		return p, false
	}
	b := []byte(s)
	p.ring = binary.BigEndian.Uint64(b)
	n := int(binary.BigEndian.Uint16(b[8:]))
	if b = b[10:]; len(b) < n {
		return p, false
	}
	p.key, p.clustering = b[:n:n], b[n:]
	return p, true
}

// scanned is an item that a scan has found.
type scanned struct {
	place
	stored
	id string
}

// scan reads the items of a scope in order, in chunks.
type scan struct {
	e *Engine
	c *Container
	q command.Read
	// within filters the logical partitions of the scope.
	within within
	// from is the place of the first item to read. If it is nil, the scan begins at the start of the scope.
	from   *place
	charge ru.Units
	// until is the time limit of a search through empty space.
	until time.Time

	rows  []scanned
	bytes int
	// pushdownPlan adds pushdown to the reads of a page, or is nil. partials holds the partial results of the last
	// read. failed reports whether an aggregation was not executed.
	pushdownPlan *pushdownPlan
	page         *Page
	partials     []partial
	failed       bool
	// at is the current logical partition. more reports whether more items may follow the items in rows.
	at   place
	more bool
	max  int
}

// newScan starts a scan at a place, or at the beginning if from is empty.
func (e *Engine) newScan(c *Container, s *Scope, from string, o *RequestOptions) (*scan, error) {
	if bad := e.restored(c); bad != nil {
		return nil, bad
	}
	x := &scan{e: e, c: c, more: true, max: chunkRowsMax, until: e.opts.Sched.Now().Add(e.opts.QueryTime)}
	x.q = command.Read{Table: c.table.ID, Level: dberr.Quorum, Now: e.opts.Clock.Wall().Unix(), Principal: o.Claimant}
	if from != "" {
		p, ok := parsePlace(from)
		if !ok {
			return nil, Errorf(400, 0, "The continuation is invalid.")
		}
		x.from = &p
	}
	if err := x.narrow(s); err != nil {
		return nil, err
	}
	if x.from != nil && !x.resume() {
		x.more = false
	}
	return x, nil
}

// If by is not nil, the scan reads only the items that the index finds. The first chunk has up to first items, and
// later chunks are larger.
func (x *scan) by(l *command.IndexLookup, first int) {
	x.q.Index = l
	x.max = min(max(first+1, chunkRowsLeast), chunkRowsMax)
}

// narrow converts a scope to a read and a filter on logical partitions.
func (x *scan) narrow(s *Scope) error {
	d := x.c.Definition
	if len(s.Key) == len(d.Paths) {
		x.q.Key = epk.AppendKey(nil, s.Key)
		x.q.Token = x.c.table.Token(x.q.Key)
	}
	if s.hasID {
		x.q.Slices = []command.Slice{x.c.sliceOf(s.id)}
	}
	tokens := token.Full
	if s.Range != "" {
		p, err := x.e.partitionOf(x.c, s.Range)
		if err != nil {
			return err
		}
		tokens = p.Span.Tokens()
		x.within.spans = append(x.within.spans, p.Span)
	}
	ranges := []epk.Range{}
	if len(s.Key) > 0 && len(s.Key) < len(d.Paths) {
		ranges = append(ranges, d.Hash.Prefix(s.Key))
	}
	if s.MinEPK != "" || s.MaxEPK != "" {
		r, err := epk.ParseRange(s.MinEPK, s.MaxEPK)
		if err != nil {
			return Errorf(400, 0, "%v", err)
		}
		ranges = append(ranges, r)
	}
	for _, r := range ranges {
		in, some := d.Hash.Tokens(r)
		if some {
			tokens, some = tokens.Intersect(in)
		}
		if !some {
			x.more = false
			return nil
		}
		x.within.ranges = append(x.within.ranges, r)
	}
	if x.q.Key == nil {
		x.q.Range = tokens
	} else if !tokens.Contains(x.q.Token) || !x.holds(x.q.Token, x.q.Key) {
		x.more = false
	}
	return nil
}

// holds reports whether a logical partition is in the scope.
func (x *scan) holds(tok token.Token, key []byte) bool {
	return x.within.holds(x.c.Definition, tok, key)
}

// resume positions the scan at from. Every clustering key ends with the least possible byte. Therefore, the first key
// that is strictly greater than the key without that byte is the key of the item itself. resume returns false if the
// scan cannot find any items.
func (x *scan) resume() bool {
	f := x.from
	before := f.clustering
	if n := len(before); n > 0 {
		before = before[:n-1]
	}
	if x.q.Key != nil {
		if string(f.key) != string(x.q.Key) {
			return f.ring < x.q.Token.Position()
		}
		switch s := x.q.Slices; {
		case len(s) == 0:
			x.q.Slices = []command.Slice{{Start: before}}
		case bytes.Compare(s[0].Start, f.clustering) < 0:
			return false // The only item of the scope precedes that place.
		}
		return true
	}
	tok := token.AtPosition(f.ring)
	if f.ring < x.q.Range.Begin {
		return true
	}
	if !x.q.Range.Contains(tok) {
		return false
	}
	x.q.AfterKey, x.q.AfterToken, x.q.AfterClustering = f.key, tok, before
	return true
}

// next reads the next items into x.rows, or partial results into x.partials. Both lists may be empty before the end.
func (x *scan) next(ctx context.Context) error {
	x.offered()
	x.begin()
	var charge ru.Units
	err := x.e.read(ctx, &x.q, &charge, x.begin)
	if err == nil && !x.checkPushdown() {
		return x.next(ctx) // read the rows instead; a failed aggregation is not charged
	}
	x.charge += charge
	if len(x.q.Slices) > 0 && x.q.Slices[0].End != nil {
		x.more = false // The scope contains a single item.
	}
	if err != nil || !x.more {
		return err
	}
	x.q.Continued = true
	x.max = min(2*x.max, chunkRowsMax)
	after := x.at
	if x.q.Key != nil {
		x.q.Slices = []command.Slice{{Start: append(after.clustering[:len(after.clustering):len(after.clustering)], 0)}}
		return nil
	}
	x.q.AfterKey, x.q.AfterToken = after.key, token.AtPosition(after.ring)
	x.q.AfterClustering, x.q.AfterPartition = after.clustering, after.clustering == nil
	return nil
}

// begin discards the results of an earlier attempt.
func (x *scan) begin() command.Visitor {
	x.rows, x.partials, x.bytes, x.more, x.failed = x.rows[:0], x.partials[:0], 0, false, false
	return x
}

// Partition implements command.Visitor.
func (x *scan) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if !x.holds(tok, key) {
		return command.NextPartition, nil
	}
	x.at = place{ring: tok.Position(), key: append([]byte(nil), key...)}
	return command.More, nil
}

// Row implements command.Visitor.
func (x *scan) Row(clustering []byte, r *row.Row) (command.Step, error) {
	id, err := x.c.idOf(clustering)
	if err != nil {
		return command.Stop, err
	}
	s := scanned{place: x.at, stored: x.c.read(r), id: id}
	s.clustering = append([]byte(nil), clustering...)
	s.body = append([]byte(nil), s.body...)
	x.rows = append(x.rows, s)
	if x.bytes += len(s.body) + len(id); len(x.rows) < x.max && x.bytes < chunkBytesMax {
		return command.More, nil
	}
	x.at, x.more = s.place, true
	return command.Stop, nil
}

// Passed implements command.ProgressVisitor.
func (x *scan) Passed(tok token.Token, key []byte, _ int) (command.Step, error) {
	if x.e.opts.Sched.Now().Before(x.until) {
		return command.More, nil
	}
	x.at, x.more = place{ring: tok.Position(), key: append([]byte(nil), key...)}, true
	return command.Stop, nil
}

// behind returns the place immediately after the last item read.
func (x *scan) behind() *place {
	p := x.at
	if len(p.clustering) > 0 {
		p.clustering = append(p.clustering[:len(p.clustering):len(p.clustering)], 0)
	}
	return &p
}

// late reports whether the page must end because its time limit is reached.
func (x *scan) late() bool { return x.e.opts.Sched.Now().After(x.until) }

// item returns the client view of an item.
func (x *scan) item(s *scanned) *Item { return x.c.item(s.key, s.id, &s.stored) }
