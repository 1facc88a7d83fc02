// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

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
	peers   []*peer // in the order they were met
	ticks   uint64
	dirty   []*Group
	work    Work
	now     Instant

	// handing is true from the first Handover on: no leadership that is offered is taken any more.
	handing bool
	// unapplied counts entries that are proposed and not applied. gathering says that they are too many; gathered are
	// the groups that wait for fewer.
	unapplied int
	gathering bool
	gathered  []*Group
	// telling are groups whose followers are to be told of a commit, see tellApplied.
	telling []*Group
	// abstains is true while the node is not to lead: see Abstain.
	abstains bool
	// waking is true while quiet groups of a dead peer are left.
	waking bool
	// logQueued are the bytes of entries that are with the log writer.
	logQueued int64
	// proposed are the bytes of proposals of all groups that have not ended.
	proposed atomic.Int64
	// held counts snapshots that arrive, or have arrived and are neither installed nor thrown away.
	held int
	// ticking is true in a Step with ticks: then now is the boot clock's. coarse is Inbox.Coarse.
	ticking, coarse bool
	// questions counts those of MsgAsk; it begins at a random number, so that answers to an earlier process are not
	// taken.
	questions uint64
	// salt is added to the instants in frames, so that an echo of what an earlier process said, perhaps by the clock of
	// an earlier boot, is not taken for one of this one's; began is the first now.
	salt, began Instant
}

// peer is another node.
type peer struct {
	node  NodeID
	frame []byte // messages of this iteration; empty if none
	// silent counts ticks since something was heard.
	silent int
	down   bool
	// heard is the peer's clock as it last showed it, salted; echoed the latest of this process's that it has heard.
	heard, echoed Instant
	// question is the first number of the questions under way to it, 0 for none; askedTick is when they were sent.
	// wanting are the groups whose reads wait for the next ones.
	question, askedTick uint64
	wanting             []*Group
}

// Inbox is what happened since the last Step.
type Inbox struct {
	// Ticks that have passed.
	Ticks int
	// Calls run first, on the loop.
	Calls []func(*Host)
	// What the other steps report.
	Logged    []Logged
	Applied   []Applied
	Installed []Installed
	Shipped   []Shipped
	// Frames of peers, decoded.
	Frames    []Received
	Proposals []Proposal
	Reads     []Read
	// Unreachable are nodes to which frames were dropped.
	Unreachable []NodeID
	// Coarse says that the machine may have been suspended between the instant given to Step and the taking of this
	// inbox: leases are granted by such an instant, which is too early if anything, and none is used.
	Coarse bool
	// asked is set by a Runner: there are questions of followers.
	asked bool
}

// Received is a frame from a peer, decoded; without messages it is the node's heartbeat.
type Received struct {
	From     NodeID
	Messages []Message
	// At is the sender's clock, Echo the last it had heard of this node's; 0 for none.
	At, Echo Instant
	// g is set by Expect.
	g *Group
	// asks says that there are questions of followers.
	asks bool
}

// Frame is to be sent to a peer.
type Frame struct {
	To   NodeID
	Data []byte
}

// Work is what is to be done after a Step. Frames are sent at once and are valid until the next Step; appends go to the
// one LogWriter and applies to the one Applier, both in order; installs and sends are done in any order, and discards
// are closed.
type Work struct {
	Frames   []Frame
	Appends  []Append
	Applies  []Apply
	Installs []Install
	Sends    []Send
	Discards []SnapshotData
}

// NewHost returns a host without groups. batch is the host's own, for Open.
func NewHost(log Log, batch LogBatch, o Options) *Host {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	return &Host{
		opts: o.withDefaults(), log: log, batch: batch, groups: map[uint64]*Group{}, leaving: map[uint64]bool{},
		salt: Instant(binary.LittleEndian.Uint64(salt[:])), questions: uint64(binary.LittleEndian.Uint32(salt[:])),
	}
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
	if h.began == 0 {
		h.began = now
	}
	for _, p := range h.peers {
		p.frame = reused(p.frame)
	}
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
		h.read(in.Reads[i])
	}
	for range in.Ticks {
		h.tick()
	}
	h.pumpAll()
	h.tellAll()
	h.gathering = h.gathering || h.unapplied >= h.opts.UnappliedNode
	for _, p := range h.peers {
		if len(p.frame) > 0 {
			h.work.Frames = append(h.work.Frames, Frame{To: p.node, Data: p.frame})
		}
	}
	w := h.work
	h.work = Work{}
	return w
}

// pumpAll pumps what is marked until nothing is, and sends the questions of followers that have gathered.
func (h *Host) pumpAll() {
	for len(h.dirty) > 0 {
		dirty := h.dirty
		h.dirty = nil
		for _, g := range dirty {
			g.dirty = false
			h.pump(g)
		}
		for _, p := range h.peers {
			h.ask(p)
		}
	}
}

// frameKept is how large a frame's memory may be to be used again.
const frameKept = 4 << 20

func reused(frame []byte) []byte {
	if cap(frame) > frameKept {
		return nil
	}
	return frame[:0]
}

func (h *Host) mark(g *Group) {
	if !g.dirty && !g.closed {
		g.dirty = true
		h.dirty = append(h.dirty, g)
	}
}

// peerOf returns the peer, which it meets for the first time if need be.
func (h *Host) peerOf(node NodeID) *peer {
	for _, p := range h.peers {
		if p.node == node {
			return p
		}
	}
	p := &peer{node: node}
	h.peers = append(h.peers, p)
	return p
}

// send adds a message to its peer's frame. A receiver whose node is not known gets none: it will be heard of.
func (h *Host) send(g *Group, m *pb.Message) {
	r := g.route(m.GetTo())
	if r == nil || r.Node == h.opts.Node || !carried(m.GetType()) {
		return // not carried: what a replica that just lost its leadership would hand on to the new leader
	}
	if h.abstains && m.GetType() == pb.MsgPreVote {
		return // the library asks when its time comes; nobody hears it
	}
	p := h.peerOf(r.Node)
	if m.GetType() == pb.MsgHeartbeat {
		h.claim(g, m)
	}
	if len(p.frame) > 0 && len(p.frame)+sizeOf(m) > frameSplit {
		h.work.Frames = append(h.work.Frames, Frame{To: p.node, Data: p.frame})
		p.frame = nil
	}
	h.begin(p)
	p.frame = AppendMessage(p.frame, g.id, m)
}

// begin begins the peer's frame if there is none.
func (h *Host) begin(p *peer) {
	if len(p.frame) == 0 {
		p.frame = NewFrame(p.frame, h.now+h.salt, p.heard)
	}
}

// frameSplit is the size above which a frame takes no further message: a transport bounds frames, and a large one
// delays others.
const frameSplit = 4 << 20

// sizeOf is about how many bytes a message takes, as far as that matters.
func sizeOf(m *pb.Message) int {
	n := 64
	for _, e := range m.GetEntries() {
		n += len(e.GetData()) + 16
	}
	return n
}

// receive steps the messages of one frame.
func (h *Host) receive(f *Received) {
	p := h.peerOf(f.From)
	p.silent = 0
	if f.At != 0 {
		p.heard = f.At
	}
	if echo := f.Echo - h.salt; f.Echo != 0 && echo >= h.began && echo <= h.now {
		p.echoed = max(p.echoed, echo)
	}
	if p.down {
		h.setDown(p, false)
	}
	if f.g != nil { // the end of what Expect began
		f.g.expecting = false
		if !h.step(p, f.Messages[0]) {
			h.discard(f.Messages[0].Data)
		}
		return
	}
	dropped := 0
	for _, m := range f.Messages {
		if m.Raft.GetType() == pb.MsgApp && len(m.Raft.GetEntries()) > 0 && h.logQueued > h.opts.LogQueueBytes {
			dropped++
			continue
		}
		h.step(p, m)
	}
	if dropped > 0 && h.opts.Events.Dropped != nil {
		h.opts.Events.Dropped("LogQueueBytes", dropped)
	}
}

// step hands a message to the library; it reports whether it did.
func (h *Host) step(p *peer, message Message) bool {
	m := message.Raft
	g := h.groups[message.Group]
	if g == nil {
		if h.opts.Events.UnknownGroup != nil {
			h.opts.Events.UnknownGroup(message.Group, m.GetTo(), p.node)
		}
		return false
	}
	if m.GetTo() != g.replica { // meant for a replica that was here before, for ids are never used twice, or for one that is to come
		if m.GetTo() > g.replica && h.opts.Events.UnknownGroup != nil {
			h.opts.Events.UnknownGroup(message.Group, m.GetTo(), p.node)
		}
		return false
	}
	g.learn(m.GetFrom(), p.node)
	switch t := m.GetType(); t {
	case msgQuiesce:
		h.quiesceWith(g, p, m)
		return false
	case pb.MsgTimeoutNow:
		if h.handing || h.abstains {
			return false // whoever offers a leadership does not know yet that the node is about to stop
		}
		h.awake(g)
	case pb.MsgVote, pb.MsgPreVote:
		if h.ticks < g.promised && string(m.GetContext()) != transferContext {
			return false // (G6)
		}
		h.awake(g)
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		if m.GetTerm() >= g.term {
			g.promised = h.ticks + uint64(h.opts.ElectionTicks)
		}
		if t != pb.MsgHeartbeat {
			h.awake(g)
		} else if g.quiet {
			h.wake(g)
		}
	case pb.MsgHeartbeatResp:
		if g.quiet {
			h.wake(g)
		}
	default:
		h.awake(g)
	}
	switch m.GetType() {
	case MsgAsk:
		h.asked(g, m)
		return false
	case MsgTell:
		h.told(g, p, m)
		return false
	case pb.MsgSnap:
		if !g.acceptSnapshot(message) {
			return false
		}
		h.arrived(g, message)
		return true
	}
	_ = g.raft.Step(m) // an error says that the sender is no member (any more), or that nothing was done
	switch m.GetType() {
	case pb.MsgHeartbeat:
		h.hearClaim(g, p, m)
	case pb.MsgHeartbeatResp:
		g.supported(p, m)
	}
	h.mark(g)
	return true
}

// transferContext is what the library puts into votes that a leader asked for: such a leader serves no lease.
const transferContext = "CampaignTransfer"

// tick moves time on by one tick, for peers and for the groups that are awake.
func (h *Host) tick() {
	h.ticks++
	silenced := false
	for _, p := range h.peers {
		if p.silent++; p.silent > h.opts.ElectionTicks && !p.down {
			h.setDown(p, true)
			silenced = true
		}
		if h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
			h.begin(p)
		}
	}
	for _, g := range h.order {
		if g.quiet || g.applied == 0 { // applied 0: it waits for its first snapshot, may vote, never campaigns
			continue
		}
		g.raft.Tick()
		if g.leading {
			h.tickReads(g)
		} else {
			h.tickAsks(g)
		}
		h.tickFates(g)
		h.tickGathered(g)
		if g.leading && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
			h.tickFresh(g)
		}
		h.tickUrgent(g)
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
	// Often, not once an election timeout: the library forgets who is active in that rhythm, and offers in step with it
	// would find nobody, for ever.
	if h.abstains && h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
		h.offerAll()
	}
}

// deserted reports whether the group follows a leader on a node that is down.
func (h *Host) deserted(g *Group) bool {
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node != h.opts.Node && h.peerOf(leader.Node).down
}

// succeed has a group without a leader elect one soon: the first living voter after the old one asks for votes, again
// and again for a while. Left to the library, all would after times drawn by lot, two of them at once now and then, and
// neither could win. The others may have heard from the leader a little later: so it goes on for some ticks.
func (h *Host) succeed(g *Group, ticks int) {
	_ = g.raft.ForgetLeader()
	if g.successor() == g.replica {
		g.urgent = ticks
		h.campaign(g)
	}
	h.mark(g)
}

// campaign asks for votes, this replica's own first: it is given on the same condition as others' (G6).
func (h *Host) campaign(g *Group) {
	if h.ticks >= g.promised && !h.abstains {
		_ = g.raft.Campaign()
	}
}

func (h *Host) setDown(p *peer, down bool) {
	p.down = down
	h.waking = h.waking || down
	if h.opts.Events.PeerDown != nil {
		h.opts.Events.PeerDown(p.node, down)
	}
}

// unreachable tells the leaders here that the node may have missed something.
func (h *Host) unreachable(node NodeID) {
	for _, g := range h.order {
		if !g.leading {
			continue
		}
		for _, m := range g.members() {
			if m.Node == node && m.Replica != g.replica {
				g.raft.ReportUnreachable(m.Replica)
				h.mark(g)
			}
		}
	}
}

// Refused is for the hint that a node's process may have ended: its address refused a connection. So does a firewall
// that rejects, or a proxy that lost its backend, in front of a leader that lives and serves reads under its lease.
// Groups that have not heard from their leader for an election timeout, such as quiet ones, look for a new one now; all
// others keep the promise on which the lease rests, and silence tells them.
func (h *Host) Refused(node NodeID) {
	for _, g := range h.order {
		if h.ticks >= g.promised && h.led(g, node) {
			h.awake(g)
			h.succeed(g, urgentTicks)
		}
	}
}

// Departed is for the word of a node's process that it has served its last read under a lease. Its groups elect a new
// leader at once instead of after an election timeout; the first living voter after it asks for votes. Without that
// word leases break.
func (h *Host) Departed(node NodeID) {
	for _, g := range h.order {
		if h.led(g, node) {
			h.awake(g)
			g.promised = 0
			h.succeed(g, urgentTicks)
		}
	}
}

// led reports whether the group follows a leader on another node.
func (h *Host) led(g *Group, node NodeID) bool {
	leader := g.route(g.lead)
	return !g.leading && leader != nil && leader.Node == node
}

// urgentTicks is how long a group without a leader asks again for votes every tick, and how long it waits for votes
// once it may count on them.
const urgentTicks = 8

func (h *Host) tickUrgent(g *Group) {
	if g.urgent == 0 {
		return
	}
	if g.urgent--; g.lead != raft.None {
		g.urgent = 0
		return
	}
	// To campaign again while votes come in, which wait for disks, would throw them away.
	if g.raft.BasicStatus().RaftState != raft.StateCandidate || g.urgent%urgentTicks == 0 {
		h.campaign(g)
	}
}

// Campaign makes a group without a leader, such as a newly born one, elect one now. It does nothing where a leader was
// heard of.
func (h *Host) Campaign(id uint64) {
	g := h.groups[id]
	if g == nil || g.lead != raft.None || h.ticks < g.promised || g.applied == 0 {
		return
	}
	h.awake(g)
	g.urgent = urgentTicks
	h.campaign(g)
	h.mark(g)
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

// quietLogger passes on only what must end the process: a panic in the library means that its state is not to be
// trusted.
type quietLogger struct{}

func (quietLogger) Debug(...any)                   {}
func (quietLogger) Debugf(string, ...any)          {}
func (quietLogger) Info(...any)                    {}
func (quietLogger) Infof(string, ...any)           {}
func (quietLogger) Warning(...any)                 {}
func (quietLogger) Warningf(string, ...any)        {}
func (quietLogger) Error(...any)                   {}
func (quietLogger) Errorf(string, ...any)          {}
func (quietLogger) Fatal(v ...any)                 { panic(inconsistent(fmt.Sprint(v...))) }
func (quietLogger) Fatalf(format string, v ...any) { panic(inconsistent(fmt.Sprintf(format, v...))) }
func (quietLogger) Panic(v ...any)                 { panic(inconsistent(fmt.Sprint(v...))) }
func (quietLogger) Panicf(format string, v ...any) { panic(inconsistent(fmt.Sprintf(format, v...))) }

// inconsistent is what the library panics with.
type inconsistent string

func (i inconsistent) Error() string {
	return "this node's log is not what others were told it is: the data directory is a copy, was put back to an earlier state, or lost writes that the " +
		"disk had confirmed; take the node out of the cluster and start it on an empty directory (raft: " + string(i) + ")"
}

// Unwrap is ErrLostLog if a leader knows entries to be here that are not.
func (i inconsistent) Unwrap() error {
	if strings.HasPrefix(string(i), "tocommit(") {
		return ErrLostLog
	}
	return nil
}
