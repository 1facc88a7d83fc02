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

// sweepChunk is how many keys are swept while the gate is closed to writers, some 0.2 ms.
const sweepChunk = 32

// headerCheckMax bounds how many rows are looked at to see whether a deletion in a header still hides any. What is not
// decided by then is kept.
const headerCheckMax = 100_000

// ApplySweep re-reads each key and removes what is older than the horizon. It excludes writers for moments at a time. What it does
// depends on nothing but the store's content, the command and the installed table.
func (s *Store) ApplySweep(sw *command.Sweep) error {
	if err := s.writable(false); err != nil {
		return err
	}
	w := s.newSweep(sw)
	if err := w.checkHeaders(); err != nil {
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

func (s *Store) sweepChunk(w *sweep, chunk [][]byte) error {
	s.gate.Lock() // an operand that came between reading and deleting would be lost
	defer s.gate.Unlock()
	b := s.db.NewBatch()
	defer b.Close()
	if err := w.keys(b, chunk); err != nil {
		return err
	}
	err := b.Commit(pebble.NoSync)
	if w.weakens {
		w.weakens = false
		s.weakened.Add(1)
	}
	return err
}

// Sweep adds a sweep to the batch, for the application of a log. The caller applies the commands of this partition one after the other and
// has committed all that went before: the sweep reads the store, not the batch.
//
// What it removes of rows, headers and dedupe records is a function of what the store has of the partition and of the command. Which index
// entries go depends on the installed Indexes, too: they are hints.
func (b *Batch) Sweep(sw *command.Sweep) error {
	w := b.s.newSweep(sw)
	err := w.checkHeaders()
	if err == nil {
		err = w.keys(b.b, sw.Keys)
		b.weakens = b.weakens || w.weakens
	}
	if err != nil {
		return b.s.check(fmt.Errorf("sweep table %d: %w", sw.Table, err))
	}
	return nil
}

// sweep is one sweep under way.
type sweep struct {
	s     *Store
	table Table
	sw    *command.Sweep
	// clean holds the deletions of headers that hide nothing any more, as cleanKey has them.
	clean map[string]bool
	// header is that of the partition with prefix, loaded when Store.weakened was at loaded. A deletion it knows is in force, or a stronger
	// one, as long as that has not changed.
	prefix []byte
	header row.Header
	loaded uint64
	// weakens is true if the batch under way takes deletions out of headers.
	weakens bool
	buf     []byte
	merger  row.Merger
	row     row.Row
}

func (s *Store) newSweep(sw *command.Sweep) *sweep {
	w := &sweep{s: s, sw: sw, table: Table{ID: sw.Table}, clean: map[string]bool{}}
	if t := s.table(sw.Table).installed.Load(); t != nil {
		w.table = *t
	}
	return w
}

// keys sweeps some keys into a batch. Those of other tables are passed over.
func (w *sweep) keys(b *pebble.Batch, list [][]byte) error {
	for _, key := range list {
		var err error
		if keys.ID(key)&keys.IndexSpace != 0 {
			err = w.entry(b, key)
		} else if p, ok := keys.Parse(key); ok && p.Table == w.sw.Table {
			err = w.key(b, key, &p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// get returns a value, valid until the next get; nil if there is none.
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

// key sweeps a header, row or dedupe record.
func (w *sweep) key(b *pebble.Batch, key []byte, p *keys.Parts) error {
	if p.Kind == keys.Row {
		if err := w.loadHeader(key[:p.PrefixLen]); err != nil {
			return err
		}
	}
	value, err := w.get(key)
	if err != nil || value == nil {
		return err
	}
	if p.Kind == keys.Dedupe {
		if second, ok := dedupeSecond(value); ok && second >= w.sw.Horizon {
			w.s.m.sweepsKept.Add(1)
			return nil
		}
		w.s.m.swept.Add(1)
		return b.DeleteSized(key, uint32(len(value)), nil)
	}
	w.merger.Reset()
	if err := w.merger.Add(value); err != nil {
		return fmt.Errorf("key %x: %w", key, err)
	}
	var remains bool
	if p.Kind == keys.Header {
		remains = w.merger.SweepHeader(w.sw.Horizon, w.sw.Dropped, func(start, end []byte, ts int64) bool {
			return w.clean[cleanKey(key[:p.PrefixLen], start, end, ts)]
		})
	} else {
		remains = w.merger.Sweep(w.header.Covering(p.Rest), w.sw.Horizon, w.sw.Dropped)
	}
	out := w.merger.Append(nil)
	if p.Kind == keys.Header && !bytes.Equal(out, value) {
		w.weakens = true
	}
	switch {
	case !remains:
		w.s.m.swept.Add(1)
		return b.DeleteSized(key, uint32(len(value)), nil)
	case bytes.Equal(out, value):
		w.s.m.sweepsKept.Add(1)
		return nil
	}
	w.s.m.swept.Add(1)
	return b.Set(key, out, nil)
}

// prepare loads the header that the first of some keys needs, while writers need not wait for it: it may be large.
func (w *sweep) prepare(key []byte) error {
	if p, ok := keys.Parse(key); ok && p.Kind == keys.Row && p.Table == w.sw.Table {
		return w.loadHeader(key[:p.PrefixLen])
	}
	return nil
}

// loadHeader makes the header of a partition the current one, unless it is.
func (w *sweep) loadHeader(prefix []byte) error {
	now := w.s.weakened.Load()
	if len(w.prefix) > 0 && w.loaded == now && bytes.Equal(w.prefix, prefix) {
		return nil
	}
	w.loaded = now
	w.prefix = append(w.prefix[:0], prefix...)
	w.header.Clear()
	value, err := w.get(append(w.prefix, keys.Header))
	if err != nil || value == nil {
		return err
	}
	return w.header.Resolve(bytes.Clone(value), w.sw.Horizon, w.sw.Dropped)
}

// entry removes an index entry if its row no longer has the value.
func (w *sweep) entry(b *pebble.Batch, key []byte) error {
	e, ok := keys.ParseIndex(key)
	i := slices.IndexFunc(w.table.Indexes, func(x Index) bool { return x.ID == e.Index })
	if !ok || i < 0 {
		return nil
	}
	holds, err := w.holds(&w.table.Indexes[i], &e)
	if err != nil || holds {
		w.s.m.sweepsKept.Add(1)
		return err
	}
	w.s.m.swept.Add(1)
	return b.DeleteSized(key, 0, nil)
}

// holds reads the row of an index entry and asks the index whether it has the value.
func (w *sweep) holds(index *Index, e *keys.Entry) (bool, error) {
	prefix := keys.AppendPartition(nil, w.table.ID, e.Token, e.Key)
	if err := w.loadHeader(prefix); err != nil {
		return false, err
	}
	if len(e.Clustering) == 0 && w.table.Clustering > 0 {
		return w.header.Static.Exists() && index.Holds(&w.header.Static, e.Value), nil
	}
	value, err := w.get(append(append(prefix, keys.Row), e.Clustering...))
	if err != nil || value == nil {
		return false, err
	}
	exists, err := w.row.Resolve(value, w.header.Covering(e.Clustering), w.sw.Horizon, w.sw.Dropped)
	return exists && index.Holds(&w.row, e.Value), err
}

// cleanKey names a deletion in a header.
func cleanKey(prefix, start, end []byte, ts int64) string {
	return fmt.Sprintf("%x %x %x %v %d", prefix, start, end, end == nil, ts)
}

// checkHeaders finds out which deletions in the headers to be swept hide nothing any more. Only those may go: a deletion that
// went before its rows would bring them back.
func (w *sweep) checkHeaders() error {
	for _, key := range w.sw.Keys {
		p, ok := keys.Parse(key)
		if !ok || p.Kind != keys.Header || p.Table != w.sw.Table {
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
		w.merger.SweepHeader(w.sw.Horizon, nil, func(start, end []byte, ts int64) bool {
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

// hidesNothing reports whether no row of [start, end) holds anything as old as ts.
func (w *sweep) hidesNothing(prefix, start, end []byte, ts int64) (bool, error) {
	lower := append(append(bytes.Clone(prefix), keys.Row), start...)
	upper := append(bytes.Clone(prefix), keys.Dedupe)
	if end != nil {
		upper = append(append(bytes.Clone(prefix), keys.Row), end...)
	}
	it, err := w.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	seen := 0
	for it.First(); it.Valid() && err == nil; it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var hidden bool
		if hidden, err = row.Hidden(value, ts); hidden {
			break
		}
		if seen++; seen >= headerCheckMax {
			break
		}
	}
	clean := !it.Valid()
	return clean, errors.Join(err, it.Error(), it.Close())
}

// A dedupe record begins with the second at which it was written.
func dedupeSecond(value []byte) (second int64, ok bool) {
	if len(value) < 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), true
}
