// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// entryRange scans the entries of a range of values. Entries with the same value are always scanned in table order.
type entryRange struct {
	*entryWalk
	it *pebble.Iterator
	// begin and limit bound the requested row positions, which are the bytes after a value. A nil limit is unbounded.
	begin, limit []byte
	// after is the position after which the read resumes within its first value. It is nil for all other values.
	after []byte
	// lower and upper bound the entries. The other fields are scratch buffers.
	lower, upper, value, prefix, seek []byte
}

// ordered reads a range of values.
func (w *entryWalk) ordered() error {
	rd := w.rd
	r := &entryRange{entryWalk: w}
	index := rd.orderedIndex()
	if index == nil {
		return &refusal{ErrNoIndex}
	}
	r.begin, r.limit = w.span()
	r.bound()
	if bytes.Compare(r.lower, r.upper) >= 0 {
		return nil
	}
	first, err := r.firstPlaces()
	if err == nil {
		r.it, err = w.iterator(r.lower, r.upper)
	}
	if err == nil {
		err = rd.openTable()
	}
	if err != nil {
		return err
	}
	if first != nil {
		rd.found = func() bool { return index.Holds(&rd.row, rd.r.Index.First) }
		if step, err := r.first(first); err != nil || step == command.Stop {
			return err
		}
	}
	rd.found = func() bool { return bytes.Equal(index.Value(&rd.row, r.value), r.value) }
	if rd.r.Reversed {
		return r.backward()
	}
	return r.forward()
}

// orderedIndex returns the installed index of the read, or nil if the index is not ordered.
func (rd indexRead) orderedIndex() *Index {
	in := rd.t.installed.Load()
	if in == nil || rd.r.Index.Index&keys.OrderedIndex == 0 {
		return nil
	}
	for i := range in.Indexes {
		if ix := &in.Indexes[i]; ix.ID == rd.r.Index.Index && ix.Value != nil {
			return ix
		}
	}
	return nil
}

// span returns the bounds of the requested row positions. A nil limit is unbounded.
func (w *entryWalk) span() (begin, limit []byte) {
	r := w.rd.r
	if r.Key != nil {
		begin = keys.AppendPosition(nil, r.Token, r.Key)
		return begin, keys.After(bytes.Clone(begin))
	}
	span := keys.TokenSpan(r.Table, r.Range)
	if len(span.End) > 0 {
		limit = span.End
	}
	return span.Begin, limit
}

// bound sets lower and upper to the bounds of the entries that the read may need.
func (r *entryRange) bound() {
	q := r.rd.r
	l := q.Index
	r.lower, r.upper = keys.AppendIndexFrom(nil, l.Index, l.Value), keys.AppendIndexFrom(nil, l.Index, l.End)
	if q.AfterKey == nil {
		return
	}
	prefix := keys.AppendIndexValue(nil, l.Index, l.After)
	r.after = append(keys.AppendPosition(nil, q.AfterToken, q.AfterKey), q.AfterClustering...)
	switch {
	case !q.Reversed:
		if at := append(append(prefix, r.after...), 0); bytes.Compare(at, r.lower) > 0 {
			r.lower = at
		}
		r.after = nil // the read resumes before the first entry
	case bytes.Compare(keys.After(bytes.Clone(prefix)), r.upper) < 0:
		r.upper = keys.After(prefix)
	}
}

// firstPlaces returns an iterator over the entries of the lookup's first value, or nil if the lookup has no first
// value.
func (r *entryRange) firstPlaces() (*pebble.Iterator, error) {
	l := r.rd.r.Index
	if l.First == nil {
		return nil, nil
	}
	prefix := keys.AppendIndexValue(nil, l.Index, l.First)
	upper := keys.After(bytes.Clone(prefix))
	if r.limit != nil {
		upper = append(bytes.Clone(prefix), r.limit...)
	}
	return r.iterator(append(prefix, r.begin...), upper)
}

// first visits one row with the lookup's first value.
func (r *entryRange) first(it *pebble.Iterator) (command.Step, error) {
	for valid := it.First(); valid; valid = it.Next() {
		e, ok := keys.ParseIndex(it.Key())
		if !ok {
			return command.Stop, fmt.Errorf("index entry %x: %w", it.Key(), errDamage)
		}
		step, err := r.row(it.Key()[e.ValueLen:])
		if err != nil || step == command.Stop || r.rd.announced {
			return step, err
		}
	}
	return command.More, it.Error()
}

// row visits the row at a position.
func (r *entryRange) row(place []byte) (command.Step, error) {
	clustering, err := r.enter(place)
	if err != nil {
		return command.Stop, err
	}
	r.rd.resume = false
	step, err := r.rd.fetch(clustering)
	if step == command.NextPartition {
		r.rd.announced = false // the partition may have more rows at later entries
	}
	return step, err
}

// forward scans in ascending order of values.
func (r *entryRange) forward() error {
	for valid := r.it.First(); valid; {
		step, err := r.entry(&valid)
		if err == nil && step != command.Stop {
			step, err = r.passed()
		}
		if err != nil || step == command.Stop {
			return err
		}
	}
	return r.it.Error()
}

// passed reports the number of examined entries to the visitor if the read is limited to one logical partition.
func (r *entryRange) passed() (command.Step, error) {
	rd := r.rd
	looked := rd.visited - rd.silent
	if rd.r.Key == nil || looked < passedEvery {
		return command.More, nil
	}
	rd.silent = rd.visited
	return refused(command.Passed(rd.v, rd.r.Token, rd.r.Key, looked))
}

// entry visits the entry at the iterator if the read requests the entry, and then moves to the next requested entry.
func (r *entryRange) entry(valid *bool) (command.Step, error) {
	rd := r.rd
	rd.visited++
	if err := rd.tick(); err != nil {
		return command.Stop, err
	}
	key := r.it.Key()
	e, ok := keys.ParseIndex(key)
	if !ok {
		return command.Stop, fmt.Errorf("index entry %x: %w", key, errDamage)
	}
	place := key[e.ValueLen:]
	switch {
	case bytes.Compare(place, r.begin) < 0:
		r.seek = append(append(r.seek[:0], key[:e.ValueLen]...), r.begin...)
		*valid = r.it.SeekGE(r.seek)
		return command.More, nil
	case r.limit != nil && bytes.Compare(place, r.limit) >= 0:
		r.seek = keys.After(append(r.seek[:0], key[:e.ValueLen]...))
		*valid = r.it.SeekGE(r.seek)
		return command.More, nil
	}
	r.value = append(r.value[:0], e.Value...)
	step, err := r.row(place)
	*valid = err == nil && step != command.Stop && r.it.Next()
	return step, err
}

// backward scans in descending order of values. It finds the last value, scans its entries forward, and continues with
// the previous value.
func (r *entryRange) backward() error {
	for valid := r.it.SeekLT(r.upper); valid; valid = r.it.SeekLT(r.prefix) {
		for single := true; single; {
			var err error
			if single, valid, err = r.single(); err != nil || !valid {
				return errors.Join(err, r.it.Error())
			}
			if step, err := r.passed(); err != nil || step == command.Stop {
				return err
			}
		}
		rd := r.rd
		if rd.visited++; rd.tick() != nil {
			return rd.ctx.Err()
		}
		e, ok := keys.ParseIndex(r.it.Key())
		if !ok {
			return fmt.Errorf("index entry %x: %w", r.it.Key(), errDamage)
		}
		r.prefix = append(r.prefix[:0], r.it.Key()[:e.ValueLen]...)
		r.seek = append(append(r.seek[:0], r.prefix...), r.begin...)
		if r.after != nil && bytes.Equal(e.Value, r.rd.r.Index.After) && bytes.Compare(r.after, r.begin) >= 0 {
			r.seek = append(append(append(r.seek[:0], r.prefix...), r.after...), 0)
		}
		for valid := r.it.SeekGE(r.seek); valid && bytes.HasPrefix(r.it.Key(), r.prefix); {
			if r.limit != nil && bytes.Compare(r.it.Key()[len(r.prefix):], r.limit) >= 0 {
				break
			}
			step, err := r.entry(&valid)
			if err != nil || step == command.Stop {
				return err
			}
		}
		if err := r.it.Error(); err != nil {
			return err
		}
	}
	return r.it.Error()
}

// single visits the entry at the iterator if the entry is the only entry of its value. It then moves to the previous
// entry, which avoids a seek. If the value has more entries, the iterator does not move. valid is false if no entry
// remains or the visitor needs no more rows.
func (r *entryRange) single() (single, valid bool, err error) {
	r.seek = append(r.seek[:0], r.it.Key()...)
	e, ok := keys.ParseIndex(r.seek)
	if !ok {
		return false, false, fmt.Errorf("index entry %x: %w", r.seek, errDamage)
	}
	if valid = r.it.Prev(); valid && bytes.HasPrefix(r.it.Key(), r.seek[:e.ValueLen]) {
		return false, r.it.Next(), r.it.Error()
	}
	r.rd.visited++
	if err := errors.Join(r.it.Error(), r.rd.tick()); err != nil {
		return false, false, err
	}
	place := r.seek[e.ValueLen:]
	r.value = append(r.value[:0], e.Value...)
	if bytes.Compare(place, r.begin) < 0 || r.limit != nil && bytes.Compare(place, r.limit) >= 0 ||
		r.after != nil && bytes.Equal(r.value, r.rd.r.Index.After) && bytes.Compare(place, r.after) <= 0 {
		return true, valid, nil
	}
	step, err := r.row(place)
	return true, valid && step != command.Stop, err
}
