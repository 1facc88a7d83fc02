// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"bytes"
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// ErrUnknown means that no physical partition of the scope has responded. Either the table was dropped, or this node
// does not yet know the table's partitions.
var ErrUnknown = errors.New("the physical partitions of the table are not known to this node")

// Entry is a change. In a feed of retained changes, Row contains the images of the row (see command.ChangeBefore). In a
// feed of latest versions, Row contains the current row.
type Entry struct {
	Token token.Token
	Key   []byte
	// Stamp is the commit stamp in microseconds. The stamps of a logical partition's changes are in ascending order.
	Stamp      int64
	Clustering []byte
	Row        row.Row
	// Static holds the current static cells of the logical partition if the query requests static cells. Otherwise,
	// Static is nil. Several entries may share Static.
	Static *row.Row
}

// Source executes the reads of a feed on behalf of a request.
type Source interface {
	// Read sends a command. If the result cannot be confirmed, Read repeats the command. It calls visitor for each
	// attempt.
	Read(ctx context.Context, q *command.Read, visitor func() command.Visitor) error
	// Holds reports whether the request reads a logical partition of the scope.
	Holds(tok token.Token, key []byte) bool
	// Late reports whether the page must end soon.
	Late() bool
}

// Reader reads pages of a feed. The caller must set the fields before it calls Page. Page advances At.
type Reader struct {
	Source Source
	// Query contains the table, the key or range of the scope, the level, the time, and the claimant.
	Query command.Read
	At    Token
	// Max is the maximum number of entries in a page. BytesMax is the approximate maximum size of a page in bytes.
	Max, BytesMax int

	entries []Entry
	size    int
	// These fields hold the state of the current chunk: the size, the last place, the static cells, whether more
	// changes follow, and the part of the ring.
	chunk  int
	last   place
	static *row.Row
	more   bool
	within keys.Span
}

// chunkMax is the maximum number of entries per read. chunkBytesMax is the maximum total size of these entries.
const (
	chunkMax      = 500
	chunkBytesMax = 1 << 20
)

// Page reads the next page and advances At. ended reports whether the page has reached the end of the feed. A page may
// be empty even if the feed has not ended.
//
// After an error, At may have advanced past pages that were not returned. The feed must then resume from the token of
// the previous page. If the token belongs to a different part of the table, Page returns ErrScope.
func (f *Reader) Page(ctx context.Context) (page []Entry, ended bool, err error) {
	f.entries, f.size = nil, 0
	scope := f.scope()
	if !f.At.scope.holds(scope) {
		return nil, false, ErrScope
	}
	f.At.scope = scope
	goesOn := f.At.until != nil
	if page, ended, err = f.round(ctx); ended && goesOn && err == nil {
		// The round began in an earlier page, so new changes may exist.
		if ended = false; len(page) == 0 {
			return f.round(ctx)
		}
	}
	return page, ended, err
}

// round continues the current round or begins a new round. ended reports whether the round has ended.
func (f *Reader) round(ctx context.Context) (page []Entry, ended bool, err error) {
	if f.At.until == nil {
		fresh := f.At.fresh()
		if f.At.until, err = f.horizons(ctx); err != nil {
			return nil, false, err
		}
		if f.At.roundAt = f.Query.Now; fresh {
			f.At.since = f.At.until
			f.At.end()
			return nil, true, nil
		}
	}
	scope := f.scope()
	at := scope.begin
	if p := f.At.place; p != nil {
		if from := (keys.Position{Ring: p.ring, Key: p.key}); from.Compare(at) >= 0 {
			at = from
		} else {
			f.At.place = nil // the position precedes the scope, which is part of the previous scope
		}
	}
	for start := at; ; {
		in, after, upto, ok := f.At.part(at, scope)
		if !ok {
			break
		}
		if at.Compare(start) > 0 && f.full() {
			f.At.place = placeAt(at)
			return f.entries, false, nil
		}
		if upto > after {
			full, err := f.part(ctx, in, after, upto)
			if err != nil || full {
				return f.entries, false, err
			}
		}
		f.At.place = nil
		if at = in.limit; at.IsZero() {
			break
		}
	}
	f.At.end()
	return f.entries, true, nil
}

// interval is a part of the ring. A zero limit represents the end of the ring.
type interval struct{ begin, limit keys.Position }

// whole reports whether the interval is the whole ring.
func (i *interval) whole() bool { return i.begin.IsZero() && i.limit.IsZero() }

// holds reports whether the interval contains another interval.
func (i *interval) holds(o interval) bool {
	return i.begin.Compare(o.begin) <= 0 && (i.limit.IsZero() || !o.limit.IsZero() && o.limit.Compare(i.limit) <= 0)
}

// scope returns the part of the ring that the query reads.
func (f *Reader) scope() interval {
	q := &f.Query
	if q.Key != nil {
		next := append(q.Key[:len(q.Key):len(q.Key)], 0)
		return interval{keys.At(q.Token, q.Key), keys.At(q.Token, next)}
	}
	return interval{keys.Position{Ring: q.Range.Begin}, keys.Position{Ring: q.Range.Limit}}
}

// horizons reads the horizons of the scope.
func (f *Reader) horizons(ctx context.Context) (marks, error) {
	q := f.Query
	q.Changes = &command.ChangesRead{Horizon: true}
	var out *marks
	err := f.Source.Read(ctx, &q, func() command.Visitor {
		out = &marks{}
		return out
	})
	if err == nil && len(*out) == 0 {
		err = ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return out.compact(), nil
}

// part reads the changes of a part of the ring. full reports whether the page must end before it reaches the end of the
// part.
func (f *Reader) part(ctx context.Context, in interval, after, upto int64) (full bool, err error) {
	q := f.Query
	q.Changes = &command.ChangesRead{After: after, Upto: upto, Kept: f.At.Kept}
	f.within = keys.Span{Table: q.Table}
	if q.Key == nil {
		f.within.Begin, f.within.End = in.begin.Boundary(q.Table), in.limit.Boundary(q.Table)
		q.Range, _ = q.Range.Intersect(f.within.Tokens())
	}
	begin := len(f.entries)
	for {
		if p := f.At.place; p != nil {
			q.AfterKey, q.AfterToken = p.key, token.AtPosition(p.ring)
			q.AfterClustering, q.AfterPartition = p.clustering, p.clustering == nil
		}
		err := f.Source.Read(ctx, &q, func() command.Visitor {
			clear(f.entries[begin:])
			f.entries, f.chunk, f.more, f.last = f.entries[:begin], 0, false, place{}
			return f
		})
		if err != nil {
			// The page contains the entries of the earlier chunks, because the client has been charged for these
			// entries.
			if f.entries = f.entries[:begin]; begin == 0 {
				return false, err
			}
			if f.At.place == nil {
				f.At.place = placeAt(in.begin)
			}
			return true, nil
		}
		begin = len(f.entries)
		f.size += f.chunk
		if !f.more {
			return false, nil
		}
		last := f.last
		f.At.place, q.Continued = &last, true
		if f.full() {
			return true, nil
		}
	}
}

// full reports whether the page must end.
func (f *Reader) full() bool {
	return len(f.entries) >= f.Max || f.size >= f.BytesMax || f.Source.Late()
}

// Partition implements command.Visitor.
func (f *Reader) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if !f.within.Holds(keys.At(tok, key)) || !f.Source.Holds(tok, key) {
		return command.NextPartition, nil
	}
	f.last = place{ring: tok.Position(), key: append([]byte{}, key...)}
	if f.static = nil; static != nil {
		copied := static.Clone()
		f.static = &copied
		f.chunk += static.Size()
	}
	return command.More, nil
}

// Row implements command.Visitor.
func (f *Reader) Row(clustering []byte, r *row.Row) (command.Step, error) {
	stamp, rest, ok := keys.ParseChange(clustering)
	if !ok {
		return command.Stop, errMalformed
	}
	f.last.clustering = bytes.Clone(clustering)
	f.entries = append(f.entries, Entry{Token: token.AtPosition(f.last.ring), Key: f.last.key, Stamp: stamp,
		Clustering: f.last.clustering[len(clustering)-len(rest):], Row: r.Clone(), Static: f.static})
	f.chunk += len(clustering) + r.Size()
	if len(f.entries) < f.Max && len(f.entries)%chunkMax != 0 && f.chunk < chunkBytesMax &&
		f.size+f.chunk < f.BytesMax {
		return command.More, nil
	}
	f.more = true
	return command.Stop, nil
}

// Passed implements command.ProgressVisitor.
func (f *Reader) Passed(tok token.Token, key []byte, _ int) (command.Step, error) {
	if !f.Source.Late() {
		return command.More, nil
	}
	f.last, f.more = place{ring: tok.Position(), key: append([]byte{}, key...)}, true
	return command.Stop, nil
}
