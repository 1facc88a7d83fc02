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
	"github.com/ilion-db/ilion/test/sim/world"
)

// damage is what has happened to the data directory of a node.
type damage uint8

const (
	noDamage damage = iota
	noLog           // the log is gone
	noRows          // all but the log is gone
	nothing         // all is gone, and the node has its identity from elsewhere
	oldLog          // the log is that of an earlier start
	oldRows         // all but the log is
	oldBoth         // all is: a copy that was made then is started
)

func (d damage) String() string {
	return [...]string{"whole", "without its log", "without its rows", "empty", "with an old log", "with old rows",
		"old"}[d]
}

// The parts of a data directory.
const (
	logDir  = "data/log"
	rowsDir = "data/rows"
)

// harm is what is done to the directory of a node, until it is made good.
type harm struct {
	damage
	// original is the directory before.
	original *vfs.MemFS
	// refused counts the starts that were refused.
	refused int
}

// refusedTwice is how often a directory has to be refused before it is made good: what was refused once stays so.
const refusedTwice = 2

// quietOtherwise reports whether a disk may be lost now: one at a time, and only when all replica sets are whole.
func (w *simulation) quietOtherwise() bool {
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

// onceQuiet does something as soon as a disk may be lost, within a few seconds: replicas are on their way most of the
// time.
func (w *simulation) onceQuiet(do func()) {
	end := w.Now + 3*time.Second
	var look func()
	look = func() {
		switch {
		case w.Calm || w.Now > end:
		case w.quietOtherwise():
			do()
		default:
			w.After(20*time.Millisecond, look)
		}
	}
	look()
}

// lose takes parts of a directory away.
func (n *node) lose() {
	w := n.w
	w.Faults.Lost++
	n.crash()
	n.harm = &harm{damage: []damage{noLog, noRows, nothing}[w.Rand.IntN(3)], original: n.Keep()}
	n.makeDamage(nil)
}

// rollBack puts a directory, or a part of it, back to what it was at the end of an earlier process.
func (n *node) rollBack() {
	w := n.w
	n.crash()
	n.harm = &harm{}
	kept, life := n.Keep(), n.Life
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
	w.After(w.Between(2*time.Second, 5*time.Second), func() {
		if !n.Up || n.Life != life || len(n.met) < voterCount-1 || w.Calm { // nobody knows better
			n.harm = nil
			return
		}
		w.Faults.RolledBack++
		n.crash()
		*n.harm = harm{damage: []damage{oldLog, oldRows, oldBoth, oldBoth}[w.Rand.IntN(4)], original: n.Keep()}
		n.makeDamage(kept)
	})
}

// makeDamage changes what is on the disk, and starts the node on it. kept is the directory as it was earlier.
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
		n.births++
		err = replace(rowsDir)
	case nothing:
		n.births++
		n.FS = vfs.NewCrashableMem()
	case oldBoth:
		n.FS = kept
	}
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
	}
	w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
}

// damaged reports whether the node's directory is one that must not be used.
func (n *node) damaged() bool { return n.harm != nil && n.harm.damage != noDamage }

// notStarted is told why the node does not start, or does not go on.
func (n *node) notStarted(err error) {
	w := n.w
	n.close()
	if !n.damaged() && n.disputed {
		// Somebody who knew no better has let the other directory in, and this one knows nothing of what was promised.
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
		!strings.Contains(err.Error(), "the log of the replica sets") {
		w.Fail("node %d, %v: refused for another reason: %v", n.ID, n.harm.damage, err)
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

// newDisk makes the node a new one.
func (n *node) newDisk() {
	w := n.w
	if gone := n.self(); w.OneIn(2) {
		w.After(w.Between(time.Second, 5*time.Second), func() {
			if leader := w.leaderOf(topology.MetaPartition); leader != nil {
				leader.Spawn(func(*world.Task) { leader.giveUp(gone) })
			}
		})
	}
	n.wipes++
	n.disputed = false
	n.FS = vfs.NewCrashableMem()
	w.Note("node %d has lost its disk", n.ID)
}

// checkDamage checks that nobody runs on a directory that must not be used.
func (w *simulation) checkDamage() {
	for _, n := range w.nodes {
		if n.damaged() && n.Up {
			w.Fail("node %d runs, its directory is %v", n.ID, n.harm.damage)
		}
	}
}

// fail ends the process, which cannot go on.
func (n *node) fail(err error) {
	n.AfterLife(1, func() { n.notStarted(err) })
}

// livesAt is one life of a node.
type livesAt struct {
	node topology.NodeID
	life int
}

// connected reports whether two nodes let each other in, as the two ends of a connection find out in its handshake.
func (n *node) connected(other *node) bool {
	return n == other || n.admits(other) && other.admits(n)
}

func (n *node) admits(other *node) bool {
	if n.originals == nil || other.originals == nil {
		return true // one of them is gone, and nothing arrives
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
