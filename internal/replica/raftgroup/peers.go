// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"crypto/rand"
	"encoding/binary"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// peer holds the state of another node.
type peer struct {
	node  NodeID
	frame []byte // messages of this step, or empty
	// silent is the number of ticks since the last frame.
	silent int
	down   bool
	// heard is the last received value of the peer's clock, including the peer's salt. echoed is the latest value of
	// this process's clock that the peer has received.
	heard, echoed Instant
	queries       indexQueries
}

// begin starts the peer's frame unless the frame has been started. at is the salted clock.
func (p *peer) begin(at Instant) {
	if len(p.frame) == 0 {
		p.frame = NewFrame(p.frame, at, p.heard)
	}
}

// peers holds all known nodes in the order of first contact, and builds the frames of a step.
type peers struct {
	list   []*peer
	clocks clocks
	// at is the salted time of the step. full holds the complete frames of the step.
	at   Instant
	full []Frame
	// queriesSent counts the queries from followers on this node. It starts at a random number, so that replies to an
	// earlier process are ignored.
	queriesSent uint64
}

// of returns the peer of a node and creates it if necessary.
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

// begin starts a step. It empties the frames and keeps their memory for reuse.
func (ps *peers) begin(now Instant) {
	ps.clocks.begin(now)
	ps.at = ps.clocks.stamp(now)
	for _, p := range ps.list {
		p.frame = reused(p.frame)
	}
}

// send adds a message to the frame of a node.
func (ps *peers) send(node NodeID, group uint64, m *pb.Message) {
	p := ps.of(node)
	if len(p.frame) > 0 && len(p.frame)+sizeOf(m) > frameSplit {
		ps.full = append(ps.full, Frame{To: p.node, Data: p.frame})
		p.frame = nil
	}
	p.begin(ps.at)
	p.frame = AppendMessage(p.frame, group, m)
}

// frames returns the frames of a step that contain a message or serve as a heartbeat.
func (ps *peers) frames() []Frame {
	out := ps.full
	ps.full = nil
	for _, p := range ps.list {
		if len(p.frame) > 0 {
			out = append(out, Frame{To: p.node, Data: p.frame})
		}
	}
	return out
}

// frameKept is the maximum size of a frame whose memory is reused.
const frameKept = 4 << 20

func reused(frame []byte) []byte {
	if cap(frame) > frameKept {
		return nil
	}
	return frame[:0]
}

// clocks determines the instant of this node's clock after which a frame was sent (see staleness.go).
type clocks struct {
	// salt is added to the instants in frames, so that an echo of an earlier process cannot be mistaken for an echo of
	// this process. began is the first instant of this process.
	salt, began Instant
}

func newClocks() clocks {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // Read never fails
	return clocks{salt: Instant(binary.LittleEndian.Uint64(salt[:]))}
}

// begin stores the first instant.
func (c *clocks) begin(now Instant) {
	if c.began == 0 {
		c.began = now
	}
}

// stamp returns the value that represents an instant in this process's frames.
func (c *clocks) stamp(at Instant) Instant { return at + c.salt }

// update processes the two clock values of a frame.
func (c *clocks) update(p *peer, f *Received, now Instant) {
	if f.At != 0 {
		p.heard = f.At
	}
	if echo := f.Echo - c.salt; f.Echo != 0 && echo >= c.began && echo <= now {
		p.echoed = max(p.echoed, echo)
	}
}

// send adds a message to the frame of the receiver's node. It drops the message if the receiver's node is unknown.
func (g *Group) send(m *pb.Message) {
	h := g.host
	r := g.route(m.GetTo())
	if r == nil || r.Node == h.opts.Node || !carried(m.GetType()) {
		return // a former leader must not forward this message to the new leader
	}
	if m.GetType() == pb.MsgPreVote && g.election.avoidsLeading(NodeID{}) {
		return // the receiver would ignore this message, and the library sends a probe later
	}
	if m.GetType() == pb.MsgHeartbeat {
		g.fresh.claimIn(m)
	}
	if invariant.Enabled {
		g.checkCommit(m)
	}
	h.peers.send(r.Node, g.id, m)
}

// frameSplit is the size of a frame, in bytes, above which no message is added. Large frames delay other frames, and
// transports limit the size of frames.
const frameSplit = 4 << 20

// sizeOf returns the approximate size of a message.
func sizeOf(m *pb.Message) int {
	n := 64
	for _, e := range m.GetEntries() {
		n += len(e.GetData()) + 16
	}
	return n
}

// tickPeers counts silent ticks and starts the heartbeat frames of the node. It reports whether a peer has just become
// silent.
func (h *Host) tickPeers() (silenced bool) {
	for _, p := range h.peers.list {
		if p.silent++; p.silent > h.opts.ElectionTicks && !p.down {
			h.setDown(p, true)
			silenced = true
		}
		if h.ticks%uint64(h.opts.HeartbeatTicks) == 0 {
			p.begin(h.peers.at)
		}
	}
	return silenced
}

func (h *Host) setDown(p *peer, down bool) {
	p.down = down
	h.waking = h.waking || down
	h.opts.Observer.PeerDown(p.node, down)
}

// unreachable notifies the local leaders that another node may have missed a message.
func (h *Host) unreachable(node NodeID) {
	for _, g := range h.order {
		if !g.leading {
			continue
		}
		for _, m := range g.membership.members() {
			if m.Node == node && m.Replica != g.replica {
				g.raft.ReportUnreachable(m.Replica)
				h.mark(g)
			}
		}
	}
}
