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
	// Count is the number of keys with notes. If Partial is true, counting stopped at this number.
	Count   uint64
	Partial bool
	// Oldest is the second at which the oldest of this data was deleted or expired, or 0 if there is no such data.
	Oldest int64
}

// PendingGarbage counts the notes (see due.go) of data in some spans of a table that was deleted or expired before a
// second. It examines at most the given number of notes. Data without a note is not counted. Such data comes from a
// snapshot that the sweeper has not examined yet.
func (s *Statistics) PendingGarbage(table uint32, spans []keys.Span, now int64, most int) (d PendingGarbage,
	err error) {
	lower, upper := keys.SweepBounds(table, keys.SweepRows, now+dueSeconds+1) // the times in notes are rounded up
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
