// SPDX-License-Identifier: Apache-2.0

package raftgroup

// A node that leads many groups pays per entry, not per command. Each entry of a group costs a message to every
// follower, an append and an apply on every replica, and the library's work for each of them. Under load, proposals are
// therefore batched, not only within a group while its own entries are in flight, but over all groups of the node.
// While Options.UnappliedNode entries are in flight, nothing is proposed. When half of them have been applied, all
// queued proposals are proposed in one step and sent in one frame per node. The delay is as long as the entries take,
// so an idle node has none.
//
// A slow entry stops counting: groups without a quorum must not delay groups that have one.

// batchTicks is the time that an entry counts.
const batchTicks = 2

// batcher holds proposals back while too many entries of the node's groups are unapplied.
type batcher struct {
	host *Host
	// unapplied counts the entries that are proposed and not applied. full reports whether there are too many. waiting
	// holds the groups that wait.
	unapplied int
	full      bool
	waiting   []*Group
}

// count records a proposed entry.
func (w *batcher) count(f *pendingProposal) {
	f.counted, f.proposed = true, w.host.ticks
	w.unapplied++
}

// applied records that an entry is applied or no longer waited for.
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

// endStep is called at the end of a step. From then on, proposals are batched if too many entries are in flight.
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

// proposalWaits reports whether a proposal would wait for entries in flight, whose end wakes the loop anyway. It must
// be called between steps.
func (g *Group) proposalWaits() bool {
	h := g.host
	return h.batcher.full || len(g.pending.inflight) >= h.opts.UnappliedEntries
}

// readWaits reports whether a read at a follower would wait for the reply to a query in flight. It must be called
// between steps.
func (g *Group) readWaits() bool { return !g.leading && g.reads.round != 0 }
