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

// A snapshot is transferred as a head followed by its data. The head is a frame with one message that contains metadata
// and the nodes of the members. The data is stored on the receiver's disk before the message is stepped, because the
// library cannot undo the acceptance of a snapshot.

// Send is a snapshot to be sent to a replica.
type Send struct {
	g       *Group
	message *pb.Message
	// To is the node of the receiver.
	To NodeID
}

// Shipped is the result of a Send. The caller must report a Shipped for every Send.
type Shipped struct {
	g   *Group
	to  uint64
	err error
}

// Result returns the report of a Send. err is the error of the Send, or nil.
func (s *Send) Result(err error) Shipped { return Shipped{s.g, s.message.GetTo(), err} }

// Install is a snapshot that the library has accepted.
type Install struct {
	g       *Group
	message *pb.Message
	data    SnapshotData
}

// Installed is the report of Install.Run.
type Installed struct{ g *Group }

// snapshots holds the incoming and outgoing snapshots of one group.
type snapshots struct {
	g *Group
	// shipping holds the receivers of snapshots in progress. After a failure, the next snapshot is not sent before the
	// tick after.
	shipping []uint64
	after    uint64
	// expecting reports whether the data of a snapshot is being received. arriving is the data of the snapshot that is
	// being stepped.
	expecting bool
	arriving  SnapshotData
	// appends holds the appends that wait for an installation. The first append contains the snapshot. installing
	// reports whether the installation has begun.
	appends    []waitingAppend
	installing bool
}

// ship starts a Send of a snapshot that the library has requested.
func (x *snapshots) ship(m *pb.Message) {
	g, h := x.g, x.g.host
	for _, to := range x.shipping {
		if to == m.GetTo() {
			return // a snapshot to this receiver is in progress
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

// headMax is the maximum size of the head of a snapshot, in bytes.
const headMax = 1 << 20

// Capture captures the current state of the group and returns the head and the data for Transport.SendSnapshot. The
// head contains the index, the term, and the members of the captured state. The caller must close data.
func (s *Send) Capture(store SnapshotStore) (head []byte, data SnapshotData, err error) {
	meta, data, err := store.Snapshot(s.g.id)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot of group %d: %w", s.g.id, err)
	}
	m := &pb.Message{
		Type: s.message.Type, To: s.message.To, From: s.message.From, Term: s.message.Term,
		Snapshot: &pb.Snapshot{Metadata: meta, Data: EncodeMembers(nil, s.g.membership.all())},
	}
	head = AppendMessage(NewFrame(make([]byte, 4, 256), 0, 0), s.g.id, m)
	if len(head)-4 > headMax {
		return nil, nil, errors.Join(fmt.Errorf("snapshot of group %d: header of %d bytes: %w", s.g.id, len(head),
			ErrFrame), data.Close())
	}
	binary.LittleEndian.PutUint32(head, uint32(len(head)-4))
	return head, data, nil
}

// ReadHead reads the head of a snapshot, and no bytes after the head.
func ReadHead(from NodeID, r io.Reader) (Received, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return Received{}, fmt.Errorf("snapshot header: %w", err)
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > headMax {
		return Received{}, fmt.Errorf("snapshot header of %d bytes: %w", n, ErrFrame)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return Received{}, fmt.Errorf("snapshot header: %w", err)
	}
	f, err := DecodeFrame(from, head)
	if err != nil {
		return Received{}, fmt.Errorf("snapshot header: %w", err)
	}
	if len(f.Messages) != 1 || f.Messages[0].Raft.GetType() != pb.MsgSnap {
		return Received{}, fmt.Errorf("snapshot header with %d messages: %w", len(f.Messages), ErrFrame)
	}
	return f, nil
}

// Expect returns nil if this node needs the data that follows a head. The caller must then call Take or Abandon. Expect
// must be called on the loop.
func (h *Host) Expect(f *Received) error {
	m := f.Messages[0].Raft
	g := h.groups[f.Messages[0].Group]
	switch {
	case g == nil:
		h.opts.Observer.UnknownGroup(f.Messages[0].Group, m.GetTo(), f.From)
		return fmt.Errorf("group %d does not exist on this node: %w", f.Messages[0].Group, ErrUnwanted)
	case m.GetTo() != g.replica:
		return fmt.Errorf("group %d: replica %d does not exist on this node: %w", g.id, m.GetTo(), ErrUnwanted)
	case m.GetTerm() < g.term:
		return fmt.Errorf("group %d: the leader of term %d sends a snapshot in term %d: %w", g.id, m.GetTerm(), g.term,
			ErrUnwanted)
	case m.GetSnapshot().GetMetadata().GetIndex() <= g.commit:
		// This message only notifies the leader of the position of this replica.
		h.step(h.peers.of(f.From), f.Messages[0])
		return fmt.Errorf("group %d: the snapshot is at %d, the replica at %d: %w", g.id,
			m.GetSnapshot().GetMetadata().GetIndex(), g.commit, ErrUnwanted)
	case len(g.applying.held) > 0:
		return fmt.Errorf("group %d: a membership change is being applied: %w", g.id, ErrUnwanted)
	case g.snapshots.expecting || len(g.snapshots.appends) > 0:
		return fmt.Errorf("group %d: another snapshot is in progress: %w", g.id, ErrUnwanted)
	case h.snapshotsHeld >= h.opts.SnapshotsHeld:
		return &LimitError{"SnapshotsHeld", int64(h.opts.SnapshotsHeld)}
	}
	g.snapshots.expecting = true
	h.snapshotsHeld++
	f.g = g
	return nil
}

// Abandon ends Expect if the data did not arrive. It must be called on the loop.
func (h *Host) Abandon(f *Received) {
	f.g.snapshots.expecting = false
	h.snapshotsHeld--
}

// Take ends Expect when the data has arrived. The caller then adds the head to the Inbox as a frame.
func (f *Received) Take(data SnapshotData) { f.Messages[0].Data = data }

// arrived steps a snapshot whose data has arrived. If the library accepts the snapshot, the next Ready contains it.
func (x *snapshots) arrived(message Message) {
	g, h := x.g, x.g.host
	x.arriving = message.Data
	_ = g.raft.Step(message.Raft)
	g.processReady()
	if x.arriving != nil { // the library has ignored the snapshot
		h.discard(x.arriving)
		x.arriving = nil
	}
}

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
		panic(fmt.Sprintf("raft: group %d accepts a snapshot that it has not received", x.g.id))
	}
	x.arriving = nil
	return data
}

// shipped processes the result of a Send. It always reports the result to the library, because the library sends no
// messages to the receiver before the report.
func (x *snapshots) shipped(s *Shipped) {
	g, h := x.g, x.g.host
	for i, to := range x.shipping {
		if to == s.to {
			x.shipping = append(x.shipping[:i], x.shipping[i+1:]...)
			break
		}
	}
	h.opts.Observer.SnapshotSent(g.id, s.to, s.err)
	if g.closed {
		return
	}
	status := raft.SnapshotFinish
	if s.err != nil {
		status = raft.SnapshotFailure
		x.after = h.ticks + uint64(h.opts.ElectionTicks)/2 // capturing a state is expensive
	}
	g.raft.ReportSnapshot(s.to, status)
	h.mark(g)
}

// accept checks a received snapshot and learns the nodes of the members. It accepts a snapshot without data only if the
// library will ignore the snapshot. A snapshot with data replaces the members immediately. If earlier membership
// changes are waiting to be applied, accept discards the snapshot, and the leader sends another snapshot.
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

// waitingAppend is an append that waits for an installation. data is the data of the snapshot if the append contains
// the snapshot.
type waitingAppend struct {
	message *pb.Message
	data    SnapshotData
}

// tryInstall starts an installation if no entry of the group is being applied. The log must first durably record the
// installation, because a crash during the installation may leave a log that ends before the state.
func (x *snapshots) tryInstall() {
	g, h := x.g, x.g.host
	if len(x.appends) == 0 || x.installing || g.applying.items > 0 {
		return
	}
	x.installing = true
	index := x.appends[0].message.GetSnapshot().GetMetadata().GetIndex()
	h.work.Appends = append(h.work.Appends, Append{g: g, installing: index, sync: true})
}

// install starts an Install.
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

// Run durably installs the snapshot. If Run returns an error, the host must stop.
func (i *Install) Run(store SnapshotStore) (Installed, error) {
	meta := i.message.GetSnapshot().GetMetadata()
	err := store.Install(i.g.id, meta, i.data)
	if err = errors.Join(err, i.data.Close()); err != nil {
		return Installed{}, fmt.Errorf("install snapshot of group %d: %w", i.g.id, err)
	}
	i.g.appliedBy = meta.GetIndex()
	return Installed{i.g}, nil
}

// installed continues after an installation. It resets the log, and then publishes the new applied index.
func (x *snapshots) installed() {
	g, h := x.g, x.g.host
	x.installing = false
	h.snapshotsHeld--
	if g.closed {
		g.checkIdle()
		return
	}
	meta := x.appends[0].message.GetSnapshot().GetMetadata()
	g.membership.conf = pb.EnsureConfState(proto.CloneOf(meta.GetConfState()))
	appends := x.appends
	x.appends = nil
	for n, w := range appends {
		if n > 0 && !raft.IsEmptySnap(w.message.GetSnapshot()) {
			x.appends = appends[n:]
			x.tryInstall()
			return
		}
		g.tail.write(w.message, true)
	}
}
