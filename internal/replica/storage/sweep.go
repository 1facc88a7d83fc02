// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// sweepChunk is the maximum number of keys that are swept while writers are blocked. Sweeping a chunk takes about 0.2
// ms.
const sweepChunk = 32

// cleanCheckMax is the maximum number of rows that a sweep examines to determine whether a deletion still hides a row.
// The sweep keeps the deletion if it reaches this limit.
const cleanCheckMax = 100_000

// ApplySweep re-reads each key and removes data older than the horizon. It excludes writers for short periods. The
// effect depends only on the content of the store, the command, and the installed table.
func (s *Writer) ApplySweep(sw *command.Sweep) error {
	if err := s.writable(false); err != nil {
		return err
	}
	w := s.newSweep(sw)
	defer w.close()
	if err := w.checkDeletions(); err != nil {
		return s.check(fmt.Errorf("sweep table %d: %w", sw.Table, err))
	}
	for chunk := range slices.Chunk(sw.Keys, sweepChunk) {
		err := w.prepare(chunk[0])
		if err == nil {
			err = s.sweepChunk(w, chunk)
		}
		if err != nil {
			return s.check(fmt.Errorf("sweep table %d: %w", sw.Table, err))
		}
	}
	return nil
}

func (s *Writer) sweepChunk(w *sweep, chunk [][]byte) error {
	s.commitMu.Lock() // an operand added between the read and the delete would be lost
	defer s.commitMu.Unlock()
	b := s.db.NewBatch()
	defer b.Close()
	if err := w.keys(b, chunk); err != nil {
		return err
	}
	removes := b.Count() > 0
	err := b.Commit(pebble.NoSync)
	if removes {
		s.noteSwept()
	}
	if w.weakens {
		w.weakens = false
		s.weakened.Add(1)
	}
	return err
}

// Sweep adds a sweep from a replica log to the batch. The caller must have committed all previous commands of the
// partition, because the sweep reads the store instead of the batch.
//
// The removed data depends only on the command and the partition's data in the store.
func (b *Batch) Sweep(sw *command.Sweep) error {
	w := b.s.newSweep(sw)
	defer w.close()
	err := w.checkDeletions()
	if err == nil {
		before := b.b.Count()
		err = w.keys(b.b, sw.Keys)
		b.sweeps = b.sweeps || b.b.Count() > before
		b.weakens = b.weakens || w.weakens
	}
	if err != nil {
		return b.s.check(fmt.Errorf("sweep table %d: %w", sw.Table, err))
	}
	return nil
}

// sweep is a sweep in progress.
type sweep struct {
	s     *rows
	known *table
	table Table
	sw    *command.Sweep
	// clean contains the deletions that no longer hide data, in the encoding of cleanKey. spreadOut contains the
	// partitions whose ranges this sweep has moved to separate keys.
	clean, spreadOut map[string]bool
	// header contains the deletions of the partition with the given prefix. loaded is the value of rows.weakened when
	// header was loaded. While rows.weakened has this value, every known deletion, or a stronger deletion, is still in
	// effect. cover finds the partition's ranges with separate keys, and apart is the iterator of cover.
	prefix []byte
	header row.Header
	loaded uint64
	cover  cover
	apart  *pebble.Iterator
	// weakens is true if the current batch removes deletions.
	weakens bool
	buf     []byte
	// reads is the iterator for looking up the rows of change log entries, or nil.
	reads  *pebble.Iterator
	at     []byte
	merger row.Merger
	row    row.Row
}

func (s *rows) newSweep(sw *command.Sweep) *sweep {
	w := &sweep{s: s, sw: sw, known: s.table(sw.Table), table: Table{ID: sw.Table}, clean: map[string]bool{},
		spreadOut: map[string]bool{}}
	if t := w.known.installed.Load(); t != nil {
		w.table = *t
	}
	return w
}

// keys adds sweeps of the given keys to a batch. It ignores keys of other tables.
func (w *sweep) keys(b *pebble.Batch, list [][]byte) error {
	for _, key := range list {
		if p, ok := keys.Parse(key); ok && p.Table == w.sw.Table {
			if err := w.key(b, key, &p); err != nil {
				return err
			}
		} else if entry, stamp, ok := keys.ParseHintRemoval(key); ok {
			if err := w.settle(b, entry, stamp); err != nil {
				return err
			}
		}
	}
	return nil
}

// get returns the value of a key, or nil if the key does not exist. The value is valid until the next call of get.
func (w *sweep) get(key []byte) ([]byte, error) {
	value, closer, err := w.s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.buf = append(w.buf[:0], value...)
	return w.buf, closer.Close()
}

// key sweeps one key of a partition.
func (w *sweep) key(b *pebble.Batch, key []byte, p *keys.Parts) error {
	prefix := key[:p.PrefixLen]
	covered := row.NotDeleted
	if w.known.may(flagDeletions) && (p.Kind == keys.Row || p.Kind == keys.Static) {
		if err := w.loadHeader(prefix); err != nil {
			return err
		}
		if covered = w.header.Deleted; p.Kind == keys.Row {
			var err error
			if covered, err = w.covering(p.Rest); err != nil {
				return err
			}
		}
	}
	if p.Kind == keys.Latest {
		return w.sweepLatest(b, key, p)
	}
	value, err := w.get(key)
	if err != nil || value == nil {
		return err
	}
	w.merger.Reset()
	switch p.Kind {
	case keys.Change:
		return w.sweepKept(b, key, value)
	case keys.Deletions:
		return w.deletions(b, key, value, p)
	case keys.Range:
		if w.spreadOut[string(prefix)] {
			return nil // the batch may have replaced the value
		}
		if err := w.merger.Add(value); err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
		return w.put(b, key, value, w.merger.SweepDeletions(w.sw.Horizon, w.isClean(prefix)))
	case keys.Static, keys.Row:
		if err := w.merger.Add(value); err != nil {
			return fmt.Errorf("key %x: %w", key, err)
		}
		covered = w.sw.Expired.Covering(value, covered)
		remains := w.merger.Sweep(covered, w.sw.Horizon, w.sw.Dropped)
		w.checkSwept(key, value, covered, remains)
		return w.put(b, key, value, remains)
	case keys.Dedupe:
		if second, ok := dedupeSecond(value); !ok || second < w.sw.Horizon {
			w.s.m.swept.Add(1)
			return b.DeleteSized(key, uint32(len(value)), nil)
		}
	}
	w.s.m.sweepsKept.Add(1)
	return nil
}

// put replaces a value with the result of the merger or deletes the key.
func (w *sweep) put(b *pebble.Batch, key, value []byte, remains bool) error {
	out := w.merger.Append(nil)
	if bytes.Equal(out, value) && remains {
		w.s.m.sweepsKept.Add(1)
		return nil
	}
	kind := key[keys.PartitionLen(key)]
	w.weakens = w.weakens || kind == keys.Deletions || kind == keys.Range
	w.s.m.swept.Add(1)
	if !remains {
		return b.DeleteSized(key, uint32(len(value)), nil)
	}
	return b.Set(key, out, nil)
}

// isClean returns a function that reports whether a deletion hides no data, according to checkDeletions.
func (w *sweep) isClean(prefix []byte) func(start, end []byte, ts int64) bool {
	return func(start, end []byte, ts int64) bool { return w.clean[cleanKey(prefix, start, end, ts)] }
}

// covering returns the highest timestamp of a deletion that covers a row of the current partition.
func (w *sweep) covering(clustering []byte) (int64, error) {
	ts := w.header.Covering(clustering)
	if !w.header.MoreRanges {
		return ts, nil
	}
	if w.apart == nil {
		lower, upper := rangeBounds(w.prefix)
		var err error
		if w.apart, err = w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
			return 0, err
		}
	}
	if !w.cover.knows(clustering) {
		if err := w.cover.find(w.apart, clustering, false); err != nil {
			return 0, err
		}
	}
	return max(ts, w.cover.deleted), nil
}

func (w *sweep) close() {
	if w.apart != nil {
		_ = w.s.check(w.apart.Close())
		w.apart = nil
	}
}

// end closes the sweep and the iterator reads.
func (w *sweep) end() {
	w.close()
	if w.reads != nil {
		_ = w.s.check(w.reads.Close())
		w.reads = nil
	}
}

// prepare loads the deletions of a key's partition before writers are blocked.
func (w *sweep) prepare(key []byte) error {
	if p, ok := keys.Parse(key); ok && p.Kind == keys.Row && p.Table == w.sw.Table && w.known.may(flagDeletions) {
		return w.loadHeader(key[:p.PrefixLen])
	}
	return nil
}

// loadHeader loads the deletions of a partition unless they are already loaded.
func (w *sweep) loadHeader(prefix []byte) error {
	now := w.s.weakened.Load()
	if len(w.prefix) > 0 && w.loaded == now && bytes.Equal(w.prefix, prefix) {
		return nil
	}
	w.close()
	w.loaded = now
	w.prefix = append(w.prefix[:0], prefix...)
	w.cover.begin(prefix)
	w.header.Clear()
	value, err := w.get(append(w.prefix, keys.Deletions))
	if err != nil || value == nil {
		return err
	}
	return w.header.Resolve(bytes.Clone(value), w.sw.Horizon, w.sw.Dropped)
}

// holds reports whether the row of an index entry has the entry's value.
func (w *sweep) holds(index *Index, e *keys.Entry) (bool, error) {
	prefix := keys.AppendPartition(nil, w.table.ID, e.Token, e.Key)
	if err := w.loadHeader(prefix); err != nil {
		return false, err
	}
	covered, key := w.header.Deleted, append(prefix, keys.Static)
	if len(e.Clustering) > 0 || w.table.Clustering == 0 {
		var err error
		if covered, err = w.covering(e.Clustering); err != nil {
			return false, err
		}
		key = append(append(prefix, keys.Row), e.Clustering...)
	}
	value, err := w.get(key)
	if err != nil || value == nil {
		return false, err
	}
	exists, err := w.row.Resolve(value, w.sw.Expired.Covering(value, covered), w.sw.Horizon, w.sw.Dropped)
	return exists && index.Holds(&w.row, e.Value), err
}

// cleanKey encodes a deletion as a key of the map clean.
func cleanKey(prefix, start, end []byte, ts int64) string {
	return fmt.Sprintf("%x %x %x %v %d", prefix, start, end, end == nil, ts)
}

// checkDeletions determines which deletions of the sweep no longer hide data. The sweep removes only these deletions,
// because the rows hidden by a removed deletion would become visible again.
func (w *sweep) checkDeletions() error {
	for _, key := range w.sw.Keys {
		p, ok := keys.Parse(key)
		if !ok || p.Kind != keys.Deletions && p.Kind != keys.Range || p.Table != w.sw.Table {
			continue
		}
		value, err := w.get(key)
		if err != nil {
			return err
		}
		if value == nil {
			continue
		}
		w.merger.Reset()
		if err := w.merger.Add(bytes.Clone(value)); err != nil {
			return err
		}
		var failed error
		w.merger.SweepDeletions(w.sw.Horizon, func(start, end []byte, ts int64) bool {
			clean, err := w.hidesNothing(key[:p.PrefixLen], start, end, ts)
			if failed = errors.Join(failed, err); clean && err == nil {
				w.clean[cleanKey(key[:p.PrefixLen], start, end, ts)] = true
			}
			return false
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// hidesNothing reports whether no row of [start, end) has data with a timestamp up to ts. If both bounds are nil,
// hidesNothing checks the whole partition, including its static row.
func (w *sweep) hidesNothing(prefix, start, end []byte, ts int64) (bool, error) {
	hidden, all, err := w.hidden(prefix, start, end, ts, 1)
	return all && len(hidden) == 0, err
}

// hidden returns the keys of up to limit rows of [start, end) that have data with a timestamp up to ts. If both bounds
// are nil, hidden examines the whole partition, including its static row. all is false if hidden may have missed rows.
func (w *sweep) hidden(prefix, start, end []byte, ts int64, limit int) (found [][]byte, all bool, err error) {
	lower := append(append(bytes.Clone(prefix), keys.Row), start...)
	if start == nil && end == nil {
		lower = append(bytes.Clone(prefix), keys.Static)
	}
	upper := append(bytes.Clone(prefix), keys.Dedupe)
	if end != nil {
		upper = append(append(bytes.Clone(prefix), keys.Row), end...)
	}
	it, err := w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, false, err
	}
	seen := 0
	for it.First(); it.Valid() && err == nil && seen < cleanCheckMax && len(found) < limit; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var hidden bool
		if hidden, err = row.Hidden(value, ts); hidden {
			found = append(found, bytes.Clone(it.Key()))
		}
		seen++
	}
	all = !it.Valid()
	return found, all, errors.Join(err, it.Error(), it.Close())
}

// dedupeSecond returns the second at which a dedupe record was written.
func dedupeSecond(value []byte) (second int64, ok bool) {
	if len(value) < 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), true
}
