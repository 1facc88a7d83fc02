// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// TestPartsOfRecordedBatches checks that the dedupe record of a part is kept while its batch is recorded or the batch's
// state is unknown, for both kinds of sweeps. Other dedupe records must be swept without waiting.
func TestPartsOfRecordedBatches(t *testing.T) {
	const start = 1_000_000
	for _, due := range []bool{false, true} {
		s := openOwned(t, 0)
		part, other := command.DedupeID{Coordinator: [16]byte{9}, Sequence: 1}, command.DedupeID{Sequence: 1 << 50}
		for i, id := range []command.DedupeID{part, other} {
			b := s.NewBatch()
			m := insert(string(rune('a'+i)), "", start*1e6)
			if err := b.Mutate(&m); err != nil {
				t.Fatal(err)
			}
			b.PutDedupe(testTable, m.Token, m.Key, id, []byte("applied"))
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			b.Close()
		}
		var recorded bool
		var broken error
		asked, failed := 0, 0
		o := SweeperOptions{
			Now:   func() int64 { return start + command.DedupeSeconds + 2*dedupeDueSeconds },
			Spans: func() []keys.Span { return []keys.Span{{Table: testTable}} },
			Recorded: func(context.Context) (Recorded, error) {
				asked++
				return func(batch [16]byte) bool { return recorded && batch == part.Coordinator }, broken
			},
			Propose: func(_ context.Context, sw command.Sweep) error { return s.ApplySweep(&sw) },
			Error:   func(error) { failed++ },
		}
		for _, c := range []struct {
			recorded bool
			broken   error
			want     int // number of dedupe records
		}{{false, errors.New("unavailable"), 1}, {true, nil, 1}, {false, nil, 0}} {
			recorded, broken = c.recorded, c.broken
			var err error
			if o := o.withDefaults(); due {
				err = s.SweepDue(t.Context(), &o)
			} else {
				err = s.sweepSpan(t.Context(), keys.Span{Table: testTable}, &o)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := count(t, s) - 2; got != c.want {
				t.Errorf("due %v, recorded %v, broken %v: %d dedupe records, want %d", due, c.recorded, c.broken != nil,
					got, c.want)
			}
		}
		if asked != 3 || failed != 1 {
			t.Errorf("asked %d times, %d failed", asked, failed)
		}
	}
}
