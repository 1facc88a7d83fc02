// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// Dead is what is stored of a table although it was deleted or has expired.
type Dead struct {
	// Count is how many keys are noted for it; the count stopped there if Partial.
	Count   uint64
	Partial bool
	// Oldest is the second from which the oldest of them was dead, 0 if there is none.
	Oldest int64
}

// Dead counts the notes of what is to be swept (see due.go) of some spans of a table that was deleted or
// has expired before a second, up to a number of notes that are looked at. What has no note is not in it: what a
// snapshot brought, until the sweeper came by.
func (s *Statistics) Dead(table uint32, spans []keys.Span, now int64, most int) (d Dead, err error) {
	lower, upper := keys.SweepBounds(table, keys.SweepRows, now+dueSeconds+1) // notes are rounded up
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
