// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Image describes the effect of a mutation on one row of its logical partition, or on the static row. An Image is valid
// only during the call of visit.
type Image struct {
	// Clustering is empty for the static row.
	Clustering []byte
	// Before and After are the states of the row before and after the mutation. A state may be a row that does not
	// exist. Both states reflect the mutation's deletions of ranges and of the whole partition.
	Before, After row.Row
	// Entry is the timestamp of the row's entry in the change log, in microseconds, or 0.
	Entry int64
}

// Changed reports whether the mutation changes data that a reader can see, including timestamps and TTLs.
func (i *Image) Changed() bool {
	a, b := &i.Before, &i.After
	if a.Live != b.Live || a.Liveness != b.Liveness || len(a.Cells) != len(b.Cells) {
		return true
	}
	for n := range a.Cells {
		x, y := &a.Cells[n], &b.Cells[n]
		if x.Column != y.Column || x.Timestamp != y.Timestamp || x.TTL != y.TTL || x.Expiry != y.Expiry ||
			!bytes.Equal(x.Path, y.Path) || !bytes.Equal(x.Value, y.Value) {
			return true
		}
	}
	return false
}

// Images calls visit with the effect of a mutation on each row that the mutation writes, as of the second now. The
// mutation's operands must have timestamps. Images visits the static row first and then the other rows in key order. It
// does not visit rows that the mutation deletes by range or with the whole partition. The caller must exclude other
// writers of the logical partition.
func (s *Reader) Images(m *command.Mutation, now int64, dropped []cqltype.Dropped, visit func(i *Image) error) error {
	x := images{sweep: s.newSweep(&command.Sweep{Table: m.Table, Horizon: now, Dropped: dropped}), m: m,
		prefix: keys.AppendPartition(nil, m.Table, m.Token, m.Key)}
	defer x.sweep.close()
	err := x.read(visit)
	if answer, ok := err.(*refusal); ok { //nolint:errorlint // read does not wrap
		return answer.error
	}
	if err != nil {
		return s.check(fmt.Errorf("images of table %d: %w", m.Table, err))
	}
	return nil
}

// images is an Images call in progress.
type images struct {
	*sweep
	m *command.Mutation
	// prefix is the prefix of all keys of the logical partition.
	prefix []byte
	// own holds the mutation's own deletions.
	own   row.Header
	image Image
	// stored and merged contain the bytes of the images.
	stored, merged []byte
}

func (x *images) read(visit func(i *Image) error) error {
	if x.known.may(flagDeletions) {
		if err := x.loadHeader(x.prefix); err != nil {
			return err
		}
	} else {
		x.header.Clear()
	}
	statics, err := x.split()
	if err != nil {
		return err
	}
	if len(statics) > 0 {
		key := append(bytes.Clone(x.prefix), keys.Static)
		if err := x.pass(key, nil, x.header.Deleted, x.own.Deleted, statics, visit); err != nil {
			return err
		}
	}
	var rows []*command.Op
	for i := range x.m.Ops {
		if op := &x.m.Ops[i]; op.Kind == command.OpRow {
			rows = append(rows, op)
		}
	}
	slices.SortStableFunc(rows, func(a, b *command.Op) int { return bytes.Compare(a.Clustering, b.Clustering) })
	var operands [][]byte
	for i, op := range rows {
		operands = append(operands, op.Operand)
		if i+1 < len(rows) && bytes.Equal(rows[i+1].Clustering, op.Clustering) {
			continue
		}
		covered, err := x.covering(op.Clustering)
		if err != nil {
			return err
		}
		key := append(append(bytes.Clone(x.prefix), keys.Row), op.Clustering...)
		if err := x.pass(key, op.Clustering, covered, x.own.Covering(op.Clustering), operands, visit); err != nil {
			return err
		}
		operands = operands[:0]
	}
	return nil
}

// split separates the header operands of the mutation.
func (x *images) split() (statics [][]byte, err error) {
	x.own.Clear()
	x.merger.Reset()
	some := false
	for i := range x.m.Ops {
		op := &x.m.Ops[i]
		if op.Kind != command.OpHeader {
			continue
		}
		deletions, static := row.Split(op.Operand)
		if deletions != nil {
			some = true
			if err := x.merger.Add(deletions); err != nil {
				return nil, err
			}
		}
		if static != nil {
			statics = append(statics, static)
		}
	}
	if some {
		err = x.own.Resolve(x.merger.Append(nil), x.sw.Horizon, nil)
	}
	return statics, err
}

// pass calls visit with the image of one row. covered is the timestamp of the stored deletion that covers the row. own
// is the timestamp of the mutation's own deletion.
func (x *images) pass(key, clustering []byte, covered, own int64, operands [][]byte, visit func(i *Image) error) error {
	x.image.Clustering, x.image.Entry = clustering, 0
	value, err := x.get(key)
	if err != nil {
		return err
	}
	x.merger.Reset()
	x.image.Before.Live, x.image.Before.Liveness, x.image.Before.Cells = false, row.Liveness{}, x.image.Before.Cells[:0]
	if value != nil {
		x.stored = append(x.stored[:0], value...)
		if _, err := x.image.Before.Resolve(x.stored, max(covered, own), x.sw.Horizon, x.sw.Dropped); err != nil {
			return err
		}
		if err := x.merger.Add(x.stored); err != nil {
			return err
		}
	}
	for _, o := range operands {
		if err := x.merger.Add(o); err != nil {
			return err
		}
	}
	x.merged = x.merger.Append(x.merged[:0])
	if _, err := x.image.After.Resolve(x.merged, max(covered, own), x.sw.Horizon, x.sw.Dropped); err != nil {
		return err
	}
	if x.image.Entry, err = x.pointer(x.prefix, clustering); err != nil {
		return err
	}
	if err := visit(&x.image); err != nil {
		return &refusal{err}
	}
	return nil
}

// pointer returns the timestamp of a row's entry in the change log, or 0 if the row has no entry.
func (w *sweep) pointer(prefix, clustering []byte) (int64, error) {
	value, err := w.get(append(append(bytes.Clone(prefix), keys.Pointer), clustering...))
	if err != nil || value == nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("pointer into the change log of %x: %w", prefix, errDamage)
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}
