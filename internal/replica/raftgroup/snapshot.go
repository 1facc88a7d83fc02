// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

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
}

// Installed is what Install.Run reports.
type Installed struct{ g *Group }

// ship hands out a snapshot that the library wants to send.
func (h *Host) ship(g *Group, m *pb.Message) {
	for _, to := range g.shipping {
		if to == m.GetTo() {
			return // the one under way will be reported
		}
	}
	r := g.route(m.GetTo())
	if r == nil {
		g.raft.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		h.mark(g)
		return
	}
	g.shipping = append(g.shipping, m.GetTo())
	h.work.Sends = append(h.work.Sends, Send{g: g, message: m, To: r.Node})
}

// Frame captures the group's state as it is now and makes the frame that carries it. The library asked for some snapshot; index,
// term and members are those of the state that is really sent. max bounds the data.
func (s *Send) Frame(store SnapshotStore, max int64) (frame []byte, err error) {
	meta, data, err := store.Snapshot(s.g.id)
	if err != nil {
		return nil, fmt.Errorf("snapshot of group %d: %w", s.g.id, err)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	payload := bytes.NewBuffer(EncodeMembers(nil, *s.g.routes.Load()))
	n, err := io.Copy(payload, io.LimitReader(data, max+1))
	if err != nil {
		return nil, fmt.Errorf("snapshot of group %d: %w", s.g.id, err)
	}
	if n > max {
		return nil, fmt.Errorf("snapshot of group %d: %w", s.g.id, &Refused{"SnapshotBytes", max})
	}
	m := &pb.Message{
		Type: s.message.Type, To: s.message.To, From: s.message.From, Term: s.message.Term,
		Snapshot: &pb.Snapshot{Metadata: meta, Data: payload.Bytes()},
	}
	return AppendMessage(NewFrame(nil), s.g.id, m), nil
}

// shipped tells the library, always: until then it sends the receiver nothing.
func (h *Host) shipped(s *Shipped) {
	g := s.g
	for i, to := range g.shipping {
		if to == s.to {
			g.shipping = append(g.shipping[:i], g.shipping[i+1:]...)
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
	}
	g.raft.ReportSnapshot(s.to, status)
	h.mark(g)
}

// acceptSnapshot checks what came and learns where the members are.
func (g *Group) acceptSnapshot(m *pb.Message) bool {
	where, _, err := DecodeMembers(m.GetSnapshot().GetData())
	if err != nil || m.GetSnapshot().GetMetadata().GetIndex() == 0 {
		return false
	}
	g.addRoutes(where)
	return true
}

// tryInstall hands out an installation when nothing is being applied to the group.
func (h *Host) tryInstall(g *Group) {
	if len(g.appends) == 0 || g.install || g.applying > 0 {
		return
	}
	g.install = true
	h.work.Installs = append(h.work.Installs, Install{g: g, message: g.appends[0]})
}

// Run installs the snapshot durably. After an error the host must not go on.
func (i *Install) Run(store SnapshotStore) (Installed, error) {
	s := i.message.GetSnapshot()
	_, data, err := DecodeMembers(s.GetData())
	if err == nil {
		err = store.Install(i.g.id, s.GetMetadata(), bytes.NewReader(data))
	}
	if err != nil {
		return Installed{}, fmt.Errorf("install snapshot of group %d: %w", i.g.id, err)
	}
	i.g.appliedBy = s.GetMetadata().GetIndex()
	return Installed{i.g}, nil
}

// installed goes on behind an installation: the log is reset, and only then does anybody hear of the new applied index.
func (h *Host) installed(i *Installed) {
	g := i.g
	g.install = false
	if g.closed {
		g.checkIdle()
		return
	}
	g.conf = pb.EnsureConfState(cloneConf(g.appends[0].GetSnapshot().GetMetadata().GetConfState()))
	appends := g.appends
	g.appends = nil
	for n, m := range appends {
		if n > 0 && !raft.IsEmptySnap(m.GetSnapshot()) {
			g.appends = appends[n:]
			h.tryInstall(g)
			return
		}
		h.handAppend(g, m, true)
	}
}
