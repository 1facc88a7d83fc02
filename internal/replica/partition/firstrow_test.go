// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestFirstRow checks the row returned by a rejected conditional that requests the first row. It must be the first row,
// or the first row with a marker if few rows precede it. A conditional that is applied must not return a row.
func TestFirstRow(t *testing.T) {
	h := open(t, newStore(t), 1, Options{Durability: Periodic})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	fill := func(key string, plain int) {
		m := put(key, 1)
		operand := m.Ops[0].Operand
		m.Ops = nil
		for i := range plain + 1 {
			op := command.Op{Clustering: []byte(fmt.Sprintf("%03d", i)), Operand: operand}
			if i == plain {
				var b row.Builder
				b.Reset(row.Unstamped)
				b.Live(0, 0)
				op.Operand = b.Append(nil)
			}
			m.Ops = append(m.Ops, op)
		}
		if err := write(t.Context(), r, m); err != nil {
			t.Fatal(err)
		}
	}
	fill("few", 2)
	fill("many", firstRowsMax)
	for _, tc := range []struct {
		key   string
		first command.First
		want  string
	}{
		{"few", command.NoFirst, ""}, {"few", command.FirstRow, "000"}, {"few", command.FirstMarked, "002"},
		{"many", command.FirstRow, "000"}, {"many", command.FirstMarked, ""}, {"none", command.FirstRow, ""},
	} {
		c := swap(tc.key, wire(77), 2)
		c.Rows[0].Static, c.First = true, tc.first
		d, err := decide(t.Context(), r, c)
		if err != nil || d.Applied {
			t.Fatal(d, err)
		}
		got := ""
		if d.First != nil {
			got = string(d.First.Clustering)
		}
		if got != tc.want {
			t.Errorf("%s, %d: got %q, want %q", tc.key, tc.first, got, tc.want)
		}
	}
	c := swap("few", nil, 2)
	c.Rows[0].Static, c.First = true, command.FirstRow
	if d, err := decide(t.Context(), r, c); err != nil || !d.Applied || d.First != nil {
		t.Error(d, err)
	}
}
