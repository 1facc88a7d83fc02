// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// reader is a Read in progress. It is pooled, and its memory is reused.
type reader struct {
	s   *Reader
	t   *table
	ctx context.Context
	r   *command.Read
	v   command.Visitor
	it  *pebble.Iterator

	opts         pebble.IterOptions
	lower, upper []byte
	lo, hi       []byte // bounds of the current slice
	seek         []byte
	row          row.Row
	current
	// apart is the iterator of cover, or nil if cover needs no iterator.
	apart *pebble.Iterator
	// visited counts keys. tick uses it to check the context at intervals. silent is the value of visited at the last
	// call of the visitor.
	visited, silent int
	version         uint64
	// checkNow makes the next tick check the context.
	checkNow   bool
	invariants invariants
	// found reports whether the current row matches its index entry. It is nil if no check is necessary.
	found func() bool
	// pinned is the Pinned that uses the reader for several reads, or nil.
	pinned *Pinned
	// expired determines which rows have expired at the second of the read.
	expired row.Expired
}

// current is the current logical partition of a read, with all data that precedes or covers its rows.
type current struct {
	// prefix is the prefix of all keys of the partition. tok and pk are the partition's token and key.
	prefix               []byte
	tok                  token.Token
	pk                   []byte
	header               row.Header
	headerBuf, staticBuf []byte
	// cover finds deleted ranges with separate keys if header.Apart reports that such ranges exist.
	cover cover
	// announced is true once the visitor has received the partition.
	announced bool
	// resume is true if the read resumes in this partition.
	resume bool
	// fresh is true while the iterator is at the first key that load has not read.
	fresh  bool
	runs   []tombstoneRun
	walked int // consecutive dead rows
	// large is the share of Options.LargeRowBytes reserved for the partition.
	large int64
}

// contextEvery is the number of keys between two checks of the context.
const contextEvery = 256

var readers = sync.Pool{New: func() any { return new(reader) }}

// Reader reads rows.
type Reader struct {
	*engine
	*rows
}

// Read passes the results of a command to the visitor. The read sees all data that was applied before the call. Read
// returns errors of the visitor unchanged.
func (s *Reader) Read(ctx context.Context, r *command.Read, v command.Visitor) error {
	return s.readFor(ctx, r, v, nil)
}

// readFor executes a read like Read. If p is not nil, p records the timestamps of the rows.
func (s *Reader) readFor(ctx context.Context, r *command.Read, v command.Visitor, p *Pinned) (err error) {
	if err := s.Err(); err != nil {
		return err
	}
	rd := readers.Get().(*reader)
	rd.s, rd.t, rd.ctx, rd.r, rd.v, rd.pinned = s, s.table(r.Table), ctx, r, v, p
	rd.visited, rd.silent, rd.resume, rd.expired = 0, 0, false, rd.t.expired(r.Now)
	rd.invariants.begin()
	ended := false
	defer func() {
		if !ended { // the visitor has panicked
			_ = rd.close()
		}
	}()
	switch {
	case r.Changes != nil:
		err = (&changeRead{reader: rd}).read()
	case r.Index != nil:
		err = indexRead{rd}.read()
		if err == nil {
			err = indexRead{rd}.checkIndexes()
		}
	case r.Key != nil:
		err = rd.readPartition()
	default:
		err = rd.readRange()
	}
	ended = true
	return s.wrapError(r.Table, errors.Join(err, rd.close()))
}

// wrapError returns the error for the caller of a read.
func (s *Reader) wrapError(table uint32, err error) error {
	if answer, ok := errors.AsType[*refusal](err); ok {
		return answer.error
	}
	if err != nil {
		return s.check(fmt.Errorf("read table %d: %w", table, err))
	}
	return nil
}

// refusal is an error of the visitor. Such an error does not indicate a fault of the store.
type refusal struct{ error }

// refused wraps an error of a visitor.
func refused(step command.Step, err error) (command.Step, error) {
	if err != nil {
		return command.Stop, &refusal{err}
	}
	return step, nil
}

func (rd *reader) closeIterators() (err error) {
	for _, it := range []*pebble.Iterator{rd.it, rd.apart} {
		if it != nil {
			err = errors.Join(err, it.Close())
		}
	}
	rd.it, rd.apart = nil, nil
	return err
}

// close closes the iterators and returns the reader to the pool. It clears references to memory that the reader does
// not own.
func (rd *reader) close() error {
	err := rd.closeIterators()
	if rd.visited > 0 {
		rd.s.m.rows.Add(uint64(rd.visited))
	}
	rd.s.large.leave(rd.large)
	rd.large = 0
	rd.s, rd.t, rd.ctx, rd.r, rd.v, rd.runs, rd.pk, rd.found, rd.pinned = nil, nil, nil, nil, nil, nil, nil, nil, nil
	rd.opts = pebble.IterOptions{}
	rd.header.Clear()
	clear(rd.header.Ranges[:cap(rd.header.Ranges)])
	clear(rd.header.Static.Cells[:cap(rd.header.Static.Cells)])
	clear(rd.row.Cells[:cap(rd.row.Cells)])
	if cap(rd.headerBuf)+cap(rd.staticBuf)+cap(rd.row.Cells)*96 <= keptMax {
		readers.Put(rd)
	}
	return err
}

// open creates the iterator over [rd.lower, rd.upper).
func (rd *reader) open() error {
	rd.version = rd.s.tombstones.version.Load() // read version before creating the iterator; see tombstoneCache
	rd.opts.LowerBound, rd.opts.UpperBound = rd.lower, rd.upper
	it, err := rd.s.db.NewIter(&rd.opts)
	if err != nil {
		return err
	}
	rd.it = it
	rd.s.m.iterators.Add(1)
	return nil
}

// begin sets the current partition. It may wait for memory if the partition has large rows.
func (rd *reader) begin(tok token.Token, pk []byte) error {
	rd.prefix = keys.AppendPartition(rd.prefix[:0], rd.r.Table, tok, pk)
	rd.tok, rd.pk = tok, pk
	rd.announced, rd.fresh, rd.walked = false, false, 0
	rd.header.Clear()
	rd.cover.begin(rd.prefix)
	rd.runs = rd.s.tombstones.find(rd.prefix, rd.version, rd.r.Now)
	rd.s.large.leave(rd.large)
	var err error
	rd.large, err = rd.s.large.enter(rd.ctx, rd.prefix)
	return err
}

// noteLarge records a row that requires much memory to read. It also makes the next tick check the context, because
// processing a large row may take long.
func (rd *reader) noteLarge(value []byte) {
	if len(value) >= largeLook {
		rd.checkNow = true
		rd.s.large.note(rd.prefix, len(value), len(rd.row.Cells))
	}
}

// statics reports whether the read needs static rows. A read that returns only partitions includes partitions that have
// only static cells.
func (rd *reader) statics() bool { return (rd.r.Statics || rd.r.NoRows) && rd.t.may(flagStatics) }

// readPartition reads one logical partition.
func (rd *reader) readPartition() error {
	deletions, statics := rd.t.may(flagDeletions), rd.statics()
	rd.version = 0 // version 0 disables the lookup of runs until the iterator exists
	if err := rd.begin(rd.r.Token, rd.r.Key); err != nil {
		return err
	}
	if in := rd.t.installed.Load(); !deletions && !statics && in != nil && in.Clustering == 0 {
		if done, err := rd.get(); done || err != nil {
			return err
		}
	}
	rd.resume = rd.r.AfterKey != nil && rd.r.AfterToken == rd.r.Token && bytes.Equal(rd.r.AfterKey, rd.r.Key)
	if err := rd.openPartition(); err != nil {
		return err
	}
	_, err := rd.partition()
	return err
}

// openPartition creates the iterator over the current partition and reads all data that precedes the rows. It must
// check the table's flags after it has created the iterator. Otherwise, it could miss the table's first deletion
// although the iterator sees rows of the same batch.
func (rd *reader) openPartition() error {
	deletions, statics := rd.t.may(flagDeletions), rd.statics()
	rd.opts.UseL6Filters = true
	rd.bound(deletions, statics)
	if err := rd.open(); err != nil {
		return err
	}
	if !deletions && rd.t.may(flagDeletions) || !statics && rd.statics() {
		deletions, statics = rd.t.may(flagDeletions), rd.statics()
		if err := rd.it.Close(); err != nil {
			return err
		}
		rd.bound(deletions, statics)
		if err := rd.open(); err != nil {
			return err
		}
	}
	rd.runs = rd.s.tombstones.find(rd.prefix, rd.version, rd.r.Now)
	if !deletions && !statics {
		return nil
	}
	rd.s.m.headerSeeks.Add(1)
	rd.seekTo(rd.lower)
	return rd.load()
}

func (rd *reader) bound(deletions, statics bool) {
	slices := rd.r.Slices
	if rd.pinned != nil {
		slices = nil // the next read may have other slices
	}
	rd.lower = append(rd.lower[:0], rd.prefix...)
	rd.upper = append(rd.upper[:0], rd.prefix...)
	switch {
	case deletions:
		rd.lower = append(rd.lower, keys.Deletions)
	case statics:
		rd.lower = append(rd.lower, keys.Static)
	default:
		if rd.lower = append(rd.lower, keys.Row); len(slices) > 0 {
			rd.lower = append(rd.lower, slices[0].Start...)
		}
	}
	if n := len(slices); n > 0 && slices[n-1].End != nil {
		rd.upper = append(append(rd.upper, keys.Row), slices[n-1].End...)
	} else {
		rd.upper = append(rd.upper, keys.Dedupe)
	}
}

// seekTo moves to the first key at or after the given key within the current partition. It skips files whose filters do
// not contain the partition.
func (rd *reader) seekTo(key []byte) bool {
	if rd.r.Table&keys.WholeKey == 0 && rd.r.Key != nil && rd.r.Index == nil {
		return rd.it.SeekPrefixGE(key)
	}
	return rd.it.SeekGE(key)
}

// get reads the row of a partition in a table without clustering columns and deletions. done is false if the table
// receives its first deletion during the call.
func (rd *reader) get() (done bool, err error) {
	if n := len(rd.r.Slices); n > 0 && len(rd.r.Slices[0].Start) > 0 {
		return true, nil
	}
	rd.seek = append(append(rd.seek[:0], rd.prefix...), keys.Row)
	rd.s.m.gets.Add(1)
	value, closer, err := rd.s.db.Get(rd.seek)
	if rd.t.may(flagDeletions) || rd.statics() {
		if err == nil {
			err = closer.Close()
		} else if errors.Is(err, pebble.ErrNotFound) {
			err = nil
		}
		return false, err
	}
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return true, nil
		}
		return false, err
	}
	rd.visited++
	if rd.pinned != nil {
		err = rd.pinned.note(nil, value, row.NotDeleted)
	}
	exists := false
	if err == nil {
		exists, err = rd.row.Resolve(value, rd.expired.Covering(value, row.NotDeleted), rd.r.Now, rd.r.Dropped)
		rd.noteLarge(value)
	}
	if err == nil && exists {
		_, err = rd.deliver(rd.seek[len(rd.seek):])
	}
	return true, errors.Join(err, closer.Close())
}

// on returns the kind of the key at the iterator. ok is false if the key belongs to another partition.
func (rd *reader) on() (kind byte, ok bool) {
	if !rd.it.Valid() {
		return 0, false
	}
	key := rd.it.Key()
	if len(key) <= len(rd.prefix) || !bytes.HasPrefix(key, rd.prefix) {
		return 0, false
	}
	return key[len(rd.prefix)], true
}

// sub returns the key of a kind in the current partition.
func (rd *reader) sub(kind byte) []byte {
	rd.seek = append(append(rd.seek[:0], rd.prefix...), kind)
	return rd.seek
}

// load reads all data that precedes the rows of the current partition. The iterator must be at the first key of the
// partition. load copies the values, because moving the iterator invalidates them.
func (rd *reader) load() error {
	kind, ok := rd.on()
	if ok && kind == keys.Deletions {
		value, err := rd.it.ValueAndErr()
		if err != nil {
			return err
		}
		rd.headerBuf = append(rd.headerBuf[:0], value...)
		if err := rd.header.Resolve(rd.headerBuf, rd.r.Now, rd.r.Dropped); err != nil {
			return err
		}
		if len(rd.header.Ranges) > 2*rd.s.together {
			rd.s.rangeCounts.note(rd.prefix, len(rd.header.Ranges))
		}
		switch {
		case rd.header.MoreRanges && rd.statics():
			rd.seekTo(rd.sub(keys.Static))
		case rd.header.MoreRanges, len(rd.r.Slices) > 0 && !rd.statics():
			return nil // the caller seeks in this case
		default:
			rd.it.Next()
		}
		kind, ok = rd.on()
	}
	if ok && kind == keys.Static {
		if rd.statics() {
			value, err := rd.it.ValueAndErr()
			if err != nil {
				return err
			}
			rd.noteLarge(value)
			rd.staticBuf = append(rd.staticBuf[:0], value...)
			if _, err := rd.header.Static.Resolve(rd.staticBuf, rd.header.Deleted, rd.r.Now, rd.r.Dropped); err != nil {
				return err
			}
		}
		rd.it.Next()
		kind, ok = rd.on()
	}
	rd.fresh = ok && kind >= keys.Row
	return rd.it.Error()
}

// deleted returns the highest timestamp of the partition and range deletions that cover a row.
func (rd *reader) deleted(clustering []byte) (int64, error) {
	ts := rd.header.Covering(clustering)
	if !rd.header.MoreRanges {
		return ts, nil
	}
	if !rd.cover.knows(clustering) {
		if rd.apart == nil {
			var err error
			if rd.apart, err = rd.it.Clone(pebble.CloneOptions{}); err != nil {
				return 0, err
			}
			rd.s.m.iterators.Add(1)
		}
		if err := rd.cover.find(rd.apart, clustering, rd.r.Reversed); err != nil {
			return 0, err
		}
	}
	return max(ts, rd.cover.deleted), nil
}

// tick checks the context every contextEvery keys and after each large row.
func (rd *reader) tick() error {
	if rd.checkNow || rd.visited%contextEvery == 0 {
		rd.checkNow = false
		return rd.ctx.Err()
	}
	return nil
}
