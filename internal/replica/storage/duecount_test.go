// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestPendingGarbage checks the number of rows that were deleted or have expired, and the age of the oldest such row.
// Live rows, rows that expire later, rows in other spans, and rows beyond the limit must not be counted. After a sweep,
// the number must be 0.
func TestPendingGarbage(t *testing.T) {
	s := openOwned(t, 100)
	st := s.Statistics
	const now = 10_000
	for i := range 100 {
		apply(t, s, insert("k", fmt.Sprint("live", i), 1))
		expires := int64(9_000 + i)
		if i%2 == 0 {
			expires = 20_000
		}
		apply(t, s, mutation("k", fmt.Sprint("ttl", i), 1, func(b *row.Builder) {
			b.Cell(1, nil, []byte("v"), 10, expires)
		}))
	}
	whole := []keys.Span{{Table: testTable}}
	elsewhere := token.Hash([]byte("k")).Position() + 1
	for _, c := range []struct {
		name  string
		spans []keys.Span
		most  int
		want  PendingGarbage
	}{
		{"all", whole, 1000, PendingGarbage{Count: 50, Oldest: 8_992}},
		{"few looks", whole, 20, PendingGarbage{Count: 20, Partial: true, Oldest: 8_992}},
		{"nothing is led", nil, 1000, PendingGarbage{}},
		{"another span", []keys.Span{keys.TokenSpan(testTable, token.Range{Begin: elsewhere, Limit: elsewhere + 10})},
			1000, PendingGarbage{}},
	} {
		if got, err := st.PendingGarbage(testTable, c.spans, now, c.most); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	sweepDue(t, s, now+1000, true)
	if got, err := st.PendingGarbage(testTable, whole, now, 1000); err != nil || got != (PendingGarbage{}) {
		t.Errorf("after the sweep: %+v, %v", got, err)
	}
}
