// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "sync/atomic"

// Host holds the Raft state of all groups of a node. Only one goroutine, the loop, may call Step and the other methods.
// Group has methods for other goroutines.
type Host struct {
	opts Options
	logs logs

	groups map[uint64]*Group // iterate over order instead of this map
	// leaving holds closed groups whose logs have not been destroyed. Open rejects their IDs.
	leaving map[uint64]bool
	order   []*Group

	// now and ticks are the current time of the step. ticking is true if the step has ticks. If it has ticks, now is a
	// reading of the boot clock. coarse is the value of Inbox.Coarse.
	now             Instant
	ticks           uint64
	ticking, coarse bool
	// dirty holds the groups with unprocessed events. spareDirty is memory for the next list.
	dirty, spareDirty []*Group
	work              Work

	peers   peers
	policy  leadershipPolicy
	batcher batcher
	// early holds vote requests for groups that do not exist yet.
	early earlyVotes
	// notifying holds groups whose followers must be notified of a commit (see commitNotifier).
	notifying []*Group
	// lowDisk is true while the disk has little free space (see SetLowDisk).
	lowDisk bool
	// waking is true while some groups of a dead peer are still quiescent.
	waking bool
	// logQueued is the size of the entries that wait for the log writer, in bytes.
	logQueued int64
	// snapshotsHeld is the number of incoming snapshots that have been neither installed nor discarded.
	snapshotsHeld int

	// proposed is the size of the uncompleted proposals of all groups, in bytes.
	proposed atomic.Int64
}

// NewHost returns a host without groups. The host owns batch.
func NewHost(log Log, batch LogBatch, o Options) *Host {
	h := &Host{
		opts: o.withDefaults(), logs: logs{log, batch}, groups: map[uint64]*Group{}, leaving: map[uint64]bool{},
	}
	h.peers.clocks = newClocks()
	h.peers.at, h.peers.queriesSent = h.peers.clocks.stamp(0), uint64(uint32(h.peers.clocks.salt))
	h.batcher.host = h
	h.policy.node, h.policy.peers = o.Node, &h.peers
	return h
}

// Options returns the options, including defaults.
func (h *Host) Options() Options { return h.opts }

// Group returns a group by its ID, or nil if the group does not exist on this node. It must be called on the loop.
func (h *Host) Group(id uint64) *Group { return h.groups[id] }

// Groups returns all groups in the order in which they were opened. It must be called on the loop.
func (h *Host) Groups() []*Group { return h.order }

// Step processes the events in the inbox and returns the resulting work.
func (h *Host) Step(now Instant, in *Inbox) Work {
	h.now, h.ticking, h.coarse = now, in.Ticks > 0, in.Coarse
	h.peers.begin(now)
	for _, call := range in.Calls {
		call(h)
	}
	for i := range in.Logged {
		in.Logged[i].g.tail.logged(&in.Logged[i])
	}
	for i := range in.Applied {
		in.Applied[i].g.handleApplied(&in.Applied[i])
	}
	for i := range in.Installed {
		in.Installed[i].g.snapshots.installed()
	}
	for i := range in.Shipped {
		in.Shipped[i].g.snapshots.shipped(&in.Shipped[i])
	}
	for i := range in.Frames {
		h.receive(&in.Frames[i])
	}
	for _, node := range in.Unreachable {
		h.unreachable(node)
	}
	for i := range in.Proposals {
		in.Proposals[i].g.pending.enter(in.Proposals[i])
	}
	for i := range in.Reads {
		in.Reads[i].g.reads.enter(in.Reads[i])
	}
	for range in.Ticks {
		h.tick()
	}
	h.processDirty()
	h.notifyAll()
	h.batcher.endStep()
	h.work.Frames = h.peers.frames()
	w := h.work
	// Other goroutines own the returned slices. The next step needs slices of about the same capacity.
	h.work = Work{Appends: make([]Append, 0, len(w.Appends)), Applies: make([]Apply, 0, len(w.Applies))}
	return w
}

// processDirty processes dirty groups until no dirty group is left, and sends the queued queries of followers.
func (h *Host) processDirty() {
	for len(h.dirty) > 0 {
		dirty := h.dirty
		h.dirty = h.spareDirty[:0]
		for i, g := range dirty {
			dirty[i] = nil
			g.dirty = false
			g.processReady()
		}
		h.spareDirty = dirty
		for _, p := range h.peers.list {
			h.sendQueries(p)
		}
	}
}

func (h *Host) mark(g *Group) {
	if !g.dirty && !g.closed {
		g.dirty = true
		h.dirty = append(h.dirty, g)
	}
}

// tick advances the time by one tick, for peers and for groups that are awake.
func (h *Host) tick() {
	h.ticks++
	silenced := h.tickPeers()
	for _, g := range h.order {
		if !g.quiescence.quiet {
			g.tick()
		}
	}
	if silenced {
		for _, g := range h.order {
			if !g.quiescence.quiet && g.applied > 0 && g.election.leaderDown() {
				g.election.electSuccessor(h.opts.ElectionTicks)
			}
		}
	}
	if h.waking {
		h.wakeSome()
	}
	// Offers must be more frequent than one per election timeout, because the library resets its record of active
	// replicas once per election timeout.
	if h.policy.abstains && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
		h.offerAll()
	}
}

// Close removes a group from the host. Requests in progress fail. idle is called on the loop when the applier has no
// work for the group and no snapshot is being installed. To remove the replica, the caller must then durably remove the
// state before the log. In the reverse order, a crash could leave a replica that has forgotten its votes. Open rejects
// the ID with ErrLeaving until the log is destroyed.
func (h *Host) Close(id uint64, idle func(g *Group)) {
	g := h.groups[id]
	if g == nil {
		return
	}
	g.stepDown()
	g.close()
	delete(h.groups, id)
	h.leaving[id] = true
	for i, o := range h.order {
		if o == g {
			h.order = append(h.order[:i:i], h.order[i+1:]...)
			break
		}
	}
	g.idleThen = idle
	g.checkIdle()
}

// DestroyLog removes the log of a closed group. The ID of the group can then be opened again.
func (h *Host) DestroyLog(g *Group) {
	h.work.Appends = append(h.work.Appends, Append{g: g, destroy: true})
}
