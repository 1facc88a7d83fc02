// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestAppliedConditionIsVisible checks that the next reader sees the values of a conditional write, even if a client
// with a fast clock has written or deleted the row before. Later timestamps of the leader must be higher, unless the
// client's timestamp is too far in the future. Other keys must not be affected.
func TestAppliedConditionIsVisible(t *testing.T) {
	const now = int64(1_700_000_000_000_000)
	deletions := map[string]func(b *row.Builder){
		"value":     func(b *row.Builder) { b.Cell(1, nil, wire(1), 0, row.NoExpiry) },
		"tombstone": func(b *row.Builder) { b.Tombstone(1, nil, 1) },
		"row":       func(b *row.Builder) { b.DeleteRow(1) },
		"partition": func(b *row.Builder) { b.DeleteRow(1) },
		"range":     func(b *row.Builder) { b.DeleteRange([]byte{}, nil, 1) },
	}
	for name, before := range deletions {
		for _, ahead := range []time.Duration{200 * time.Millisecond, 24 * time.Hour} {
			t.Run(fmt.Sprint(name, ahead), func(t *testing.T) {
				h := open(t, newStore(t), 1, Options{Clock: testClock(func() time.Time { return time.UnixMicro(now) })})
				defer closeHost(t, h)
				r := h.Replicas()[0]
				m := put("k", 0)
				var b row.Builder
				b.Reset(now + ahead.Microseconds())
				before(&b)
				m.Ops[0].Operand = b.Append(nil)
				if name == "partition" || name == "range" {
					m.Ops[0].Kind = command.OpHeader
				}
				if err := write(t.Context(), r, m); err != nil {
					t.Fatal(err)
				}
				var prev []byte
				if name == "value" {
					prev = wire(1)
				}
				for v := range int64(3) {
					d, err := decide(t.Context(), r, swap("k", prev, v+2))
					if err != nil || !d.Applied {
						t.Fatal(d, err)
					}
					if got, at := read(t, r, "k"); got != v+2 || at != d.Timestamp {
						t.Fatalf("applied, and not visible: %d at %d", got, at)
					}
					prev = wire(v + 2)
				}
				if err := write(t.Context(), r, put("k", 9)); err != nil {
					t.Fatal(err)
				}
				if got, _ := read(t, r, "k"); ahead < time.Second && got != 9 {
					t.Errorf("a later write is hidden: %d", got)
				}
				if err := write(t.Context(), r, put("other", 1)); err != nil {
					t.Fatal(err)
				}
				if _, at := read(t, r, "other"); at > now+2*aheadMax {
					t.Errorf("another key is stamped %v ahead of the clock", time.Duration(at-now)*time.Microsecond)
				}
			})
		}
	}
}
