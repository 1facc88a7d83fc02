// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// hops records the functions through which a request passes, in order.
type hops struct {
	mu    sync.Mutex
	lines []string
	// birth is the log index before the first traced write.
	birth uint64
}

func (h *hops) note(format string, args ...any) {
	h.mu.Lock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
	h.mu.Unlock()
}

// hopSequencer records the calls between a replica and its sequencer.
type hopSequencer struct {
	sequencer
	*hops
	kind string
}

func (s *hopSequencer) propose(term uint64, entry []byte, w raftgroup.Waiter) error {
	var e command.Entry
	if err := command.DecodeEntry(&e, entry); err != nil {
		return err
	}
	m := e.Mutations[0]
	s.note(
		"%s: an entry with one mutation of key %s, stamped: %v",
		s.kind,
		m.Key,
		row.Timestamp(m.Ops[0].Operand) == m.Timestamp && m.Timestamp > 0,
	)
	return s.sequencer.propose(term, entry, &hopWaiter{w, s.hops})
}

func (s *hopSequencer) admit(ctx context.Context, level dberr.Consistency, here bool) (leaseToken, error) {
	t, err := s.sequencer.admit(ctx, level, here)
	s.note("%s: admits a read, follower %v, %v", s.kind, t.follower, err)
	return t, err
}

func (s *hopSequencer) confirmRead(ctx context.Context, t leaseToken, q *command.Read) error {
	err := s.sequencer.confirmRead(ctx, t, q)
	s.note("%s: confirms the read, %v", s.kind, err)
	return err
}

type hopWaiter struct {
	raftgroup.Waiter
	*hops
}

func (w *hopWaiter) applied() {
	w.note("applier: readers on this node see it")
	if e, ok := w.Waiter.(appliedNotifier); ok {
		e.applied()
	}
}

func (w *hopWaiter) Done(o raftgroup.Outcome) {
	w.note("sequencer: ends, applied at index +%d, %v", o.Index-w.birth, o.Err)
	w.Waiter.Done(o)
}

type hopVisitor struct{ *hops }

func (v hopVisitor) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	v.note("store: logical partition %s", key)
	return command.More, nil
}

func (v hopVisitor) Row(_ []byte, r *row.Row) (command.Step, error) {
	v.note("store: a row with %d cell, passed on as it is stored", len(r.Cells))
	return command.More, nil
}

// TestHops compares every hop of a write and of a read below the coordinator with testdata/hops.txt, on one node and in
// a replica set of four. Both cases must use the same path except for the sequencer.
func TestHops(t *testing.T) {
	var out strings.Builder
	trace := func(title string, r *Replica, kind string, sync func(*hops)) {
		h := &hops{birth: r.Applied()}
		seq := r.seq
		r.seq = &hopSequencer{seq, h, kind}
		sync(h)
		h.note("replica: Write")
		if err := write(t.Context(), r, put("k", 7)); err != nil {
			t.Fatal(err)
		}
		sync(nil)
		h.note("completion: told")
		h.note("replica: Read")
		k := []byte("k")
		q := &command.Read{Table: testTable, Key: k, Token: token.Hash(k), Level: dberr.Quorum}
		if err := r.Read(t.Context(), q, hopVisitor{h}); err != nil {
			t.Fatal(err)
		}
		r.seq = seq
		fmt.Fprintf(&out, "%s\n  %s\n", title, strings.Join(h.lines, "\n  "))
	}
	for _, mode := range []Durability{Synced, Periodic} {
		s := newStore(t)
		h := open(t, s, 1, Options{Durability: mode})
		trace(fmt.Sprintf("one node, durability %d", mode), h.Replicas()[0], "local sequencer", func(h *hops) {
			if mode == Periodic {
				return // the sync occurs at varying times
			}
			s.syncing = nil
			if h != nil {
				s.syncing = func() error { h.note("syncer: syncs the store"); return nil }
			}
		})
		closeHost(t, h)
	}
	w := newTestCluster(t, 4)
	p := w.newTable(0, 1, 2, 3)
	lead := w.leader(p.ID)
	if err := w.write(p.ID, "k", 1); err != nil {
		t.Fatal(err)
	}
	w.same(p.ID, 0, 1, 2, 3)
	trace("a replica set of four, at its leader", w.replica(lead, p.ID), "Raft sequencer", func(*hops) {})
	w.same(p.ID, 0, 1, 2, 3)
	want, err := os.ReadFile("testdata/hops.txt")
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s\nall of it:\n%s", diff, out.String())
	}
}
