// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// batchNode is a testNode with a batch log that is unavailable if broken is not nil.
type batchNode struct {
	testNode
	recorded [][16]byte
	broken   error
	asked    int
}

func (n *batchNode) Recorded(context.Context) (Recorded, error) {
	n.asked++
	return func(batch [16]byte) bool { return slices.Contains(n.recorded, batch) }, n.broken
}

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
		n := &batchNode{testNode: testNode{Store: s, now: start + command.DedupeSeconds + 2*dedupeDueSeconds,
			spans: []keys.Span{{Table: testTable}}}}
		o := SweeperOptions{Node: n}
		for _, c := range []struct {
			recorded bool
			broken   error
			want     int // number of dedupe records
		}{{false, errors.New("unavailable"), 1}, {true, nil, 1}, {false, nil, 0}} {
			n.recorded, n.broken = nil, c.broken
			if c.recorded {
				n.recorded = [][16]byte{part.Coordinator}
			}
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
		if n.asked != 3 || n.failed != 1 {
			t.Errorf("asked %d times, %d failed", n.asked, n.failed)
		}
	}
}
