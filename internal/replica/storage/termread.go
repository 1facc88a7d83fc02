// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// termFew is the maximum number of rows that a read fetches without using the terms of ranges. Fetching so few rows is
// faster than scanning the terms of ranges.
const termFew = 256

// termRead reads the rows that several terms have in common, in table order. A term is a list of positions of rows or
// whole partitions. termRead may skip a term and return additional rows, because the caller checks all rows.
type termRead struct {
	*entryWalk
	// rows contains the terms of rows. parts contains the terms of whole partitions.
	rows, parts []*termPlaces
	// at is the common position of all terms. It identifies a row or, if no term contains rows, a partition. next is a
	// scratch buffer.
	at, next []byte
}

// readTerms reads the rows that the terms of an index lookup have in common.
func (rd indexRead) readTerms() error {
	w := &termRead{entryWalk: &entryWalk{rd: rd}}
	defer w.close()
	if rd.r.Reversed {
		return rd.readAll()
	}
	// The iterators over entries must be created before the iterator over rows, so that the rows of all entries are
	// visible.
	for i := range rd.r.Index.All {
		if t := &rd.r.Index.All[i]; t.End == nil && (rd.r.Key == nil || !t.Whole) {
			if none, err := w.equal(t); none || err != nil {
				return err
			}
		}
	}
	few, err := w.few()
	if err != nil {
		return err
	}
	for i := range rd.r.Index.All {
		if t := &rd.r.Index.All[i]; t.End != nil && rd.r.Key == nil && !few {
			if none, err := w.ranged(t); none || err != nil {
				return err
			}
		}
	}
	if len(w.rows)+len(w.parts) == 0 {
		return rd.readAll()
	}
	if err := rd.openTable(); err != nil {
		return err
	}
	return w.join()
}

// readAll reads all rows without an index.
func (rd indexRead) readAll() error {
	if rd.r.Key != nil {
		return rd.readPartition()
	}
	return rd.readRange()
}

// few reports whether the terms of single values have few positions in common. It then moves these terms back to their
// start.
func (w *termRead) few() (bool, error) {
	if len(w.rows)+len(w.parts) == 0 {
		return false, nil
	}
	n := 0
	ok, err := w.first()
	for ; ok && err == nil && n <= termFew; n++ {
		w.rd.visited++
		ok, err = w.behind(w.at)
	}
	if err != nil {
		return false, err
	}
	for _, t := range append(w.rows[:len(w.rows):len(w.rows)], w.parts...) {
		if err := t.begin(); err != nil {
			return false, err
		}
	}
	return n <= termFew, nil
}

func (w *termRead) add(whole bool, t *termPlaces) {
	if whole {
		w.parts = append(w.parts, t)
	} else {
		w.rows = append(w.rows, t)
	}
}

// join visits the rows that all terms have in common.
func (w *termRead) join() error {
	rd := w.rd
	ok, err := w.first()
	for ok && err == nil {
		step, failed := w.visitAt()
		if failed != nil || step == command.Stop {
			return failed
		}
		if step == command.NextPartition || len(w.rows) == 0 {
			if w.next = keys.After(append(w.next[:0], w.at[:partLen(w.at)]...)); w.next == nil {
				return nil
			}
			ok, err = w.from(w.next)
		} else {
			ok, err = w.behind(w.at)
		}
		if ok && err == nil && rd.r.Key == nil && !bytes.HasPrefix(w.at, w.place[:w.part]) {
			if step, err = rd.passed(); step == command.Stop {
				return err
			}
		}
	}
	return err
}

// visitAt visits the row at the common position, or all rows of the partition at this position.
func (w *termRead) visitAt() (command.Step, error) {
	if len(w.rows) > 0 {
		return w.visit(w.at)
	}
	rd := w.rd
	rd.visited++
	if err := rd.tick(); err != nil {
		return command.Stop, err
	}
	if _, err := w.enter(w.at); err != nil {
		return command.Stop, err
	}
	return rd.partition()
}

// first finds the first common position. It returns false at the end.
func (w *termRead) first() (bool, error) { return w.from(nil) }

// behind finds the first common position after the given position.
func (w *termRead) behind(place []byte) (bool, error) {
	w.next = append(append(w.next[:0], place...), 0)
	return w.from(w.next)
}

// from finds the first common position at or after to.
func (w *termRead) from(to []byte) (bool, error) {
	target := append(w.at[:0], to...)
	for agreed := false; !agreed; {
		w.rd.visited++ // tick must check the context even if the terms have no common positions
		if err := w.rd.tick(); err != nil {
			return false, err
		}
		agreed = true
		for _, t := range w.rows {
			place, err := t.reach(target)
			if place == nil || err != nil {
				return false, err
			}
			if !bytes.Equal(place, target) {
				target, agreed = append(target[:0], place...), false
			}
		}
		for _, t := range w.parts {
			place, err := t.reach(target[:min(len(target), partLen(target))])
			if place == nil || err != nil {
				return false, err
			}
			if part := place[:partLen(place)]; !bytes.HasPrefix(target, part) {
				target, agreed = append(target[:0], part...), false
			}
		}
	}
	w.at = target
	return true, nil
}

// partLen returns the length of the partition's part of a position. If the position is malformed, partLen returns the
// length of the position.
func partLen(place []byte) int {
	if len(place) < positionAndLen {
		return len(place)
	}
	return min(len(place), positionAndLen+int(place[positionAndLen-2])<<8+int(place[positionAndLen-1]))
}

// positionAndLen is the total length of the ring position and the length field before the partition key.
const positionAndLen = 10
