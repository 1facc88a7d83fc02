// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A snapshot travels as a head - a frame with one message: metadata, and where the members are - followed by its data.
// The data are on the receiver's disk before the message is stepped, because the library cannot take back that it
// accepted a snapshot.

// Send is a snapshot to be sent to a replica.
type Send struct {
	g       *Group
	message *pb.Message
	// To is the node the receiver is on.
	To NodeID
}

// Shipped says how a Send ended; every Send is followed by one.
type Shipped struct {
	g   *Group
	to  uint64
	err error
}

// Result of a Send that ended with err, nil for success.
func (s *Send) Result(err error) Shipped { return Shipped{s.g, s.message.GetTo(), err} }

// Install is a snapshot that the library accepted.
type Install struct {
	g       *Group
	message *pb.Message
	data    SnapshotData
}

// Installed is what Install.Run reports.
type Installed struct{ g *Group }

// snapshots are those of one group, on their way out and in.
type snapshots struct {
	g *Group
	// shipping are the receivers of those under way; after is the tick before which none is sent, after a failure.
	shipping []uint64
	after    uint64
	// expecting says that data are on their way here; arriving are the data of the one that is being stepped.
	expecting bool
	arriving  SnapshotData
	// appends wait for an installation; the first is the one with the snapshot. installing says that it has begun.
	appends    []waiting
	installing bool
}

// ship hands out a snapshot that the library wants to send.
func (x *snapshots) ship(m *pb.Message) {
	g, h := x.g, x.g.host
	for _, to := range x.shipping {
		if to == m.GetTo() {
			return // the one under way will be reported
		}
	}
	r := g.route(m.GetTo())
	if r == nil || h.ticks < x.after {
		g.raft.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		h.mark(g)
		return
	}
	x.shipping = append(x.shipping, m.GetTo())
	h.work.Sends = append(h.work.Sends, Send{g: g, message: m, To: r.Node})
}

// headMax bounds the head of a snapshot.
const headMax = 1 << 20

// Capture captures the group's state as it is now: head and data for Transport.SendSnapshot. The library asked for some
// snapshot; index, term and members are those of the state that is really sent. The caller closes data.
func (s *Send) Capture(store SnapshotStore) (head []byte, data SnapshotData, err error) {
	meta, data, err := store.Snapshot(s.g.id)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot of group %d: %w", s.g.id, err)
	}
	m := &pb.Message{
		Type: s.message.Type, To: s.message.To, From: s.message.From, Term: s.message.Term,
		Snapshot: &pb.Snapshot{Metadata: meta, Data: EncodeMembers(nil, s.g.routes.all())},
	}
	head = AppendMessage(NewFrame(make([]byte, 4, 256), 0, 0), s.g.id, m)
	if len(head)-4 > headMax {
		return nil, nil, errors.Join(fmt.Errorf("snapshot of group %d: head of %d bytes: %w", s.g.id, len(head),
			ErrFrame), data.Close())
	}
	binary.LittleEndian.PutUint32(head, uint32(len(head)-4))
	return head, data, nil
}

// ReadHead reads what Capture made the head of a snapshot, and not a byte more.
func ReadHead(from NodeID, r io.Reader) (Received, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return Received{}, fmt.Errorf("head of a snapshot: %w", err)
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > headMax {
		return Received{}, fmt.Errorf("head of a snapshot, %d bytes: %w", n, ErrFrame)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return Received{}, fmt.Errorf("head of a snapshot: %w", err)
	}
	f, err := DecodeFrame(from, head)
	if err != nil {
		return Received{}, fmt.Errorf("head of a snapshot: %w", err)
	}
	if len(f.Messages) != 1 || f.Messages[0].Raft.GetType() != pb.MsgSnap {
		return Received{}, fmt.Errorf("head of a snapshot with %d messages: %w", len(f.Messages), ErrFrame)
	}
	return f, nil
}

// Expect says whether the data that follow a head are wanted; if so, Take or Abandon has to follow. Loop only.
func (h *Host) Expect(f *Received) error {
	m := f.Messages[0].Raft
	g := h.groups[f.Messages[0].Group]
	switch {
	case g == nil:
		if h.opts.Events.UnknownGroup != nil {
			h.opts.Events.UnknownGroup(f.Messages[0].Group, m.GetTo(), f.From)
		}
		return fmt.Errorf("group %d is not here: %w", f.Messages[0].Group, ErrUnwanted)
	case m.GetTo() != g.replica:
		return fmt.Errorf("group %d: replica %d is not here: %w", g.id, m.GetTo(), ErrUnwanted)
	case m.GetTerm() < g.term:
		return fmt.Errorf("group %d: the leader of term %d sends a snapshot in term %d: %w", g.id, m.GetTerm(), g.term,
			ErrUnwanted)
	case m.GetSnapshot().GetMetadata().GetIndex() <= g.commit:
		h.step(h.peers.of(f.From), f.Messages[0]) // changes nothing, but the leader hears how far this replica is
		return fmt.Errorf("group %d: the snapshot is at %d, the replica at %d: %w", g.id,
			m.GetSnapshot().GetMetadata().GetIndex(), g.commit, ErrUnwanted)
	case len(g.applying.held) > 0:
		return fmt.Errorf("group %d: a change of members is being applied: %w", g.id, ErrUnwanted)
	case g.snapshots.expecting || len(g.snapshots.appends) > 0:
		return fmt.Errorf("group %d: another snapshot is under way: %w", g.id, ErrUnwanted)
	case h.snapshotsHeld >= h.opts.SnapshotsHeld:
		return &Refused{"SnapshotsHeld", int64(h.opts.SnapshotsHeld)}
	}
	g.snapshots.expecting = true
	h.snapshotsHeld++
	f.g = g
	return nil
}

// Abandon ends what Expect began: the data did not come. Loop only.
func (h *Host) Abandon(f *Received) {
	f.g.snapshots.expecting = false
	h.snapshotsHeld--
}

// Take ends what Expect began: the data are here. The head goes into the Inbox, as a frame.
func (f *Received) Take(data SnapshotData) { f.Messages[0].Data = data }

// arrived steps a snapshot whose data are here. If the library accepts it, it says so in its next Ready.
func (x *snapshots) arrived(message Message) {
	g, h := x.g, x.g.host
	x.arriving = message.Data
	_ = g.raft.Step(message.Raft)
	h.pump(g)
	if x.arriving != nil { // it was ignored
		h.discard(x.arriving)
		x.arriving = nil
	}
}

// discard throws data away.
func (h *Host) discard(data SnapshotData) {
	if data != nil {
		h.snapshotsHeld--
		h.work.Discards = append(h.work.Discards, data)
	}
}

// claimData returns the data of the snapshot that the library accepts.
func (x *snapshots) claimData(snapshot bool) SnapshotData {
	if !snapshot {
		return nil
	}
	data := x.arriving
	if data == nil {
		panic(fmt.Sprintf("raft: group %d accepts a snapshot that did not arrive", x.g.id))
	}
	x.arriving = nil
	return data
}

// shipped tells the library, always: until then it sends the receiver nothing.
func (h *Host) shipped(s *Shipped) {
	g := s.g
	for i, to := range g.snapshots.shipping {
		if to == s.to {
			g.snapshots.shipping = append(g.snapshots.shipping[:i], g.snapshots.shipping[i+1:]...)
			break
		}
	}
	if h.opts.Events.SnapshotSent != nil {
		h.opts.Events.SnapshotSent(g.id, s.to, s.err)
	}
	if g.closed {
		return
	}
	status := raft.SnapshotFinish
	if s.err != nil {
		status = raft.SnapshotFailure
		g.snapshots.after = h.ticks + uint64(h.opts.ElectionTicks)/2 // to capture a state costs something
	}
	g.raft.ReportSnapshot(s.to, status)
	h.mark(g)
}

// accept checks what came and learns where the members are. Without its data a snapshot may be stepped only if
// the library is sure to ignore it. With them it takes over the snapshot's members at once: changes of members from
// before, which wait to be applied, would then be made to those. So one that came meanwhile is thrown away; the leader
// finds out that it has to send another.
func (x *snapshots) accept(message Message) bool {
	g := x.g
	s := message.Raft.GetSnapshot()
	where, _, err := DecodeMembers(s.GetData())
	index := s.GetMetadata().GetIndex()
	if err != nil || index == 0 || index > g.commit && (message.Data == nil || len(g.applying.held) > 0) {
		return false
	}
	g.addRoutes(where)
	return true
}

// waiting is an append that waits for an installation, or the one with the snapshot and its data.
type waiting struct {
	message *pb.Message
	data    SnapshotData
}

// tryInstall begins an installation when nothing is being applied to the group: first the log has to say so, durably,
// because a crash in the middle leaves a log that ends before the state.
func (x *snapshots) tryInstall() {
	g, h := x.g, x.g.host
	if len(x.appends) == 0 || x.installing || g.applying.items > 0 {
		return
	}
	x.installing = true
	index := x.appends[0].message.GetSnapshot().GetMetadata().GetIndex()
	h.work.Appends = append(h.work.Appends, Append{g: g, installing: index, sync: true})
}

// install hands out an installation.
func (x *snapshots) install() {
	g, h := x.g, x.g.host
	if g.closed {
		x.installing = false
		g.checkIdle()
		return
	}
	h.work.Installs = append(h.work.Installs, Install{g: g, message: x.appends[0].message, data: x.appends[0].data})
	x.appends[0].data = nil
}

// Run installs the snapshot durably. After an error the host must not go on.
func (i *Install) Run(store SnapshotStore) (Installed, error) {
	meta := i.message.GetSnapshot().GetMetadata()
	err := store.Install(i.g.id, meta, i.data)
	if err = errors.Join(err, i.data.Close()); err != nil {
		return Installed{}, fmt.Errorf("install snapshot of group %d: %w", i.g.id, err)
	}
	i.g.appliedBy = meta.GetIndex()
	return Installed{i.g}, nil
}

// installed goes on after an installation: the log is reset, and only then does anybody hear of the new applied index.
func (h *Host) installed(i *Installed) {
	g := i.g
	g.snapshots.installing = false
	h.snapshotsHeld--
	if g.closed {
		g.checkIdle()
		return
	}
	meta := g.snapshots.appends[0].message.GetSnapshot().GetMetadata()
	g.conf = pb.EnsureConfState(proto.CloneOf(meta.GetConfState()))
	appends := g.snapshots.appends
	g.snapshots.appends = nil
	for n, w := range appends {
		if n > 0 && !raft.IsEmptySnap(w.message.GetSnapshot()) {
			g.snapshots.appends = appends[n:]
			g.snapshots.tryInstall()
			return
		}
		g.tail.hand(w.message, true)
	}
}
