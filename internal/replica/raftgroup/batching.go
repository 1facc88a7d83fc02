// SPDX-License-Identifier: Apache-2.0

package raftgroup

// The cost of a node that leads many groups depends on the number of entries instead of the number of commands. Each
// entry requires a message to every follower and an append and an apply on every replica. Under load, proposals are
// therefore batched. A group queues its proposals while its own entries are in flight. In addition, all groups queue
// their proposals while Options.UnappliedNode entries of the node are in flight. When half of these entries have been
// applied, all queued proposals are proposed in one step and sent in one frame per node. An idle node does not delay
// proposals.
//
// A slow entry stops counting after batchTicks, because groups without a quorum must not delay groups with a quorum.

// batchTicks is the number of ticks for which an entry counts.
const batchTicks = 2

// batcher delays proposals while too many entries of the node's groups are unapplied.
type batcher struct {
	host *Host
	// unapplied is the number of proposed entries that have not been applied. full reports whether unapplied is too
	// high. waiting holds the groups whose proposals wait.
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

// endStep is called at the end of a step. It starts batching if too many entries are in flight.
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

// proposalWaits reports whether a proposal would wait for entries in flight. It must be called between steps.
func (g *Group) proposalWaits() bool {
	h := g.host
	return h.batcher.full || len(g.pending.inflight) >= h.opts.UnappliedEntries
}

// readWaits reports whether a follower's read would wait for the reply to a query in flight. It must be called between
// steps.
func (g *Group) readWaits() bool { return !g.leading && g.reads.round != 0 }
