// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// This file implements the change log of CQL tables (RFC 0024). A write to a table with a change log arrives as a
// conditional. The leader reads the current rows under the latch, sets the timestamps of the operands, and computes the
// resulting rows. It then adds the change log entries to the same mutation.

// addChangeLog sets the operand timestamps of an evaluation and adds the change log entries. It computes expiry and the
// retention of changes from the timestamp instead of the client's or the coordinator's time. Successive images are
// therefore consistent, and no change expires immediately.
func (w *conditionalWrite) addChangeLog(v *evaluation) (err error) {
	r := w.replica
	var at int64
	at, v.stamp = r.stamps.over(r.stamps.next(r.host.stampTime(v.whole.Timestamp)), v.above)
	v.whole.Ops = stampedOps(v.whole.Ops, v.stamp)
	v.whole.Ops, err = changeLogEntries(r.host.store, v.whole, v.log, seconds(at), w.c.Dropped)
	_, v.written = ru.Write(v.whole)
	return err
}

// addChangeLog sets one timestamp and adds the change log entries for all parts if at least one part has a change log.
// ms holds the mutations of the parts.
func (b *batchWrite) addChangeLog(ms []*command.Mutation) (err error) {
	r := b.replica
	is := func(p Part) bool { return p.Updates != nil && p.Updates.Log != nil }
	if !slices.ContainsFunc(b.parts, is) {
		return nil
	}
	now := r.host.micros()
	for _, m := range ms {
		now = max(now, m.Timestamp)
		r.stamps.observe(r.host.store.StampsAbove(m.Table))
	}
	stamp := r.stamps.next(now)
	for i, m := range ms {
		whole := *m
		if whole.Ops = stampedOps(whole.Ops, stamp); is(b.parts[i]) {
			c := b.parts[i].Updates
			if whole.Ops, err = changeLogEntries(r.host.store, &whole, c.Log, seconds(stamp), c.Dropped); err != nil {
				return err
			}
		}
		ms[i] = &whole
	}
	return nil
}

// seconds converts a timestamp from microseconds to seconds.
func seconds(stamp int64) int64 { return stamp / 1e6 }

// stampedOps returns a copy of ops in which stamp replaces all Unstamped timestamps.
func stampedOps(ops []command.Op, stamp int64) []command.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		if o := &ops[i]; len(o.Operand) > 0 && row.Timestamp(o.Operand) == row.Unstamped {
			o.Operand = bytes.Clone(o.Operand)
			row.Stamp(o.Operand, stamp)
		}
	}
	return ops
}

// changeLogEntries appends change log entries to the operands of a mutation. The operands must have timestamps. It adds
// one entry for all deletions of ranges or the partition, and one entry for each visibly changed row.
func changeLogEntries(store Store, m *command.Mutation, log *command.ChangeLog, now int64,
	dropped []cqltype.Dropped) ([]command.Op, error) {
	x := changeWriter{log: log, ops: m.Ops, now: now}
	if log.Keep > 0 {
		if err := x.deletions(m.Ops); err != nil {
			return nil, err
		}
	}
	err := store.Images(m, now, dropped, func(i *storage.Image) error {
		if i.Changed() {
			x.row(i)
		}
		return nil
	})
	return x.ops, err
}

// changeWriter creates change log entries.
type changeWriter struct {
	log  *command.ChangeLog
	ops  []command.Op
	now  int64
	b, c row.Builder
	kept int // bytes of images, including images above the limit
}

// imagesMax is the maximum size, in bytes, of all images of one mutation. Changes above the limit are marked and have
// no images.
const imagesMax = 16 << 20

// deletions adds the range deletions and partition deletions of a mutation.
func (x *changeWriter) deletions(ops []command.Op) error {
	var all row.Merger
	some := false
	for i := range ops {
		if ops[i].Kind != command.OpHeader {
			continue
		}
		if deletions, _ := row.Split(ops[i].Operand); deletions != nil {
			some = true
			if err := all.Add(deletions); err != nil {
				return err
			}
		}
	}
	if some {
		x.begin(command.RangesDeleted)
		x.cell(command.ChangeDeletions, all.Append(nil))
		x.ops = append(x.ops, command.Op{Kind: command.OpChange, Operand: x.b.Append(nil),
			Index: command.ChangeKept | command.ChangePointed | command.ChangeRanges})
	}
	return nil
}

// row adds the change of a row.
func (x *changeWriter) row(i *storage.Image) {
	op := command.Op{Kind: command.OpChange, Clustering: bytes.Clone(i.Clustering), Index: command.ChangePointed}
	if i.Entry > 0 {
		op.Value = binary.BigEndian.AppendUint64(nil, uint64(i.Entry))
	}
	kind := command.Replaced
	switch {
	case !i.After.Exists():
		kind = command.Deleted
	case !i.Before.Exists():
		kind = command.Created
	}
	if i.After.Exists() {
		op.Index |= command.ChangeLatest
	}
	if x.log.Keep > 0 {
		op.Index |= command.ChangeKept
		x.begin(kind)
		size := i.Before.Size() + i.After.Size() + cellBytes*(len(i.Before.Cells)+len(i.After.Cells))
		if x.kept += size; x.kept <= imagesMax {
			x.image(command.ChangeRowAfter, &i.After)
			x.image(command.ChangeRowBefore, &i.Before)
		} else {
			size = 0
		}
		op.Operand = x.b.Append(make([]byte, 0, 3*headBytes+size))
	}
	x.ops = append(x.ops, op)
}

// headBytes and cellBytes are the approximate sizes of the head of a row and of a cell in stored form.
const (
	headBytes = 32
	cellBytes = 8
)

// begin starts a kept change.
func (x *changeWriter) begin(kind command.Changed) {
	x.b.Reset(row.Unstamped)
	x.cell(command.ChangeKind, []byte{byte(kind)})
}

// cell adds a cell that expires with the change.
func (x *changeWriter) cell(column uint32, value []byte) {
	ttl := x.log.Keep + command.ChangeGrace
	x.b.Cell(column, nil, value, int32(ttl), x.now+ttl)
}

// image adds the stored form of a row if the row exists.
func (x *changeWriter) image(column uint32, r *row.Row) {
	if !r.Exists() {
		return
	}
	if x.c.Reset(r.Liveness.Timestamp); r.Live {
		x.c.Live(r.Liveness.TTL, r.Liveness.Expiry)
	} else {
		x.c.Reset(r.Cells[0].Timestamp)
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		x.c.CellAt(c.Column, c.Path, c.Value, c.Timestamp, c.TTL, c.Expiry)
	}
	x.cell(column, x.c.Append(make([]byte, 0, headBytes+r.Size()+cellBytes*len(r.Cells))))
}
