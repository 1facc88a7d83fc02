// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"crypto/rand"
	"encoding/binary"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// peer is another node: the frame that is being made for it, whether it lives, and its clock.
type peer struct {
	node  NodeID
	frame []byte // messages of this step; empty if none
	// silent counts ticks since something was heard.
	silent int
	down   bool
	// heard is the peer's clock as it last showed it, salted; echoed the latest of this process's that it has heard.
	heard, echoed Instant
	asks          questions
}

// begin begins the peer's frame if there is none; at is the salted clock.
func (p *peer) begin(at Instant) {
	if len(p.frame) == 0 {
		p.frame = NewFrame(p.frame, at, p.heard)
	}
}

// peers are the nodes that were met, in that order.
type peers struct{ list []*peer }

// of returns the peer, which it meets for the first time if need be.
func (ps *peers) of(node NodeID) *peer {
	for _, p := range ps.list {
		if p.node == node {
			return p
		}
	}
	p := &peer{node: node}
	ps.list = append(ps.list, p)
	return p
}

// begin empties the frames, whose memory is used again.
func (ps *peers) begin() {
	for _, p := range ps.list {
		p.frame = reused(p.frame)
	}
}

// frames appends those that have a message, or are a heartbeat.
func (ps *peers) frames(to []Frame) []Frame {
	for _, p := range ps.list {
		if len(p.frame) > 0 {
			to = append(to, Frame{To: p.node, Data: p.frame})
		}
	}
	return to
}

// frameKept is how large a frame's memory may be to be used again.
const frameKept = 4 << 20

func reused(frame []byte) []byte {
	if cap(frame) > frameKept {
		return nil
	}
	return frame[:0]
}

// clocks tell what was sent after which instant of this node's own clock: see fresh.go.
type clocks struct {
	// salt is added to the instants in frames, so that an echo of what an earlier process said, perhaps by the clock of
	// an earlier boot, is not taken for one of this one's; began is the first instant of this process.
	salt, began Instant
}

func newClocks() clocks {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	return clocks{salt: Instant(binary.LittleEndian.Uint64(salt[:]))}
}

// begin notes the first instant.
func (c *clocks) begin(now Instant) {
	if c.began == 0 {
		c.began = now
	}
}

// stamp is how an instant appears in this process's frames.
func (c *clocks) stamp(at Instant) Instant { return at + c.salt }

// hear takes what a frame says of both clocks.
func (c *clocks) hear(p *peer, f *Received, now Instant) {
	if f.At != 0 {
		p.heard = f.At
	}
	if echo := f.Echo - c.salt; f.Echo != 0 && echo >= c.began && echo <= now {
		p.echoed = max(p.echoed, echo)
	}
}

// send adds a message to its peer's frame. A receiver whose node is not known gets none; its route will be learnt.
func (h *Host) send(g *Group, m *pb.Message) {
	r := g.route(m.GetTo())
	if r == nil || r.Node == h.opts.Node || !carried(m.GetType()) {
		return // not carried: what a replica that just lost its leadership would hand on to the new leader
	}
	if m.GetType() == pb.MsgPreVote && h.shuns(g, NodeID{}) {
		return // the library asks when its time comes; nobody hears it
	}
	p := h.peers.of(r.Node)
	if m.GetType() == pb.MsgHeartbeat {
		g.fresh.claimIn(m)
	}
	if invariant.Enabled {
		g.told(m)
	}
	if len(p.frame) > 0 && len(p.frame)+sizeOf(m) > frameSplit {
		h.work.Frames = append(h.work.Frames, Frame{To: p.node, Data: p.frame})
		p.frame = nil
	}
	p.begin(h.clocks.stamp(h.now))
	p.frame = AppendMessage(p.frame, g.id, m)
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

// tickPeers counts silence, and begins the heartbeats of the node. It reports whether a peer has just fallen silent.
func (h *Host) tickPeers() (silenced bool) {
	for _, p := range h.peers.list {
		if p.silent++; p.silent > h.opts.ElectionTicks && !p.down {
			h.setDown(p, true)
			silenced = true
		}
		if h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
			p.begin(h.clocks.stamp(h.now))
		}
	}
	return silenced
}

func (h *Host) setDown(p *peer, down bool) {
	p.down = down
	h.waking = h.waking || down
	if h.opts.Events.PeerDown != nil {
		h.opts.Events.PeerDown(p.node, down)
	}
}

// unreachable tells the leaders here that the node may have missed a message.
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
