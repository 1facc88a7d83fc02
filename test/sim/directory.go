// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// damage is the kind of damage to a node's data directory.
type damage uint8

const (
	noDamage damage = iota
	noLog           // the log is missing
	noRows          // everything except the log is missing
	nothing         // everything is missing, but the configuration contains the node's identity
	oldLog          // the log is from an earlier start
	oldRows         // everything except the log is from an earlier start
	oldBoth         // everything is from an earlier start, as if the node started on an old copy
)

func (d damage) String() string {
	return [...]string{"whole", "without its log", "without its rows", "empty", "with an old log", "with old rows",
		"old"}[d]
}

// These are the parts of a data directory.
const (
	logDir  = "data/log"
	rowsDir = "data/rows"
)

// harm describes the damage to a node's directory until the directory is repaired.
type harm struct {
	damage
	// original is the undamaged directory.
	original *vfs.MemFS
	// refused is the number of rejected starts.
	refused int
}

// refusedTwice is the number of times that a directory must be rejected before it is repaired. A rejected directory
// remains rejected.
const refusedTwice = 2

// mayLoseDisk reports whether a disk may be lost now. Only one disk may be lost at a time, and only when all
// replica sets are complete.
func (w *simulation) mayLoseDisk() bool {
	leader := w.leaderOf(topology.MetaPartition)
	if leader == nil || !leader.whole() {
		return false
	}
	for _, n := range w.nodes {
		if n.Host == nil || n.harm != nil {
			return false
		}
	}
	return true
}

// whenDiskExpendable calls do as soon as a disk may be lost, or gives up after a few seconds. It must wait because
// replicas are being moved most of the time.
func (w *simulation) whenDiskExpendable(do func()) {
	end := w.Now + 3*time.Second
	var look func()
	look = func() {
		switch {
		case w.Calm || w.Now > end:
		case w.mayLoseDisk():
			do()
		default:
			w.After(20*time.Millisecond, look)
		}
	}
	look()
}

// lose removes parts of a directory.
func (n *node) lose() {
	w := n.w
	w.Faults.Lost++
	n.crash()
	n.harm = &harm{damage: []damage{noLog, noRows, nothing}[w.Rand.IntN(3)], original: n.Keep()}
	n.makeDamage(nil)
}

// rollBack restores a directory, or part of a directory, to its state at the end of an earlier process.
func (n *node) rollBack() {
	w := n.w
	n.crash()
	n.harm = &harm{}
	kept, life := n.Keep(), n.Life
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
	w.After(w.Between(2*time.Second, 5*time.Second), func() {
		if !n.Up || n.Life != life || len(n.met) < voterCount-1 || w.Calm { // no other node can detect the old copy
			n.harm = nil
			return
		}
		w.Faults.RolledBack++
		n.crash()
		*n.harm = harm{damage: []damage{oldLog, oldRows, oldBoth, oldBoth}[w.Rand.IntN(4)], original: n.Keep()}
		n.makeDamage(kept)
	})
}

// makeDamage damages the disk and starts the node on it. kept is the earlier state of the directory.
func (n *node) makeDamage(kept *vfs.MemFS) {
	w := n.w
	w.Note("node %d: its directory is %v", n.ID, n.harm.damage)
	replace := func(dir string) error {
		if err := n.FS.RemoveAll(dir); err != nil || kept == nil {
			return err
		}
		_, err := vfs.Clone(kept, n.FS, dir, dir, vfs.CloneSync)
		return err
	}
	var err error
	switch n.harm.damage {
	case noLog, oldLog:
		err = replace(logDir)
	case noRows, oldRows:
		n.creations++
		err = replace(rowsDir)
	case nothing:
		n.creations++
		n.FS = vfs.NewCrashableMem()
	case oldBoth:
		n.FS = kept
	}
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
	}
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
}

// damaged reports whether the node's directory must not be used.
func (n *node) damaged() bool { return n.harm != nil && n.harm.damage != noDamage }

// notStarted handles an error that ended the start or the run of the node.
func (n *node) notStarted(err error) {
	w := n.w
	n.close()
	if !n.damaged() && n.disputed {
		// A node without newer information has admitted the other directory. This directory therefore lacks the
		// promises that the node made with the other directory.
		w.Note("node %d, put back: %v", n.ID, err)
		n.newDisk()
		w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
		return
	}
	if !n.damaged() {
		w.Fail("node %d does not start: %v", n.ID, err)
		return
	}
	if local := n.harm.damage == noLog || n.harm.damage == noRows || n.harm.damage == oldLog; local &&
		!strings.Contains(err.Error(), "the Raft log") {
		w.Fail("node %d, %v: rejected for an unexpected reason: %v", n.ID, n.harm.damage, err)
		return
	}
	w.Note("node %d, %v: %v", n.ID, n.harm.damage, err)
	w.counts.RefusedStarts++
	if n.harm.refused++; n.harm.refused < refusedTwice {
		w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
		return
	}
	original := n.harm.original
	n.harm = nil
	if w.OneIn(2) {
		w.Note("node %d: its directory is put back", n.ID)
		n.FS = original
	} else {
		n.newDisk()
	}
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
}

// newDisk turns the node into a new node with an empty disk.
func (n *node) newDisk() {
	w := n.w
	if gone := n.self(); w.OneIn(2) {
		w.After(w.Between(time.Second, 5*time.Second), func() {
			if leader := w.leaderOf(topology.MetaPartition); leader != nil {
				leader.Spawn(func(*simenv.Task) { leader.giveUp(gone) })
			}
		})
	}
	n.wipes++
	n.disputed = false
	n.FS = vfs.NewCrashableMem()
	w.Note("node %d has lost its disk", n.ID)
}

// checkDamage checks that no node runs on a directory that must not be used.
func (w *simulation) checkDamage() {
	for _, n := range w.nodes {
		if n.damaged() && n.Up {
			w.Fail("node %d runs on a bad directory: %v", n.ID, n.harm.damage)
		}
	}
}

// fail ends the process after a fatal error.
func (n *node) fail(err error) {
	n.AfterLife(1, func() { n.notStarted(err) })
}

// livesAt identifies a process run of a node.
type livesAt struct {
	node topology.NodeID
	life int
}

// connected reports whether two nodes admit each other in the handshake of a connection.
func (n *node) connected(other *node) bool {
	return n == other || n.admits(other) && other.admits(n)
}

func (n *node) admits(other *node) bool {
	if n.originals == nil || other.originals == nil {
		return true // no message arrives while one of the nodes is down
	}
	at := livesAt{other.self(), other.Life}
	if admitted, known := n.met[at]; known {
		return admitted
	}
	p := transport.Peer{Node: other.self(), Levels: feature.Known,
		History: string(other.originals.Directory.History.Append(nil))}
	err := n.plantAdmission(n.originals.Admit(p))
	switch {
	case err == nil:
		n.originals.RecordStart(p)
		other.disputed = other.disputed || other.damaged()
		n.met[at] = true
		return true
	case errors.Is(err, transport.ErrCopiedDirectory):
		n.met[at] = false
		refusal := &transport.Refused{Reason: transport.ErrCopiedDirectory, Text: err.Error(), ByPeer: true}
		other.AfterLife(n.w.Net.Delay(n.ID, other.ID), func() {
			if other.originals != nil {
				other.originals.HandleUnreachable(refusal)
			}
		})
	}
	return false
}
