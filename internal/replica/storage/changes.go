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

// The change log (RFC 0024) stands behind the rows of each logical partition. An entry has no value, or is a change
// that is kept. It is written once and removed as a whole, so nothing is ever merged there.
//
// Every block of every table on disk says which stamps the entries in it have. So whoever asks for what has changed
// since a stamp passes over nearly all that has not.

// changesProperty names the property of blocks. Tables of older builds are without it, and are read as a whole.
const changesProperty = "ilion.changes"

// changeStamps maps a key of the change log to its stamp; other keys have none.
type changeStamps struct{}

// MapPointKey implements sstable.IntervalMapper. A removed entry counts: what removes it must be seen with it.
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

// MapRangeKeys implements sstable.IntervalMapper. There are none.
func (changeStamps) MapRangeKeys(sstable.Span) (i sstable.BlockInterval, err error) { return i, nil }

func newChangesCollector() pebble.BlockPropertyCollector {
	return sstable.NewBlockIntervalCollector(changesProperty, changeStamps{}, nil)
}

// change enters a row in the change log, and takes its earlier entry out.
func (b *Batch) change(m *command.Mutation, op *command.Op) {
	n := prefixLen(m)
	key := keys.AppendPartition(b.arena[:0], m.Table, m.Token, m.Key)
	if len(op.Value) == 8 {
		key = keys.AppendChange(key[:n], keys.Latest, int64(binary.BigEndian.Uint64(op.Value)), op.Clustering)
		_ = b.b.Delete(key, nil) // fails for indexed batches only
	}
	if op.Index&command.ChangeLatest != 0 {
		key = keys.AppendChange(key[:n], keys.Latest, m.Timestamp, op.Clustering)
		_ = b.b.Set(key, nil, nil)
		b.grows = true
	}
	if op.Index&command.ChangeKept != 0 {
		key = keys.AppendChange(key[:n], keys.Change, m.Timestamp, op.Clustering)
		_ = b.b.Set(key, op.Operand, nil)
		b.grows = true
		if _, due, err := row.Check(op.Operand); err == nil {
			b.note(keys.DueDedupe, due, append(key[:n], keys.Change))
		}
	}
	b.arena = key
}

// readChanges reads the change log of a logical partition, or of those of a token range.
func (rd *reader) readChanges() error {
	c := rd.r.Changes
	kind := keys.Latest
	if c.Kept {
		kind = keys.Change
	}
	if !rd.changesBounds(kind) || c.Upto <= c.After {
		return nil
	}
	rd.opts.PointKeyFilters = []pebble.BlockPropertyFilter{
		sstable.NewBlockIntervalFilter(changesProperty, uint64(c.After)+1, uint64(c.Upto)+1, nil)}
	if err := rd.open(); err != nil {
		return err
	}
	w := rd.s.newSweep(&command.Sweep{Table: rd.r.Table, Horizon: rd.r.Now, Dropped: rd.r.Dropped})
	defer w.close()
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
		step, err := rd.changed(w, &p, stamp)
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

// changesBounds makes lower and upper the bounds of what is read of the change log; false if that is nothing.
func (rd *reader) changesBounds(kind byte) bool {
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

// enter makes the partition of a key the current one.
func (rd *reader) enter(p *keys.Parts, key []byte) {
	if bytes.Equal(rd.prefix, key[:p.PrefixLen]) {
		return
	}
	rd.prefix = append(rd.prefix[:0], key[:p.PrefixLen]...)
	rd.tok, rd.pk, rd.announced = p.Token, rd.prefix[p.PrefixLen-len(p.Key):], false
}

// step moves to the first key from rd.seek on, which is behind the one where the iterator stands.
func (rd *reader) step() bool {
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

// changed passes on the change that the iterator stands on: what is kept of it or, if there was no later one, the row
// as it is.
func (rd *reader) changed(w *sweep, p *keys.Parts, stamp int64) (command.Step, error) {
	var exists bool
	var err error
	if rd.r.Changes.Kept {
		var value []byte
		if value, err = rd.it.ValueAndErr(); err == nil {
			exists, err = rd.row.Resolve(value, row.NotDeleted, rd.r.Now, nil)
		}
	} else if exists, err = w.latest(rd.prefix, p.Rest, stamp); exists {
		rd.row, w.row = w.row, rd.row
	}
	if err != nil || !exists {
		return command.More, err
	}
	return rd.deliver(p.Rest)
}

// latest reads the row of an entry of the change log into w.row, as it is at the horizon of the sweep. It reports
// whether it exists and has not been changed since.
func (w *sweep) latest(prefix, rest []byte, stamp int64) (bool, error) {
	_, clustering, ok := keys.ParseChange(rest)
	if !ok {
		return false, fmt.Errorf("change log of %x: %w", prefix, errDamage)
	}
	covered := row.NotDeleted
	if w.known.may(flagDeletions) {
		if err := w.loadHeader(prefix); err != nil {
			return false, err
		}
		var err error
		if covered, err = w.covering(clustering); err != nil {
			return false, err
		}
	}
	value, err := w.get(append(append(bytes.Clone(prefix), keys.Row), clustering...))
	if err != nil || value == nil {
		return false, err
	}
	exists, err := w.row.Resolve(value, covered, w.sw.Horizon, w.sw.Dropped)
	return exists && w.row.Live && w.row.Liveness.Timestamp == stamp, err
}

// sweepLatest removes an entry of the change log whose row is gone or has been changed since. It is a hint until then:
// whoever reads it looks at the row.
func (w *sweep) sweepLatest(b *pebble.Batch, key []byte, p *keys.Parts) error {
	stamp, _, _ := keys.ParseChange(p.Rest)
	good, err := w.latest(key[:p.PrefixLen], p.Rest, stamp)
	switch {
	case err != nil:
		return err
	case good:
		w.s.m.sweepsKept.Add(1)
		return nil
	}
	w.s.m.swept.Add(1)
	return b.Delete(key, nil)
}

// sweepKept removes a change that has been kept for as long as it should.
func (w *sweep) sweepKept(b *pebble.Batch, key, value []byte) error {
	if oldest, err := row.Oldest(value, row.NotDeleted, nil); err != nil || oldest >= w.sw.Horizon {
		w.s.m.sweepsKept.Add(1)
		return err
	}
	w.s.m.swept.Add(1)
	return b.DeleteSized(key, uint32(len(value)), nil)
}

// change notes an entry of the change log that can be swept.
func (f *finder) change(key []byte, p *keys.Parts, value []byte) error {
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
		good, err := f.log.latest(key[:p.PrefixLen], p.Rest, stamp)
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
