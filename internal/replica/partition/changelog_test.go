// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestImagesAreBounded checks that the images of one mutation are logged only up to imagesMax bytes. A larger change
// must be logged without images.
func TestImagesAreBounded(t *testing.T) {
	image := storage.Image{Clustering: []byte("c"), After: row.Row{Cells: []row.Cell{{Column: 1,
		Value: bytes.Repeat([]byte("x"), imagesMax/2), Timestamp: 5, Expiry: row.NoExpiry}}}}
	x := changeWriter{log: &command.ChangeLog{Keep: 60}, now: 100}
	for range 2 {
		x.row(&image)
	}
	if len(x.ops) != 2 || len(x.ops[0].Operand) < imagesMax/2 || len(x.ops[1].Operand) > 100 {
		t.Fatalf("%d entries of %d and %d bytes", len(x.ops), len(x.ops[0].Operand), len(x.ops[1].Operand))
	}
	row.Stamp(x.ops[1].Operand, 7)
	var kept row.Row
	if _, err := kept.Resolve(x.ops[1].Operand, row.NotDeleted, 100, nil); err != nil ||
		kept.Cell(command.ChangeKind) == nil || kept.Cell(command.ChangeRowAfter) != nil {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, due, err := row.Check(x.ops[0].Operand); err != nil || due != 100+60+command.ChangeGrace {
		t.Errorf("it expires at %d, %v", due, err)
	}
}

// TestSweepLatched checks that a sweep of a table with a change log waits for requests that have read rows and have not
// written yet. Other requests must wait for the sweep, because it may remove deletions that hide a write.
func TestSweepLatched(t *testing.T) {
	w := newTestCluster(t, 1)
	p := w.newTable(0)
	if err := w.write(p.ID, "k", 1); err != nil {
		t.Fatal(err)
	}
	r, m := w.replica(0, p.ID), put("k", 1)
	latches, stripe := r.host.latches, stripeOf(m.Table, m.Token)
	g, err := latches.acquire(t.Context(), stripe, r, m.Key, oneKey)
	if err != nil {
		t.Fatal(err)
	}
	sweep := &command.Sweep{Table: testTable, Horizon: time.Now().Unix(),
		Keys: [][]byte{keys.AppendDeletions(nil, testTable, m.Token, m.Key)}}
	ended := make(chan error, 1)
	go func() { ended <- w.nodes[0].host.Load().Sweep(t.Context(), sweep, true) }()
	eventually.True(t, "the sweep to wait", func() bool {
		s := &latches.stripes[stripe]
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.entries) == 2
	})
	select {
	case err := <-ended:
		t.Fatalf("the sweep has ended: %v", err)
	default:
	}
	if err := w.nodes[0].host.Load().Sweep(t.Context(), sweep, false); err != nil {
		t.Errorf("a sweep that need not wait: %v", err)
	}
	latches.leave(g)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := w.add(p.ID, "counter"); err != nil {
		t.Errorf("latches are held after the sweep: %v", err)
	}
}

// TestStampsAbove checks that conditional writes and logged parts of batches get timestamps above Table.StampsAbove,
// even if the leader's clock is behind Table.StampsAbove. The entries of a re-enabled change feed must have higher
// timestamps than earlier entries.
func TestStampsAbove(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := newStore(t)
	above := now.Add(time.Second).UnixMicro()
	s.InstallTable(storage.Table{ID: testTable, StampsAbove: above})
	h := open(t, s, 1, Options{Durability: Synced, Clock: testClock(func() time.Time { return now })})
	defer closeHost(t, h)
	r := h.Replicas()[0]
	if d, err := decide(t.Context(), r, add("k", 5)); err != nil || d.Timestamp <= above {
		t.Errorf("a conditional: %+v, %v, want a stamp above %d", d, err, above)
	}
	s.InstallTable(storage.Table{ID: testTable, StampsAbove: above + 1_000_000})
	c := add("k", 5)
	c.Log = &command.ChangeLog{}
	done := make(result, 1)
	if err := r.WriteAll(t.Context(), []Part{{Mutation: &c.Mutation, Updates: c}}, done); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || h.NewestStamp() <= above+1_000_000 {
		t.Errorf("a logged part of a batch: %v, the newest stamp is %d", err, h.NewestStamp())
	}
}
