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

// PartialCrashes counts the crashes during a step of the applier or during the installation of a snapshot. A step is
// one event of the simulation, so the simulator saves the state of the disk in the middle of the step. The process
// runs to the end of the step, but its messages are discarded.
type PartialCrashes struct {
	// Committed counts crashes between the commit of a batch and the next batch. Unsynced counts crashes before a sync
	// of the store. Synced counts crashes after the sync, before logs are created or removed. Raised counts crashes
	// while the directory has a newer feature level than the partition. Installed counts crashes while the rows of a
	// snapshot are on disk but its log is not.
	Committed, Unsynced, Synced, Raised, Installed int
}

// each calls f with the name and the address of each counter.
func (h *PartialCrashes) each(f func(name string, n *int)) {
	f("the commits of a step", &h.Committed)
	f("the commit and the sync of a step", &h.Unsynced)
	f("the sync of a step and its end", &h.Synced)
	f("the parts of an installation", &h.Installed)
}

// partialCrashesMax is the maximum number of these crashes in a run.
const partialCrashesMax = 2

// partialCrashState holds the state that a node needs for these crashes.
type partialCrashState struct {
	dice *rand.Rand
	// amid is set while the node applies an entry that changes a partition's token range or freezes the partition.
	amid bool
	// left is the state of the disk after the crash. The process ends when the step ends.
	left *vfs.MemFS
}

// partialCrash crashes the process with a probability of 1/odds, or more often during a change of a partition. Runs
// with planted bugs have no partial crashes, because partial crashes would replace other crashes.
func (n *node) partialCrash(what *int, odds int) {
	w, h := n.w, &n.partialCrashState
	if !w.plan.With.StepFaults || w.plan.Bugs != (Bugs{}) || w.Calm || !n.Midway || h.left != nil ||
		w.partialCrashes >= partialCrashesMax || w.spares(n) {
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
	w.partialCrashes++
	*what++
	percent := 0
	if h.dice.IntN(2) == 0 {
		percent = 100
	}
	h.left = n.Left(percent)
}

// crashedInStep ends the process if it has crashed within the step.
func (n *node) crashedInStep() bool {
	left := n.partialCrashState.left
	if left == nil {
		return false
	}
	n.partialCrashState.left = nil
	n.ended(func() { n.CrashAs(left, n.close) })
	n.w.After(n.w.Between(10*time.Millisecond, restartMost), n.restart)
	return true
}

// halting is a store that may crash the process within a step.
type halting struct {
	partition.Stored
	n *node
}

// NewBatch implements partition.Store.
func (s halting) NewBatch() *storage.Batch {
	s.n.partialCrash(&s.n.w.counts.PartialCrashes.Committed, 10_000)
	return s.Stored.NewBatch()
}

func (s halting) Sync() error {
	s.n.partialCrash(&s.n.w.counts.PartialCrashes.Unsynced, 2000)
	err := s.Stored.Sync()
	s.n.partialCrash(&s.n.w.counts.PartialCrashes.Synced, 2000)
	return err
}

func (s halting) Raise(level feature.Level) error {
	err := s.Stored.Raise(level)
	s.n.partialCrash(&s.n.w.counts.PartialCrashes.Raised, 8)
	return err
}

func (s halting) InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error,
	absorbed ...uint64) error {
	err := s.Stored.InstallSnapshot(ctx, own, r, change, absorbed...)
	s.n.partialCrash(&s.n.w.counts.PartialCrashes.Installed, 60)
	return err
}
