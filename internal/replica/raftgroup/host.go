// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "sync/atomic"

// Host owns the Raft state of all groups of a node. Step and the other methods belong to one goroutine, the loop; what
// others may call is on Group.
type Host struct {
	opts  Options
	log   Log
	batch LogBatch // for Open only

	groups map[uint64]*Group // never ranged over: order is
	// leaving are closed groups whose log may still be written or destroyed: their ids are not opened again before
	// that.
	leaving map[uint64]bool
	order   []*Group

	// now and ticks are the time of the step. ticking is true in one with ticks: then now is the boot clock's. coarse
	// is Inbox.Coarse.
	now             Instant
	ticks           uint64
	ticking, coarse bool
	// dirty are the groups in which something happened and that are to be pumped.
	// pumped is memory for the next ones.
	dirty, pumped []*Group
	work          Work

	peers  peers
	clocks clocks
	// asked counts the questions of followers here; it begins at a random number, so that answers to an earlier process
	// are not taken.
	asked     uint64
	gathering gathering
	// early are votes that were asked for of groups that are still to come.
	early earlyVotes
	// telling are groups whose followers are to be told of a commit, see news.
	telling []*Group
	// handing is true from the first Handover on: no leadership that is offered is taken any more. abstains and
	// abstaining are what Abstain and Abstaining said last.
	handing, abstains bool
	abstaining        map[NodeID]bool
	// cramped is true while the disk has little room: see Cramped.
	cramped bool
	// waking is true while quiet groups of a dead peer are left.
	waking bool
	// logQueued are the bytes of entries that are with the log writer.
	logQueued int64
	// snapshotsHeld counts those that arrive, or have arrived and are neither installed nor thrown away.
	snapshotsHeld int

	// proposed are the bytes of proposals of all groups that have not ended. It is safe for concurrent use.
	proposed atomic.Int64
}

// NewHost returns a host without groups. batch is the host's own, for Open.
func NewHost(log Log, batch LogBatch, o Options) *Host {
	h := &Host{
		opts: o.withDefaults(), log: log, batch: batch, groups: map[uint64]*Group{}, leaving: map[uint64]bool{},
		clocks: newClocks(),
	}
	h.asked = uint64(uint32(h.clocks.salt))
	h.gathering.host = h
	return h
}

// Options returns the options with defaults filled in.
func (h *Host) Options() Options { return h.opts }

// Group returns a group by its id, nil if it is not here. Loop only.
func (h *Host) Group(id uint64) *Group { return h.groups[id] }

// Groups returns all groups in the order they were opened. Loop only.
func (h *Host) Groups() []*Group { return h.order }

// Step takes in what happened until now and returns what is to be done.
func (h *Host) Step(now Instant, in *Inbox) Work {
	h.now, h.ticking, h.coarse = now, in.Ticks > 0, in.Coarse
	h.clocks.begin(now)
	h.peers.begin()
	for _, call := range in.Calls {
		call(h)
	}
	for i := range in.Logged {
		h.logged(&in.Logged[i])
	}
	for i := range in.Applied {
		h.applied(&in.Applied[i])
	}
	for i := range in.Installed {
		h.installed(&in.Installed[i])
	}
	for i := range in.Shipped {
		h.shipped(&in.Shipped[i])
	}
	for i := range in.Frames {
		h.receive(&in.Frames[i])
	}
	for _, node := range in.Unreachable {
		h.unreachable(node)
	}
	for i := range in.Proposals {
		h.propose(in.Proposals[i])
	}
	for i := range in.Reads {
		in.Reads[i].g.reads.enter(in.Reads[i])
	}
	for range in.Ticks {
		h.tick()
	}
	h.pumpAll()
	h.tellAll()
	h.gathering.stepped()
	h.work.Frames = h.peers.frames(h.work.Frames)
	w := h.work
	// Others own what was returned. The next step is likely to have as much to do.
	h.work = Work{Appends: make([]Append, 0, len(w.Appends)), Applies: make([]Apply, 0, len(w.Applies))}
	return w
}

// pumpAll pumps what is marked until nothing is, and sends the questions of followers that have gathered.
func (h *Host) pumpAll() {
	for len(h.dirty) > 0 {
		dirty := h.dirty
		h.dirty = h.pumped[:0]
		for i, g := range dirty {
			dirty[i] = nil
			g.dirty = false
			h.pump(g)
		}
		h.pumped = dirty
		for _, p := range h.peers.list {
			h.ask(p)
		}
	}
}

func (h *Host) mark(g *Group) {
	if !g.dirty && !g.closed {
		g.dirty = true
		h.dirty = append(h.dirty, g)
	}
}

// tick moves time on by one tick, for peers and for the groups that are awake.
func (h *Host) tick() {
	h.ticks++
	silenced := h.tickPeers()
	for _, g := range h.order {
		if g.quiet {
			continue
		}
		if g.applied == 0 { // It waits for its first snapshot: it never campaigns, and votes once its leader is silent.
			g.raft.Tick()
			continue
		}
		before := g.ballot()
		g.raft.Tick()
		g.voted(before, h.opts.Node)
		if g.leading {
			g.reads.tick()
		} else {
			g.reads.tickAsks()
		}
		g.flights.tick()
		h.gathering.tick(g)
		if g.leading && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
			g.fresh.tick()
		}
		h.tickUrgent(g)
		h.tickOffer(g)
		if g.leading && !h.opts.AlwaysTick {
			h.tryQuiesce(g)
		}
		h.mark(g)
	}
	if silenced {
		for _, g := range h.order {
			if !g.quiet && g.applied > 0 && h.deserted(g) {
				h.succeed(g, h.opts.ElectionTicks)
			}
		}
	}
	if h.waking {
		h.wakeSome()
	}
	// Often, not once an election timeout: the library forgets which replicas are active in that rhythm, and offers in
	// step with it would find nobody, for ever.
	if h.abstains && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
		h.offerAll()
	}
}

// Close takes a group out of the host: requests under way fail. idle is called on the loop as soon as nothing of the
// group is with the applier or being installed. To remove the replica, its state is removed then, durably, and after
// that its log: in the other order a crash between leaves a replica that has forgotten how it voted. Until the log is
// destroyed Open refuses the id with ErrLeaving.
func (h *Host) Close(id uint64, idle func(g *Group)) {
	g := h.groups[id]
	if g == nil {
		return
	}
	g.stepDown(h)
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

// DestroyLog removes the log of a closed group. Then its id may be opened again.
func (h *Host) DestroyLog(g *Group) {
	h.work.Appends = append(h.work.Appends, Append{g: g, destroy: true})
}
