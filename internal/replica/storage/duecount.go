// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// PendingGarbage describes the deleted or expired data of a table that is still stored.
type PendingGarbage struct {
	// Count is the number of keys with notes. If Partial is true, Count is a lower bound.
	Count   uint64
	Partial bool
	// Oldest is the second at which the oldest data was deleted or expired, or 0 if Count is 0.
	Oldest int64
}

// PendingGarbage counts the notes (see due.go) of data that was deleted or expired before now, in some spans of a
// table. It examines up to most notes. It does not count data without a note, which is data from a snapshot that the
// sweeper has not examined yet.
func (s *Statistics) PendingGarbage(table uint32, spans []keys.Span, now int64, most int) (d PendingGarbage,
	err error) {
	lower, upper := keys.SweepBounds(table, keys.SweepRows, now+dueSeconds+1) // notes contain rounded-up times
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return d, s.check(err)
	}
	var key []byte
	for it.First(); it.Valid(); it.Next() {
		if most--; most < 0 {
			d.Partial = true
			break
		}
		key = keys.AppendSweepTarget(key[:0], it.Key())
		p, ok := keys.Parse(key)
		if !ok || !slices.ContainsFunc(spans, func(s keys.Span) bool { return s.Holds(p.Position()) }) {
			continue
		}
		if d.Count++; d.Count == 1 {
			d.Oldest = max(keys.SweepTime(it.Key())-dueSeconds, 1)
		}
	}
	return d, s.check(errors.Join(it.Error(), it.Close()))
}
