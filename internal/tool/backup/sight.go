// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// records passes keys and values to fn in order. The keys do not contain the table ID. The arguments are valid only
// during the call.
type records func(fn func(key, value []byte) error) error

// sight converts the records of a table to the rows that a reader sees.
type sight struct {
	table   uint32
	now     int64
	dropped []cqltype.Dropped

	// partition is the key prefix of the logical partition. header contains its deletions.
	partition []byte
	header    row.Header
	whole     []byte
}

// seen is a static row or another row in the form that a reader sees. key does not contain the table ID.
type seen struct {
	key, raw []byte
	// deleted is the newest deletion of the partition that covers the row.
	deleted int64
	exists  bool
	// cells contains the live cells and the row marker in a canonical form.
	cells   []byte
	now     int64
	dropped []cqltype.Dropped
}

// errEnough ends an iteration early.
var errEnough = errors.New("enough")

// pulled is an iterator over rows. next returns nil after the last row. If the caller does not read all rows, it must
// call end.
type pulled struct {
	next func() (*seen, error)
	end  func()
}

// pull converts records into rows.
func (s *sight) pull(from records) *pulled {
	var failed error
	one, end := iter.Pull(func(yield func(*seen) bool) {
		failed = from(func(key, value []byte) error {
			r, err := s.see(key, value)
			if err == nil && r != nil && !yield(r) {
				err = errEnough
			}
			return err
		})
	})
	next := func() (*seen, error) {
		if r, ok := one(); ok {
			return r, nil
		}
		return nil, failed
	}
	return &pulled{next, end}
}

// see returns the row of a record, or nil if the record is not a row.
func (s *sight) see(key, value []byte) (*seen, error) {
	s.whole = append(binary.BigEndian.AppendUint32(s.whole[:0], s.table), key...)
	p, ok := keys.Parse(s.whole)
	if !ok {
		return nil, fmt.Errorf("key %x: %w", key, archive.ErrDamaged)
	}
	if prefix := s.whole[:p.PrefixLen]; !bytes.Equal(prefix, s.partition) {
		s.partition = append(s.partition[:0], prefix...)
		s.header.Clear()
	}
	r := &seen{deleted: s.header.Deleted, now: s.now, dropped: s.dropped}
	switch p.Kind {
	case keys.Deletions:
		return nil, s.header.Resolve(bytes.Clone(value), s.now, s.dropped)
	case keys.Range:
		var deleted row.Range
		if err := deleted.Resolve(bytes.Clone(value)); err != nil {
			return nil, err
		}
		// The ranges are disjoint and in ascending order, but may overlap the ranges of the header.
		if n := len(s.header.Ranges); n == 0 || s.header.Ranges[n-1].End != nil &&
			bytes.Compare(s.header.Ranges[n-1].End, deleted.Start) <= 0 {
			s.header.Ranges = append(s.header.Ranges, deleted)
		} else {
			s.header.Ranges = row.Normalize(append(s.header.Ranges, deleted))
		}
		return nil, nil
	case keys.Static:
	case keys.Row:
		r.deleted = s.header.Covering(p.Rest)
	default: // records of executed commands and the change log are not restored
		return nil, nil
	}
	r.key, r.raw = bytes.Clone(key), bytes.Clone(value)
	return r, r.resolve(s.now, s.dropped)
}

// resolve computes the content that a reader sees.
func (r *seen) resolve(now int64, dropped []cqltype.Dropped) (err error) {
	var v row.Row
	if r.exists, err = v.Resolve(r.raw, r.deleted, now, dropped); err != nil || !r.exists {
		return err
	}
	b := r.cells[:0]
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text := func(t []byte) { b = append(binary.AppendUvarint(b, uint64(len(t))), t...) }
	b = append(b, 0)
	if v.Live {
		b[0] = 1
		number(v.Liveness.Timestamp)
		number(int64(v.Liveness.TTL))
		number(v.Liveness.Expiry)
	}
	number(int64(len(v.Cells)))
	for _, c := range v.Cells {
		number(int64(c.Column))
		text(c.Path)
		text(c.Value)
		number(c.Timestamp)
		number(int64(c.TTL))
		number(c.Expiry)
	}
	r.cells = b
	return nil
}
