// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Newest returns the highest timestamp of the rows and the header that a mutation writes, including the deletions that
// cover them. The timestamp is in microseconds. If no such data exists, Newest returns row.NotDeleted.
func (s *Reader) Newest(m *command.Mutation) (int64, error) {
	n := newest{s: s, at: row.NotDeleted, prefix: keys.AppendPartition(nil, m.Table, m.Token, m.Key)}
	defer n.close()
	t := s.table(m.Table)
	if t.may(flagDeletions) {
		if err := n.deletions(); err != nil {
			return 0, err
		}
	}
	for i := range m.Ops {
		op := &m.Ops[i]
		var err error
		switch op.Kind {
		case command.OpRow:
			err = n.row(op.Clustering)
		case command.OpHeader:
			if t.may(flagStatics) {
				err = n.value(append(bytes.Clone(n.prefix), keys.Static))
			}
		}
		if err != nil {
			return 0, err
		}
	}
	return n.at, nil
}

// newest finds the highest timestamp in one logical partition.
type newest struct {
	s      *Reader
	at     int64
	prefix []byte
	header row.Header
	// ranges is set if deleted ranges with separate keys exist.
	ranges *pebble.Iterator
	cover  cover
}

// deletions loads the deletions of the partition. A deletion of the partition covers all rows that are written.
func (n *newest) deletions() error {
	n.header.Clear()
	value, err := n.s.getCopy(append(bytes.Clone(n.prefix), keys.Deletions))
	if err != nil || value == nil {
		return err
	}
	if err := n.header.Resolve(value, 0, nil); err != nil {
		return n.s.check(err)
	}
	n.at = max(n.at, n.header.Deleted)
	if !n.header.MoreRanges {
		return nil
	}
	n.cover.begin(n.prefix)
	lower, upper := rangeBounds(n.prefix)
	n.ranges, err = n.s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	return err
}

func (n *newest) row(clustering []byte) error {
	if len(n.header.Ranges) > 0 {
		n.at = max(n.at, n.header.Covering(clustering))
	}
	if n.ranges != nil {
		if err := n.cover.find(n.ranges, clustering, false); err != nil {
			return n.s.check(err)
		}
		n.at = max(n.at, n.cover.deleted)
	}
	return n.value(append(append(bytes.Clone(n.prefix), keys.Row), clustering...))
}

func (n *newest) value(key []byte) error {
	value, closer, err := n.s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return n.s.check(fmt.Errorf("get %x: %w", key, err))
	}
	at, err := row.Newest(value)
	n.at = max(n.at, at)
	return n.s.check(errors.Join(err, closer.Close()))
}

func (n *newest) close() {
	if n.ranges != nil {
		_ = n.ranges.Close()
	}
}
