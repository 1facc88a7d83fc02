// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// These are the limits for reading the term of a range. A term is skipped if it has more than 50,000 entries or more
// than termBytes of positions. An entry of another physical partition counts as a fourth of an entry.
const (
	termBudget = 200_000
	termCost   = 4
	termBytes  = 8 << 20
	termChunk  = 64 << 10
)

// termPlaces iterates over the row positions of one term in order.
type termPlaces struct {
	// These fields are used for the term of a value. They are the iterator over the entries, the lower bound, and the
	// length of the key before the position.
	it     *pebble.Iterator
	lower  []byte
	prefix int
	seek   []byte
	// These fields are used for the term of a range. They are the collected positions and the current index.
	list [][]byte
	i    int
}

// equal adds the term of a single value. none is true if the term has no positions.
func (w *termRead) equal(t *command.IndexTerm) (none bool, err error) {
	lower, upper := w.rd.entryBounds(t.Index, t.Value)
	if lower == nil || upper != nil && bytes.Compare(lower, upper) >= 0 {
		return true, nil
	}
	it, err := w.iterator(lower, upper)
	if err != nil {
		return false, err
	}
	p := &termPlaces{it: it, lower: lower, prefix: len(keys.AppendIndexValue(nil, t.Index, t.Value))}
	if err := p.begin(); err != nil {
		return false, err
	}
	w.add(t.Whole, p)
	return !it.Valid(), nil
}

// begin moves to the first position.
func (p *termPlaces) begin() error {
	if p.i = 0; p.it != nil {
		p.it.SeekPrefixGE(p.lower)
		return p.it.Error()
	}
	return nil
}

// reach moves forward to the first position at or after to and returns this position. It returns nil at the end.
func (p *termPlaces) reach(to []byte) ([]byte, error) {
	if p.it == nil {
		for step := 1; p.i < len(p.list) && bytes.Compare(p.list[p.i], to) < 0; step *= 2 {
			// The search doubles the step length and then bisects the last step.
			if next := p.i + step; next < len(p.list) && bytes.Compare(p.list[next], to) < 0 {
				p.i = next
				continue
			}
			n, _ := slices.BinarySearchFunc(p.list[p.i:min(p.i+step, len(p.list))], to, bytes.Compare)
			p.i += n
		}
		if p.i >= len(p.list) {
			return nil, nil
		}
		return p.list[p.i], nil
	}
	if !p.it.Valid() {
		return nil, p.it.Error()
	}
	if bytes.Compare(p.it.Key()[p.prefix:], to) < 0 {
		p.seek = append(append(p.seek[:0], p.lower[:p.prefix]...), to...)
		if !p.it.SeekPrefixGE(p.seek) {
			return nil, p.it.Error()
		}
	}
	return p.it.Key()[p.prefix:], nil
}

// gatherer collects the positions of a range in any order.
type gatherer struct {
	it *pebble.Iterator
	// begin and limit bound the requested positions. A nil limit is unbounded.
	begin, limit []byte
	whole        bool
	list         [][]byte
	room         []byte
	bytes        int
	budget       int
	// last is the value of the last examined entry. passed is the number of unrequested entries with this value. seek
	// is a scratch buffer.
	last, seek []byte
	passed     int
}

// ranged adds the term of a range unless the term exceeds the limits. none is true if the term has no positions.
func (w *termRead) ranged(t *command.IndexTerm) (none bool, err error) {
	lower, upper := keys.AppendIndexFrom(nil, t.Index, t.Value), keys.AppendIndexFrom(nil, t.Index, t.End)
	if bytes.Compare(lower, upper) >= 0 {
		return true, nil
	}
	c := &gatherer{whole: t.Whole, budget: termBudget}
	if c.it, err = w.iterator(lower, upper); err != nil {
		return false, err
	}
	c.begin, c.limit = w.placesLeft()
	for valid := c.it.First(); valid; {
		if c.budget <= 0 || c.bytes > termBytes {
			return false, nil
		}
		w.rd.visited++
		if err := w.rd.tick(); err != nil {
			return false, err
		}
		if valid, err = c.take(); err != nil {
			return false, err
		}
	}
	if err := c.it.Error(); err != nil || len(c.list) == 0 {
		return err == nil, err
	}
	slices.SortFunc(c.list, bytes.Compare)
	w.add(t.Whole, &termPlaces{list: slices.CompactFunc(c.list, bytes.Equal)})
	return false, nil
}

// placesLeft returns the bounds of the positions that the read may still need.
func (w *termRead) placesLeft() (begin, limit []byte) {
	begin, limit = w.span()
	if q := w.rd.r; q.AfterKey != nil {
		after := keys.AppendPosition(nil, q.AfterToken, q.AfterKey)
		if q.AfterPartition {
			after = keys.After(after)
		}
		if bytes.Compare(after, begin) > 0 {
			begin = after
		}
	}
	return begin, limit
}

// take collects the position of the entry at the iterator if the read requests this position. It then moves to the next
// entry.
func (c *gatherer) take() (valid bool, err error) {
	key := c.it.Key()
	n := keys.Split(key)
	place := key[n:]
	if len(place) < positionAndLen {
		return false, fmt.Errorf("index entry %x: %w", key, errDamage)
	}
	before := bytes.Compare(place, c.begin) < 0
	if before || c.limit != nil && bytes.Compare(place, c.limit) >= 0 {
		c.budget--
		if c.passed++; !bytes.Equal(c.last, key[:n]) {
			c.passed, c.last = 0, append(c.last[:0], key[:n]...)
		}
		if c.passed < entrySteps {
			return c.it.Next(), nil
		}
		c.passed = 0
		if c.seek = append(c.seek[:0], c.last...); before {
			return c.it.SeekGE(append(c.seek, c.begin...)), nil
		}
		c.seek = keys.After(c.seek)
		return c.seek != nil && c.it.SeekGE(c.seek), nil
	}
	c.budget -= termCost
	if c.whole {
		place = place[:partLen(place)]
	}
	if len(c.room) < len(place) {
		c.room = make([]byte, max(termChunk, len(place)))
		c.bytes += len(c.room)
	}
	kept := c.room[:len(place):len(place)]
	c.room = c.room[copy(kept, place):]
	c.list = append(c.list, kept)
	return c.it.Next(), nil
}
