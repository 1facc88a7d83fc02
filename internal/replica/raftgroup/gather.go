// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node that leads many groups pays for entries, not for commands: each entry of a group is a message to every
// follower, an append and an apply on every replica, and what raft does about each. So under load proposals gather, not
// only within a group behind its own entries, but over all groups of the node: while Options.UnappliedNode entries are
// under way, nothing is proposed; when half of them have been applied, all that has gathered is proposed in one step,
// and goes out in one frame to each node. The window is as long as the entries take, so a node that has little to do
// has none.
//
// An entry that takes long counts no more: groups without a quorum must not hold up those that have one.

// gatherTicks is how long an entry counts.
const gatherTicks = 2

// count notes an entry that was proposed.
func (h *Host) count(f *flight) {
	f.counted, f.proposed = true, h.ticks
	h.unapplied++
}

// landed notes that an entry is applied, or not waited for any more.
func (h *Host) landed(f *flight) {
	if !f.counted {
		return
	}
	f.counted = false
	h.unapplied--
	if h.gathering && h.unapplied <= h.opts.UnappliedNode/2 {
		h.gathering = false
		for i, g := range h.gathered {
			h.gathered[i] = nil
			g.gathered = false
			h.mark(g)
		}
		h.gathered = h.gathered[:0]
	}
}

// gathers reports whether the group has to wait before it proposes.
func (h *Host) gathers(g *Group) bool {
	if h.gathering && !g.gathered {
		g.gathered = true
		h.gathered = append(h.gathered, g)
	}
	return h.gathering
}

// proposesLater reports whether a proposal would wait for entries under way, whose end wakes the loop in any case.
// Between Steps only.
func (h *Host) proposesLater(g *Group) bool {
	return h.gathering || len(g.inflight) >= h.opts.UnappliedEntries
}

// asksLater reports the same of a read at a follower that waits for the answer to a question.
func (h *Host) asksLater(g *Group) bool { return !g.leading && g.reads.round != 0 }

// tickGathered lets go of entries that take long.
func (h *Host) tickGathered(g *Group) {
	for i := range g.inflight {
		f := &g.inflight[i]
		if h.ticks-f.proposed <= gatherTicks {
			return
		}
		h.landed(f)
	}
}
