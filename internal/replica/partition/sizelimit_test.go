// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// TestEntriesAreNoGrowth checks that a full logical partition accepts index entries and deletions, such as the writes
// of an index build. It must reject rows, with and without index entries.
func TestEntriesAreNoGrowth(t *testing.T) {
	op := func(build func(b *row.Builder)) command.Op {
		var b row.Builder
		b.Reset(1)
		build(&b)
		return command.Op{Kind: command.OpRow, Operand: b.Append(nil)}
	}
	live := op(func(b *row.Builder) { b.Live(0, row.NoExpiry) })
	deleted := op(func(b *row.Builder) { b.DeleteRow(1) })
	entry := command.Op{Kind: command.OpIndex, Index: 7, Value: []byte("v")}
	for name, c := range map[string]struct {
		ops  []command.Op
		want bool
	}{
		"entries": {[]command.Op{entry, entry}, false}, "row": {[]command.Op{live}, true},
		"row and entry": {[]command.Op{entry, live}, true}, "deletion": {[]command.Op{deleted}, false},
		"deletion and entry": {[]command.Op{deleted, entry}, false},
	} {
		r := &Replica{}
		near := &SizeTracker{Limit: 1}
		near.SetMeasured(1, 0)
		r.SizeLimits().Set([]*SizeTracker{near})
		if err := r.sizes.check(&command.Mutation{Ops: c.ops}); (err != nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
