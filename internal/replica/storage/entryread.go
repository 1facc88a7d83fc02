// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// readEntries reads the rows that have one of several values or a value in a range.
func (rd indexRead) readEntries() error {
	w := &entryWalk{rd: rd}
	defer w.close()
	if rd.r.Index.Ordered() {
		return w.ordered()
	}
	// The iterators over entries must be created before the iterator over rows, so that the rows of all entries are
	// visible.
	for _, values := range rd.r.Index.Any {
		if err := w.open(values); err != nil {
			return err
		}
	}
	if err := rd.openTable(); err != nil {
		return err
	}
	return w.union()
}

// entryWalk scans the entries of several values.
type entryWalk struct {
	rd  indexRead
	of  []*allOf
	its []*pebble.Iterator
	// place is the position of the current row. It consists of the ring position, the partition key, and the clustering
	// key, in the encoding of an entry.
	place []byte
	// part is the length of the partition's position in place, or 0 before the first row.
	part int
}

// allOf scans the entries of several values in parallel to find the rows that have all of these values.
type allOf struct {
	of []valueEntries
	// place is the position of the next row with all values, or nil at the end.
	place []byte
}

// valueEntries scans the entries of one value. Its iterator skips files whose filters do not contain the value.
type valueEntries struct {
	it     *pebble.Iterator
	prefix int
	seek   []byte
}

func (w *entryWalk) close() {
	for _, it := range w.its {
		_ = it.Close() // iterator errors have been checked
	}
}

func (w *entryWalk) iterator(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := w.rd.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper, UseL6Filters: true})
	if err != nil {
		return nil, err
	}
	w.its = append(w.its, it)
	w.rd.s.m.iterators.Add(1)
	return it, nil
}

// open adds a scan for the rows that have all of the given values.
func (w *entryWalk) open(values [][]byte) error {
	a := &allOf{}
	for _, v := range values {
		lower, upper := w.rd.entryBounds(w.rd.r.Index.Index, v)
		if lower == nil || upper != nil && bytes.Compare(lower, upper) >= 0 {
			return nil
		}
		it, err := w.iterator(lower, upper)
		if err != nil {
			return err
		}
		if !it.SeekPrefixGE(lower) {
			return it.Error()
		}
		a.of = append(a.of, valueEntries{it: it,
			prefix: len(keys.AppendIndexValue(nil, w.rd.r.Index.Index, v))})
	}
	if len(a.of) > 0 {
		w.of = append(w.of, a)
	}
	return a.settle()
}

func (e *valueEntries) place() []byte { return e.it.Key()[e.prefix:] }

// reach moves to the first entry at or after a position. It returns false at the end.
func (e *valueEntries) reach(place []byte) bool {
	if bytes.Compare(e.place(), place) >= 0 {
		return true
	}
	e.seek = append(append(e.seek[:0], e.it.Key()[:e.prefix]...), place...)
	return e.it.SeekPrefixGE(e.seek)
}

// settle moves all scans to their next common position.
func (a *allOf) settle() error {
	a.place = nil
	for i := range a.of {
		if e := &a.of[i]; !e.it.Valid() {
			return e.it.Error()
		}
	}
	if len(a.of) == 0 {
		return nil
	}
	for i, same := 0, 1; same < len(a.of); {
		// The scan that moved last is at the highest position.
		target := a.of[i].place()
		i = (i + 1) % len(a.of)
		e := &a.of[i]
		if !e.reach(target) {
			return e.it.Error()
		}
		if bytes.Equal(e.place(), target) {
			same++
		} else {
			same = 1
		}
	}
	a.place = a.of[0].place()
	return nil
}

// next moves past the current position.
func (a *allOf) next() error {
	a.of[0].it.Next()
	return a.settle()
}

// union visits each row of all alternatives once, in table order.
func (w *entryWalk) union() error {
	for {
		var least []byte
		for _, a := range w.of {
			if a.place != nil && (least == nil || bytes.Compare(a.place, least) < 0) {
				least = a.place
			}
		}
		if least == nil {
			return nil
		}
		step, err := w.visit(least)
		if err != nil || step == command.Stop {
			return err
		}
		for _, a := range w.of { // w.place is a copy because moving the iterator invalidates least
			for a.place != nil && w.passed(a.place, step) {
				if err := a.next(); err != nil {
					return err
				}
			}
		}
	}
}

// passed reports whether a scan may skip a position after the visitor's result for the current position.
func (w *entryWalk) passed(place []byte, step command.Step) bool {
	if step == command.NextPartition {
		return bytes.HasPrefix(place, w.place[:w.part])
	}
	return bytes.Equal(place, w.place)
}

// visit visits the row at a position. It first announces the partition if the partition is new.
func (w *entryWalk) visit(place []byte) (command.Step, error) {
	rd := w.rd
	rd.visited++
	if err := rd.tick(); err != nil {
		return command.Stop, err
	}
	clustering, err := w.enter(place)
	if err != nil || !rd.wanted(clustering) {
		return command.More, err
	}
	return rd.fetch(clustering)
}

// enter sets the current position and the reader's current partition.
func (w *entryWalk) enter(place []byte) (clustering []byte, err error) {
	rd := w.rd
	if w.part > 0 && len(place) >= w.part && bytes.Equal(place[:w.part], w.place[:w.part]) {
		w.place = append(w.place[:0], place...)
		return w.place[w.part:], nil
	}
	e, ok := keys.ParseIndexRow(place)
	if !ok {
		return nil, fmt.Errorf("index entry %x: %w", place, errDamage)
	}
	w.place = append(w.place[:0], place...)
	w.part = len(place) - len(e.Clustering)
	rd.seek = append(rd.seek[:0], e.Key...)
	if err := rd.begin(e.Token, rd.seek); err != nil {
		return nil, err
	}
	rd.pk = rd.prefix[len(rd.prefix)-len(e.Key):]
	rd.resume = rd.r.AfterKey != nil && !rd.r.AfterPartition && e.Token == rd.r.AfterToken &&
		bytes.Equal(rd.pk, rd.r.AfterKey)
	return w.place[w.part:], rd.loadApart()
}
