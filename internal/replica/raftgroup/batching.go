// SPDX-License-Identifier: Apache-2.0

package raftgroup

// The cost of a node that leads many groups depends on the number of entries instead of the number of commands. Each
// entry of a group requires a message to every follower, an append and an apply on every replica, and the library's
// work for each of them. Under load, proposals are therefore batched. A group batches them while its own entries are in
// flight, and all groups of the node batch them together. While Options.UnappliedNode entries are in flight, no
// proposal is made. When half of these entries have been applied, all queued proposals are proposed in one step and
// sent in one frame per node. The delay equals the time that the entries take, so an idle node has no delay.
//
// A slow entry is not counted after some time, because groups without a quorum must not delay groups with a quorum.

// batchTicks is the number of ticks for which an entry is counted.
const batchTicks = 2

// batcher delays proposals while too many entries of the node's groups are unapplied.
type batcher struct {
	host *Host
	// unapplied is the number of entries that have been proposed and not applied. full reports whether this number is
	// too high. waiting holds the groups whose proposals wait.
	unapplied int
	full      bool
	waiting   []*Group
}

// count records a proposed entry.
func (w *batcher) count(f *pendingProposal) {
	f.counted, f.proposed = true, w.host.ticks
	w.unapplied++
}

// applied records that an entry has been applied or has stopped counting.
func (w *batcher) applied(f *pendingProposal) {
	if !f.counted {
		return
	}
	f.counted = false
	w.unapplied--
	if w.full && w.unapplied <= w.host.opts.UnappliedNode/2 {
		w.full = false
		for i, g := range w.waiting {
			w.waiting[i] = nil
			g.pending.held = false
			w.host.mark(g)
		}
		w.waiting = w.waiting[:0]
	}
}

// endStep is called at the end of a step. After that, proposals are batched if too many entries are in flight.
func (w *batcher) endStep() { w.full = w.full || w.unapplied >= w.host.opts.UnappliedNode }

// holds reports whether the group must wait before it proposes.
func (w *batcher) holds(g *Group) bool {
	if w.full && !g.pending.held {
		g.pending.held = true
		w.waiting = append(w.waiting, g)
	}
	return w.full
}

// tick stops counting the slow entries of a group.
func (w *batcher) tick(g *Group) {
	for i := range g.pending.inflight {
		f := &g.pending.inflight[i]
		if w.host.ticks-f.proposed <= batchTicks {
			return
		}
		w.applied(f)
	}
}

// proposalWaits reports whether a proposal would wait for entries in flight. The end of these entries wakes the loop in
// any case. It must be called between steps.
func (g *Group) proposalWaits() bool {
	h := g.host
	return h.batcher.full || len(g.pending.inflight) >= h.opts.UnappliedEntries
}

// readWaits reports whether a read at a follower would wait for the reply to a query in flight. It must be called
// between steps.
func (g *Group) readWaits() bool { return !g.leading && g.reads.round != 0 }
