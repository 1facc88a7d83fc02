// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Halfway count the crashes within one step of the applier, or within one installation: a step is one event of the
// simulation, so the disk is kept as it is in the middle of it, and the process goes on to its end with nobody
// listening.
type Halfway struct {
	// Committed: before a batch is begun, after the one before was committed. Unsynced: before the store is synced.
	// Synced: after that, before logs are made or removed. Raised: the directory has a feature level that the
	// partition has not. Installed: the rows of a snapshot are there, before the log is.
	Committed, Unsynced, Synced, Raised, Installed int
}

// each calls f with all of them, and how they are called.
func (h *Halfway) each(f func(name string, n *int)) {
	f("the commits of a step", &h.Committed)
	f("the commit and the sync of a step", &h.Unsynced)
	f("the sync of a step and its end", &h.Synced)
	f("the parts of an installation", &h.Installed)
}

// halfwayMax bounds them in a run.
const halfwayMax = 2

// halfways is what a node needs for them.
type halfways struct {
	dice *rand.Rand
	// amid is set while an entry is applied that changes the span of a partition, or freezes it.
	amid bool
	// left is what the crash will leave on the disk that ends the process when the step does.
	left *vfs.MemFS
}

// halfway may have the process crash here: once in so many, more often amid a change of a partition. Planted bugs are
// looked for without such crashes, which take the place of others.
func (n *node) halfway(what *int, odds int) {
	w, h := n.w, &n.halfways
	if !w.plan.With.Strikes || w.plan.Bugs != (Bugs{}) || w.Calm || !n.Midway || h.left != nil ||
		w.halfway >= halfwayMax || w.spares(n) {
		return
	}
	if h.dice == nil {
		h.dice = rand.New(rand.NewPCG(w.plan.Seed, 0x4a1f+uint64(n.ID)))
	}
	if h.amid {
		odds = min(odds, 8)
	}
	if h.dice.IntN(odds) > 0 {
		return
	}
	w.halfway++
	*what++
	percent := 0
	if h.dice.IntN(2) == 0 {
		percent = 100
	}
	h.left = n.Left(percent)
}

// fell ends the process if it has crashed halfway.
func (n *node) fell() bool {
	left := n.halfways.left
	if left == nil {
		return false
	}
	n.halfways.left = nil
	n.ended(func() { n.CrashAs(left, n.close) })
	n.w.After(n.w.Between(10*time.Millisecond, restartMost), n.restart)
	return true
}

// halting is a store at whose steps the process may crash.
type halting struct {
	partition.Stored
	n *node
}

// NewBatch implements partition.Store, as do the others.
func (s halting) NewBatch() *storage.Batch {
	s.n.halfway(&s.n.w.counts.Halfway.Committed, 10_000)
	return s.Stored.NewBatch()
}

func (s halting) Sync() error {
	s.n.halfway(&s.n.w.counts.Halfway.Unsynced, 2000)
	err := s.Stored.Sync()
	s.n.halfway(&s.n.w.counts.Halfway.Synced, 2000)
	return err
}

func (s halting) Raise(level feature.Level) error {
	err := s.Stored.Raise(level)
	s.n.halfway(&s.n.w.counts.Halfway.Raised, 8)
	return err
}

func (s halting) InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error,
	absorbed ...uint64) error {
	err := s.Stored.InstallSnapshot(ctx, own, r, change, absorbed...)
	s.n.halfway(&s.n.w.counts.Halfway.Installed, 60)
	return err
}
