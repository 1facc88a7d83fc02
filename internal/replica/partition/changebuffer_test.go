// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
)

// TestChangeBuffer checks that the change buffer receives exactly the entries that have changed rows. It must not
// receive entries that the log rejected, entries that a restore does not need, or entries while the buffer is inactive.
// If only a part of an entry is in the store after a crash, the entry must be a gap.
func TestChangeBuffer(t *testing.T) {
	b := newBench(t)
	j := changebuffer.New(1 << 20)
	defer j.Close()
	b.host.opts.ChangeBuffer = j
	low, high := half(false, 3), half(true, 1)
	b.entry(lower, 11, stamped(low[0], 1, 1, 0))
	j.KeepAlive()
	first, second := stamped(low[1], 2, 2, 0), stamped(low[2], 3, 3, 0)
	refused := stamped(high[0], 4, 4, 0)
	results := b.entry(lower, 12, first, refused, second)
	if _, ok := results[1].(error); !ok {
		t.Fatalf("a write to another partition's key was not rejected: %v", results)
	}
	b.entry(lower, 13, &command.Entry{Kind: command.EntryRequire, SchemaVersion: 9, Epoch: b.meta(lower).Epoch,
		Span: b.meta(lower).Span})
	if results := b.entry(lower, 14, stamped(low[0], 5, 5, 8)); !errors.Is(results[0].(error), ErrStaleSchema) {
		t.Fatalf("a write for an old schema: %v", results)
	}
	span := b.meta(lower).Span
	b.entry(lower, 15, &command.Entry{Kind: command.EntryTruncate, Epoch: b.meta(lower).Epoch, Span: span})
	want := [][]byte{command.AppendEntry(nil, first), command.AppendEntry(nil, second)}
	all := func(uint64, []byte) bool { return true }
	n := 0
	err := j.Each(uint64(lower), 11, 15, func(index uint64, c []byte) bool {
		switch {
		case n < 2 && index == 12 && bytes.Equal(c, want[n]):
		case n == 2 && index == 15:
		default:
			t.Errorf("entry %d has %x", index, c)
		}
		n++
		return true
	})
	if err != nil || n != 3 {
		t.Errorf("%d commands are kept, want 3: %v", n, err)
	}
	if err := j.Each(uint64(lower), 10, 15, all); !errors.Is(err, changebuffer.ErrGone) {
		t.Errorf("entries applied before the first request: got %v", err)
	}
	if invariant.Enabled {
		b.commit()
		return // invariant P6 detects the manual change of the meta
	}
	b.host.Replica(1).ahead.meta.Begun = keys.Begun{Index: 16, Commands: 1}
	b.entry(lower, 16, stamped(low[1], 6, 6, 0), stamped(low[2], 7, 7, 0))
	if err := j.Each(uint64(lower), 15, 16, all); !errors.Is(err, changebuffer.ErrGone) {
		t.Errorf("an entry of which a part was applied by another process: %v", err)
	}
	b.commit()
}
