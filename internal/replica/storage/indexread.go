// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// indexRead is a read of the rows of index entries.
type indexRead struct{ *reader }

// entries scans the index entries of one value, partition by partition.
type entries struct {
	it *pebble.Iterator
	// part is the prefix of the entries of the current partition.
	part []byte
	seek []byte
}

// read reads the rows that have an entry. For each partition with entries, it first reads the deletions and the static
// cells, and then the rows.
func (rd indexRead) read() (err error) {
	if len(rd.r.Index.All) > 0 {
		return rd.readTerms()
	}
	if rd.r.Index.Vector != nil {
		return rd.readANN()
	}
	if len(rd.r.Index.Any) > 0 || rd.r.Index.Ordered() {
		return rd.readEntries()
	}
	var e entries
	lower, upper := rd.entryBounds(rd.r.Index.Index, rd.r.Index.Value)
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	if e.it, err = rd.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.it.Close()) }()
	rd.s.m.iterators.Add(1)
	if err = rd.openTable(); err == nil {
		err = rd.walkEntries(&e)
	}
	return err
}

// ErrNoIndex is returned for a read that uses a dropped index or dropped vector lists. The result may lack rows. The
// caller must plan the read again with a newer schema.
var ErrNoIndex = errors.New("the index was dropped")

// checkIndexes returns ErrNoIndex if an index of the read has been dropped. The store removes the entries of an index
// only after the index has been uninstalled. A read has therefore seen all entries if the index is still installed at
// the end. An unknown index ID belongs to a newer schema, and the store contains the entries of this index.
func (rd indexRead) checkIndexes() error {
	in, next := rd.t.installed.Load(), rd.s.next.Load()
	dropped := func(id uint32) bool {
		return id&^(keys.OrderedIndex|keys.HintSpace) < next && (in == nil || in.index(id) == nil)
	}
	look := rd.r.Index
	if len(look.All) == 0 && dropped(look.Index) ||
		slices.ContainsFunc(look.All, func(t command.IndexTerm) bool { return dropped(t.Index) }) {
		return &refusal{ErrNoIndex}
	}
	return nil
}

// openTable creates the iterator over all rows of the table.
func (rd indexRead) openTable() error {
	rd.lower = keys.AppendTable(rd.lower[:0], rd.r.Table)
	rd.upper = keys.After(keys.AppendTable(rd.upper[:0], rd.r.Table))
	return rd.open()
}

// entryBounds returns the bounds of the entries that the read may need for an index value.
func (rd indexRead) entryBounds(index uint32, value []byte) (lower, upper []byte) {
	r := rd.r
	prefix := keys.AppendIndexValue(nil, index, value)
	n := len(prefix)
	if r.Key != nil {
		lower = keys.AppendPosition(prefix, r.Token, r.Key)
		return lower, keys.After(bytes.Clone(lower))
	}
	span := keys.TokenSpan(r.Table, r.Range)
	lower = append(bytes.Clone(prefix), span.Begin...)
	if upper = append(bytes.Clone(prefix), span.End...); len(span.End) == 0 {
		upper = keys.After(upper)
	}
	if r.AfterKey != nil {
		after := keys.AppendPosition(prefix[:n:n], r.AfterToken, r.AfterKey)
		if r.AfterPartition {
			after = keys.After(after)
		}
		if after == nil || bytes.Compare(after, lower) > 0 {
			lower = after
		}
	}
	return lower, upper
}

func (rd indexRead) walkEntries(e *entries) error {
	for valid := e.it.First(); valid; {
		entry, ok := keys.ParseIndex(e.it.Key())
		if !ok {
			return fmt.Errorf("index entry %x: %w", e.it.Key(), errDamage)
		}
		n := len(e.it.Key()) - len(entry.Clustering)
		e.part = append(e.part[:0], e.it.Key()[:n]...)
		rd.seek = append(rd.seek[:0], entry.Key...)
		if err := rd.begin(entry.Token, rd.seek); err != nil {
			return err
		}
		rd.pk = rd.prefix[len(rd.prefix)-len(entry.Key):]
		rd.resume = rd.r.AfterKey != nil && !rd.r.AfterPartition && entry.Token == rd.r.AfterToken &&
			bytes.Equal(rd.pk, rd.r.AfterKey)
		if err := rd.loadApart(); err != nil {
			return err
		}
		rd.visited++
		step, err := rd.visitEntries(e, len(entry.Clustering) == 0)
		if err == nil && step != command.Stop && rd.r.Key == nil {
			step, err = rd.passed()
		}
		if err != nil || step == command.Stop {
			return err
		}
		if valid = e.it.Valid() && !rd.r.Reversed && !bytes.HasPrefix(e.it.Key(), e.part); !valid {
			e.seek = keys.After(append(e.seek[:0], e.part...))
			valid = e.seek != nil && e.it.SeekGE(e.seek)
		}
	}
	return e.it.Error()
}

// loadApart loads the deletions and static cells of a partition that was found through an entry.
func (rd indexRead) loadApart() error {
	if !rd.t.may(flagDeletions) && !rd.statics() { // the iterator was created before this check
		return nil
	}
	rd.s.m.headerSeeks.Add(1)
	rd.it.SeekGE(rd.sub(keys.Deletions))
	err := errors.Join(rd.it.Error(), rd.load())
	rd.fresh = false
	return err
}

// visitEntries reads the rows of one partition that have entries. If whole is true, the entries belong to whole
// partitions, and visitEntries reads all rows of the partition.
func (rd indexRead) visitEntries(e *entries, whole bool) (command.Step, error) {
	if whole {
		return rd.partition()
	}
	var valid bool
	if rd.r.Reversed {
		e.seek = keys.After(append(e.seek[:0], e.part...))
		valid = e.seek != nil && e.it.SeekLT(e.seek)
	} else {
		valid = true
	}
	visitor, _ := rd.v.(command.EntryVisitor)
	for valid && bytes.HasPrefix(e.it.Key(), e.part) {
		clustering := e.it.Key()[len(e.part):]
		if rd.wanted(clustering) {
			if visitor != nil {
				if step, err := refused(command.More, visitor.Entry(clustering)); err != nil {
					return step, err
				}
			}
			if step, err := rd.fetch(clustering); err != nil || step != command.More {
				return step, err
			}
		}
		if rd.r.Reversed {
			valid = e.it.Prev()
		} else {
			valid = e.it.Next()
		}
	}
	return command.More, e.it.Error()
}

// wanted reports whether a clustering key is in the requested slices and after the position at which the read resumes.
func (rd indexRead) wanted(clustering []byte) bool {
	if rd.resume {
		c := bytes.Compare(clustering, rd.r.AfterClustering)
		if c == 0 || (c < 0) != rd.r.Reversed {
			return false
		}
	}
	for i := range rd.r.Slices {
		s := &rd.r.Slices[i]
		if bytes.Compare(s.Start, clustering) <= 0 && (s.End == nil || bytes.Compare(clustering, s.End) < 0) {
			return true
		}
	}
	return len(rd.r.Slices) == 0
}

// fetch reads the row of an entry if the row exists.
func (rd indexRead) fetch(clustering []byte) (command.Step, error) {
	rd.seek = append(append(rd.seek[:0], rd.prefix...), keys.Row)
	rd.seek = append(rd.seek, clustering...)
	if !rd.it.SeekGE(rd.seek) || !bytes.Equal(rd.it.Key(), rd.seek) {
		return command.More, rd.it.Error()
	}
	return rd.visit(clustering)
}

// indexBounds returns the bounds of an index.
func indexBounds(index uint32) (lower, upper []byte) {
	lower = keys.AppendTable(nil, index|keys.IndexSpace)
	return lower, keys.After(bytes.Clone(lower))
}

// entrySteps is the maximum number of entries outside a span that the iterator steps over before it seeks.
const entrySteps = 8

// eachEntry calls fn for the index entries that are within the iterator's bounds and in a span.
func eachEntry(it *pebble.Iterator, span keys.Span, fn func(key, value []byte) error) error {
	var seek []byte
	passed := 0
	for valid := it.First(); valid; {
		e, ok := keys.ParseIndex(it.Key())
		switch {
		case ok && span.Holds(e.Position()):
			passed = 0
			value, err := it.ValueAndErr()
			if err == nil {
				err = fn(it.Key(), value)
			}
			if err != nil {
				return err
			}
		case ok:
			if passed++; passed < entrySteps {
				break
			}
			passed = 0
			// The entries of a value are in ring order. The iterator therefore seeks to the start of the span, or past
			// the value.
			seek = append(append(seek[:0], it.Key()[:e.ValueLen]...), span.Begin...)
			if bytes.Compare(seek, it.Key()) <= 0 {
				if seek = keys.After(append(seek[:0], it.Key()[:e.ValueLen]...)); seek == nil {
					return it.Error()
				}
			}
			valid = it.SeekGE(seek)
			continue
		}
		valid = it.Next()
	}
	return it.Error()
}
