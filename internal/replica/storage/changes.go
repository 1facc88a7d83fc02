// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// The change log (RFC 0024) is stored after the rows of each logical partition. An entry either refers to the current
// row or contains a kept change. Entries are never merged, because each entry is written once and then removed.
//
// Every block of every table on disk records the range of timestamps of its entries. A search for changes after a
// timestamp therefore skips nearly all older entries.

// changesProperty is the name of the block property. Tables that older builds wrote do not have this property and are
// read completely.
const changesProperty = "ilion.changes"

// changeStamps maps a change log key to its timestamp. Other keys have no timestamp.
type changeStamps struct{}

// MapPointKey implements sstable.IntervalMapper. It includes the tombstones of removed entries, because a read must see
// an entry together with its tombstone.
func (changeStamps) MapPointKey(key sstable.InternalKey, _ []byte) (i sstable.BlockInterval, err error) {
	n := keys.PartitionLen(key.UserKey)
	if n == 0 || n >= len(key.UserKey) || key.UserKey[n] != keys.Latest && key.UserKey[n] != keys.Change {
		return i, nil
	}
	if stamp, _, ok := keys.ParseChange(key.UserKey[n+1:]); ok {
		i.Lower, i.Upper = uint64(stamp), uint64(stamp)+1
	}
	return i, nil
}

// MapRangeKeys implements sstable.IntervalMapper. The store has no range keys.
func (changeStamps) MapRangeKeys(sstable.Span) (i sstable.BlockInterval, err error) { return i, nil }

func newChangesCollector() pebble.BlockPropertyCollector {
	return sstable.NewBlockIntervalCollector(changesProperty, changeStamps{}, nil)
}

// change adds a row to the change log and removes its earlier entry.
func (b *Batch) change(m *command.Mutation, op *command.Op) {
	n := prefixLen(m)
	key := keys.AppendPartition(b.arena[:0], m.Table, m.Token, m.Key)
	if len(op.Value) == 8 {
		key = keys.AppendChange(key[:n], keys.Latest, int64(binary.BigEndian.Uint64(op.Value)), op.Clustering)
		_ = b.b.Delete(key, nil) // Delete fails only for indexed batches
	}
	if op.Index&command.ChangeLatest != 0 {
		key = keys.AppendChange(key[:n], keys.Latest, m.Timestamp, op.Clustering)
		_ = b.b.Set(key, entryValue(op), nil)
		b.grows = true
	}
	if op.Index&command.ChangePointed != 0 {
		key = append(append(key[:n], keys.Pointer), op.Clustering...)
		switch {
		case op.Index&command.ChangeLatest != 0:
			b.entry = binary.BigEndian.AppendUint64(b.entry[:0], uint64(m.Timestamp))
			_ = b.b.Set(key, b.entry, nil)
		case len(op.Value) == 8:
			_ = b.b.Delete(key, nil)
		}
	}
	if op.Index&command.ChangeKept != 0 {
		key = keys.AppendChange(key[:n], keys.Change, m.Timestamp, nil)
		switch {
		case op.Index&command.ChangeRanges != 0:
			key = append(key, keys.ChangedRanges)
		case op.Index&command.ChangePointed != 0:
			key = append(key, keys.ChangedRow)
		}
		key = append(key, op.Clustering...)
		_ = b.b.Set(key, op.Operand, nil)
		b.grows = true
		if _, due, err := row.Check(op.Operand); err == nil {
			b.note(keys.SweepDedupe, due, append(key[:n], keys.Change))
		}
	}
	b.arena = key
}

// entryValue returns the value of the entry for a row's latest change. The value is one byte if the entry has a
// pointer, and empty otherwise.
func entryValue(op *command.Op) []byte {
	if op.Index&command.ChangePointed != 0 {
		return pointed
	}
	return nil
}

var pointed = []byte{1}

// changeRead is a read of a change log. The field rows reads the rows of entries that do not contain their rows.
type changeRead struct {
	*reader
	rows *sweep
}

// read reads the change log of a logical partition or a token range.
func (rd *changeRead) read() error {
	c := rd.r.Changes
	kind := keys.Latest
	if c.Kept {
		kind = keys.Change
	}
	if !rd.bounds(kind) || c.Upto <= c.After {
		return nil
	}
	rd.opts.PointKeyFilters = []pebble.BlockPropertyFilter{
		sstable.NewBlockIntervalFilter(changesProperty, uint64(c.After)+1, uint64(c.Upto)+1, nil)}
	if err := rd.open(); err != nil {
		return err
	}
	rd.rows = rd.s.newSweep(&command.Sweep{Table: rd.r.Table, Horizon: rd.r.Now, Dropped: rd.r.Dropped,
		Expired: rd.expired})
	defer rd.rows.end()
	rd.prefix = rd.prefix[:0]
	for valid := rd.it.First(); valid; {
		if rd.visited++; rd.visited%contextEvery == 0 {
			if err := rd.ctx.Err(); err != nil {
				return err
			}
		}
		key := rd.it.Key()
		p, ok := keys.Parse(key)
		if !ok {
			return fmt.Errorf("key %x: %w", key, errDamage)
		}
		stamp, _, _ := keys.ParseChange(p.Rest)
		rd.enter(&p, key)
		switch {
		case p.Kind < kind || p.Kind == kind && stamp <= c.After:
			rd.seek = keys.AppendChange(append(rd.seek[:0], rd.prefix...), kind, c.After+1, nil)
			valid = rd.step()
			continue
		case p.Kind > kind || stamp > c.Upto:
			step, err := rd.passed()
			if err != nil || step == command.Stop {
				return err
			}
			rd.seek = append(append(rd.seek[:0], rd.prefix...), 0xff)
			valid = rd.step()
			continue
		}
		step, err := rd.changed(&p, stamp)
		switch {
		case err != nil || step == command.Stop:
			return err
		case step == command.NextPartition:
			rd.seek = append(append(rd.seek[:0], rd.prefix...), 0xff)
			valid = rd.step()
		default:
			valid = rd.it.Next()
		}
	}
	return rd.it.Error()
}

// bounds sets lower and upper to the bounds of the read in the change log. It returns false if this interval is empty.
func (rd *changeRead) bounds(kind byte) bool {
	r := rd.r
	if r.Key != nil {
		rd.lower = keys.AppendPartition(rd.lower[:0], r.Table, r.Token, r.Key)
		rd.upper = append(append(rd.upper[:0], rd.lower...), kind+1)
		rd.lower = keys.AppendChange(rd.lower, kind, r.Changes.After+1, nil)
	} else {
		rd.rangeBounds()
	}
	if r.AfterKey != nil {
		rd.seek = keys.AppendPartition(rd.seek[:0], r.Table, r.AfterToken, r.AfterKey)
		if r.AfterPartition {
			rd.seek = append(rd.seek, 0xff)
		} else {
			rd.seek = append(append(append(rd.seek, kind), r.AfterClustering...), 0)
		}
		if bytes.Compare(rd.seek, rd.lower) > 0 {
			rd.lower = append(rd.lower[:0], rd.seek...)
		}
	}
	return rd.upper == nil || bytes.Compare(rd.lower, rd.upper) < 0
}

// enter makes the partition of a key the current partition.
func (rd *changeRead) enter(p *keys.Parts, key []byte) {
	if bytes.Equal(rd.prefix, key[:p.PrefixLen]) {
		return
	}
	rd.prefix = append(rd.prefix[:0], key[:p.PrefixLen]...)
	rd.tok, rd.pk, rd.announced = p.Token, rd.prefix[p.PrefixLen-len(p.Key):], false
}

// step moves to the first key at or after rd.seek. rd.seek must be after the current key.
func (rd *changeRead) step() bool {
	for range nextTries {
		if !rd.it.Next() {
			return false
		}
		if bytes.Compare(rd.it.Key(), rd.seek) >= 0 {
			return true
		}
	}
	return rd.it.SeekGE(rd.seek)
}

// changed passes the change at the iterator to the visitor. The change is a kept change or, if the row has not changed
// again, the current row.
func (rd *changeRead) changed(p *keys.Parts, stamp int64) (command.Step, error) {
	w := rd.rows
	value, err := rd.it.ValueAndErr()
	if err != nil {
		return command.Stop, err
	}
	var exists bool
	if rd.r.Changes.Kept {
		exists, err = rd.row.Resolve(value, row.NotDeleted, rd.r.Now, nil)
	} else {
		if w.reads == nil {
			// A second iterator over the same state reads the rows, in the order of the partitions.
			table := keys.AppendTable(nil, rd.r.Table)
			w.reads, err = rd.it.Clone(pebble.CloneOptions{IterOptions: &pebble.IterOptions{LowerBound: table,
				UpperBound: keys.After(bytes.Clone(table))}})
			if err != nil {
				return command.Stop, err
			}
			rd.s.m.iterators.Add(1)
		}
		pointed := len(value) > 0
		if !rd.announced && rd.statics() {
			if err := rd.static(); err != nil {
				return command.Stop, err
			}
		}
		if exists, err = w.latest(rd.prefix, p.Rest, stamp, pointed); exists {
			rd.row, w.row = w.row, rd.row
		}
	}
	if err != nil || !exists {
		return command.More, err
	}
	return rd.deliver(p.Rest)
}

// static reads the static row of a partition whose changes the visitor receives.
func (rd *changeRead) static() error {
	w := rd.rows
	rd.header.Clear()
	covered := row.NotDeleted
	if w.known.may(flagDeletions) {
		if err := w.loadHeader(rd.prefix); err != nil {
			return err
		}
		covered = w.header.Deleted
	}
	value, err := w.value(append(bytes.Clone(rd.prefix), keys.Static))
	if err != nil || value == nil {
		return err
	}
	rd.staticBuf = append(rd.staticBuf[:0], value...)
	_, err = rd.header.Static.Resolve(rd.staticBuf, covered, rd.r.Now, rd.r.Dropped)
	return err
}

// value returns the value of a key. It uses the sweep's iterator if the sweep has one.
func (w *sweep) value(key []byte) ([]byte, error) {
	if w.reads == nil {
		return w.get(key)
	}
	if !w.reads.SeekGE(key) || !bytes.Equal(w.reads.Key(), key) {
		return nil, w.reads.Error()
	}
	return w.reads.ValueAndErr()
}

// latest reads the row of a change log entry into w.row, as of the horizon of the sweep. It reports whether the row
// exists and has not been changed since the entry was written. The row of an entry with a pointer has not changed,
// because a change of the row removes the entry. If the table has clustering columns, an entry without a clustering key
// refers to the static row.
func (w *sweep) latest(prefix, rest []byte, stamp int64, pointed bool) (bool, error) {
	_, clustering, ok := keys.ParseChange(rest)
	if !ok {
		return false, fmt.Errorf("change log of %x: %w", prefix, errDamage)
	}
	static := pointed && len(clustering) == 0 && w.table.Clustering > 0
	covered := row.NotDeleted
	if w.known.may(flagDeletions) {
		if err := w.loadHeader(prefix); err != nil {
			return false, err
		}
		if covered = w.header.Deleted; !static {
			var err error
			if covered, err = w.covering(clustering); err != nil {
				return false, err
			}
		}
	}
	kind := keys.Row
	if static {
		kind = keys.Static
	}
	w.at = append(append(append(w.at[:0], prefix...), kind), clustering...)
	value, err := w.value(w.at)
	if err != nil || value == nil {
		return false, err
	}
	exists, err := w.row.Resolve(value, w.sw.Expired.Covering(value, covered), w.sw.Horizon, w.sw.Dropped)
	return exists && (pointed || w.row.Live && w.row.Liveness.Timestamp == stamp), err
}

// sweepLatest removes a change log entry, and its pointer, if its row no longer exists or has been changed since the
// entry was written.
func (w *sweep) sweepLatest(b *pebble.Batch, key []byte, p *keys.Parts) error {
	value, err := w.get(key)
	if err != nil || value == nil {
		return err
	}
	pointed := len(value) > 0
	stamp, clustering, _ := keys.ParseChange(p.Rest)
	good, err := w.latest(key[:p.PrefixLen], p.Rest, stamp, pointed)
	switch {
	case err != nil:
		return err
	case good:
		w.s.m.sweepsKept.Add(1)
		return nil
	}
	w.s.m.swept.Add(1)
	if pointed {
		at, err := w.pointer(key[:p.PrefixLen], clustering)
		if err != nil {
			return err
		}
		if at == stamp {
			pointer := append(append(bytes.Clone(key[:p.PrefixLen]), keys.Pointer), clustering...)
			if err := b.Delete(pointer, nil); err != nil {
				return err
			}
		}
	}
	return b.Delete(key, nil)
}

// sweepKept removes a kept change whose retention has ended.
func (w *sweep) sweepKept(b *pebble.Batch, key, value []byte) error {
	if oldest, err := row.Oldest(value, row.NotDeleted, nil); err != nil || oldest >= w.sw.Horizon {
		w.s.m.sweepsKept.Add(1)
		return err
	}
	w.s.m.swept.Add(1)
	return b.DeleteSized(key, uint32(len(value)), nil)
}

func (f *garbageFinder) change(key []byte, p *keys.Parts, value []byte) error {
	gone := false
	if p.Kind == keys.Change {
		oldest, err := row.Oldest(value, row.NotDeleted, nil)
		if err != nil {
			return err
		}
		gone = oldest < f.dedupe
	} else {
		if f.log == nil {
			f.log = f.s.newSweep(&command.Sweep{Table: f.t.ID, Horizon: f.dedupe, Dropped: f.t.Dropped})
		}
		stamp, _, _ := keys.ParseChange(p.Rest)
		good, err := f.log.latest(key[:p.PrefixLen], p.Rest, stamp, len(value) > 0)
		if err != nil {
			return err
		}
		gone = !good
	}
	if gone {
		f.records = append(f.records, bytes.Clone(key))
	}
	return nil
}
