// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node that leads many groups pays for entries, not for commands: each entry of a group costs a message to every
// follower, an append and an apply on every replica, and the library's work for each of these. So under load proposals
// gather, not only within a group while its own entries are under way, but over all groups of the node: while
// Options.UnappliedNode entries are under way, nothing is proposed; when half of them have been applied, everything
// that has gathered is proposed in one step, and goes out in one frame to each node. The window is as long as the
// entries take, so a node that has little to do has none.
//
// An entry that takes long stops counting: groups without a quorum must not hold up those that have one.

// gatherTicks is how long an entry counts.
const gatherTicks = 2

// gathering holds proposals back while many entries of the node's groups are unapplied.
type gathering struct {
	host *Host
	// unapplied counts entries that are proposed and not applied. on says that they are too many; waiting are the
	// groups that wait for fewer.
	unapplied int
	on        bool
	waiting   []*Group
}

// count notes an entry that was proposed.
func (w *gathering) count(f *flight) {
	f.counted, f.proposed = true, w.host.ticks
	w.unapplied++
}

// landed notes that an entry is applied, or not waited for any more.
func (w *gathering) landed(f *flight) {
	if !f.counted {
		return
	}
	f.counted = false
	w.unapplied--
	if w.on && w.unapplied <= w.host.opts.UnappliedNode/2 {
		w.on = false
		for i, g := range w.waiting {
			w.waiting[i] = nil
			g.gathered = false
			w.host.mark(g)
		}
		w.waiting = w.waiting[:0]
	}
}

// stepped ends a step: from now on proposals gather if too many entries are under way.
func (w *gathering) stepped() { w.on = w.on || w.unapplied >= w.host.opts.UnappliedNode }

// holds reports whether the group has to wait before it proposes.
func (w *gathering) holds(g *Group) bool {
	if w.on && !g.gathered {
		g.gathered = true
		w.waiting = append(w.waiting, g)
	}
	return w.on
}

// tick lets go of a group's entries that take long.
func (w *gathering) tick(g *Group) {
	for i := range g.flights.inflight {
		f := &g.flights.inflight[i]
		if w.host.ticks-f.proposed <= gatherTicks {
			return
		}
		w.landed(f)
	}
}

// proposesLater reports whether a proposal would wait for entries under way, whose end wakes the loop in any case.
// Between Steps only.
func (h *Host) proposesLater(g *Group) bool {
	return h.gathering.on || len(g.flights.inflight) >= h.opts.UnappliedEntries
}

// asksLater reports the same of a read at a follower that waits for the answer to a question.
func (h *Host) asksLater(g *Group) bool { return !g.leading && g.reads.round != 0 }
