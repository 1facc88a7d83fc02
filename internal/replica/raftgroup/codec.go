// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A frame is what one node tells another at one time:
//
//	version u8, at, echo, then messages until the end; none is a heartbeat of the node
//	  at is the sender's clock, echo the last that it has heard of the receiver's: so the receiver knows, by its own clock, after
//	  which instant the frame was sent. Each process adds a number of its own. Frames of the log writer have 0 for both.
//	message: group, type u8, flags u8, to, from, term, log term, index, commit, reject hint
//	  flag 2: context     length, bytes
//	  flag 4: entries     count, then term, index, type u8, length, data each
//	  flag 8: snapshot    index, term, members, length, data: where the members are, and no state
//
// Index and reject hint of a heartbeat are the host's: see claim in fresh.go.
// All numbers are uvarints but for those of one byte.
const frameVersion = 1

const (
	flagReject = 1 << iota
	flagContext
	flagEntries
	flagSnapshot
)

// msgQuiesce is the host's own: the leader falls quiet at Index, and asks its followers to do the same.
const msgQuiesce = pb.MessageType(200)

// carried says which messages travel: the others are a node's own.
func carried(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgSnap, pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTimeoutNow, msgQuiesce:
		return true
	}
	return false
}

// Message is one message of a group.
type Message struct {
	Group uint64
	Raft  *pb.Message
	// Data is what comes behind a snapshot, else nil. Without it only snapshots are stepped that change nothing.
	Data SnapshotData
}

// NewFrame begins a frame in dst.
func NewFrame(dst []byte, at, echo Instant) []byte {
	dst = binary.AppendUvarint(append(dst, frameVersion), uint64(at))
	return binary.AppendUvarint(dst, uint64(echo))
}

// AppendMessage appends a message to a frame.
func AppendMessage(dst []byte, group uint64, m *pb.Message) []byte {
	var flags byte
	if m.GetReject() {
		flags |= flagReject
	}
	if len(m.GetContext()) > 0 {
		flags |= flagContext
	}
	if len(m.GetEntries()) > 0 {
		flags |= flagEntries
	}
	if m.GetSnapshot() != nil {
		flags |= flagSnapshot
	}
	dst = binary.AppendUvarint(dst, group)
	dst = append(dst, byte(m.GetType()), flags)
	dst = binary.AppendUvarint(dst, m.GetTo())
	dst = binary.AppendUvarint(dst, m.GetFrom())
	dst = binary.AppendUvarint(dst, m.GetTerm())
	dst = binary.AppendUvarint(dst, m.GetLogTerm())
	dst = binary.AppendUvarint(dst, m.GetIndex())
	dst = binary.AppendUvarint(dst, m.GetCommit())
	dst = binary.AppendUvarint(dst, m.GetRejectHint())
	if flags&flagContext != 0 {
		dst = appendBytes(dst, m.GetContext())
	}
	if flags&flagEntries != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.GetEntries())))
		for _, e := range m.GetEntries() {
			dst = binary.AppendUvarint(dst, e.GetTerm())
			dst = binary.AppendUvarint(dst, e.GetIndex())
			dst = append(dst, byte(e.GetType()))
			dst = appendBytes(dst, e.GetData())
		}
	}
	if flags&flagSnapshot != 0 {
		meta := m.GetSnapshot().GetMetadata()
		dst = binary.AppendUvarint(dst, meta.GetIndex())
		dst = binary.AppendUvarint(dst, meta.GetTerm())
		dst = appendConfState(dst, meta.GetConfState())
		dst = appendBytes(dst, m.GetSnapshot().GetData())
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func appendConfState(dst []byte, cs *pb.ConfState) []byte {
	for _, list := range [][]uint64{cs.GetVoters(), cs.GetLearners(), cs.GetVotersOutgoing(), cs.GetLearnersNext()} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, id := range list {
			dst = binary.AppendUvarint(dst, id)
		}
	}
	if cs.GetAutoLeave() {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// messageBlock is a message with the scalars its pointers lead to: one allocation instead of ten.
type messageBlock struct {
	m                                            pb.Message
	kind                                         pb.MessageType
	to, from, term, logTerm, index, commit, hint uint64
	reject                                       bool
}

type entryBlock struct {
	e           pb.Entry
	term, index uint64
	kind        pb.EntryType
}

// decoder reads fields until one is missing; then bad stays set.
type decoder struct {
	b   []byte
	bad bool
	// whole is the length of the frame.
	whole int
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// bytes returns a view of the frame, nil if it is empty.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	if d.b = d.b[n:]; n == 0 {
		return nil
	}
	return v
}

// own copies what is a small part of a large frame: an entry stays in memory for long, and must not keep the frame there.
func (d *decoder) own(view []byte) []byte {
	if d.whole < 64<<10 || len(view) > d.whole/8 || view == nil {
		return view
	}
	return append([]byte(nil), view...)
}

// count reads the length of a list whose elements take at least size bytes.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) confState() *pb.ConfState {
	cs := &pb.ConfState{}
	for _, list := range []*[]uint64{&cs.Voters, &cs.Learners, &cs.VotersOutgoing, &cs.LearnersNext} {
		for n := d.count(1); n > 0; n-- {
			*list = append(*list, d.uint())
		}
	}
	leave := d.byte() == 1
	cs.AutoLeave = &leave
	return cs
}

// DecodeFrame reads a frame. The messages are views of it: it must not be changed any more.
func DecodeFrame(from NodeID, frame []byte) (Received, error) {
	d := decoder{b: frame, whole: len(frame)}
	if v := d.byte(); d.bad || v != frameVersion {
		return Received{}, fmt.Errorf("version %d: %w", v, ErrFrame)
	}
	f := Received{From: from, At: Instant(d.uint()), Echo: Instant(d.uint())}
	if d.bad {
		return Received{}, ErrFrame
	}
	for len(d.b) > 0 {
		m := d.message()
		if d.bad || !carried(m.Raft.GetType()) {
			return Received{}, ErrFrame
		}
		f.Messages = append(f.Messages, m)
	}
	return f, nil
}

func (d *decoder) message() Message {
	k := &messageBlock{}
	group := d.uint()
	k.kind = pb.MessageType(d.byte())
	flags := d.byte()
	k.reject = flags&flagReject != 0
	for _, p := range [...]*uint64{&k.to, &k.from, &k.term, &k.logTerm, &k.index, &k.commit, &k.hint} {
		*p = d.uint()
	}
	m := &k.m
	m.Type, m.To, m.From, m.Term, m.LogTerm = &k.kind, &k.to, &k.from, &k.term, &k.logTerm
	m.Index, m.Commit, m.RejectHint, m.Reject = &k.index, &k.commit, &k.hint, &k.reject
	if flags&flagContext != 0 {
		m.Context = d.bytes()
	}
	if flags&flagEntries != 0 {
		n := d.count(4)
		m.Entries = make([]*pb.Entry, 0, n)
		for ; n > 0 && !d.bad; n-- {
			e := &entryBlock{term: d.uint(), index: d.uint(), kind: pb.EntryType(d.byte())}
			e.e.Term, e.e.Index, e.e.Type, e.e.Data = &e.term, &e.index, &e.kind, d.own(d.bytes())
			m.Entries = append(m.Entries, &e.e)
		}
	}
	if flags&flagSnapshot != 0 {
		index, term := d.uint(), d.uint()
		m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: d.confState()}, Data: d.bytes()}
	}
	return Message{Group: group, Raft: m}
}

// Commands of one entry: version u8, sequence, then length and bytes of each. The sequence is the leader's own, in its term.
const commandsVersion = 1

// appendCommands encodes proposals as the data of an entry.
func appendCommands(dst []byte, sequence uint64, ps []Proposal) []byte {
	dst = binary.AppendUvarint(append(dst, commandsVersion), sequence)
	for i := range ps {
		dst = appendBytes(dst, ps[i].data)
	}
	return dst
}

// decodeCommands appends views of an entry's commands to dst. An empty entry, with which a leader begins, has none.
func decodeCommands(dst [][]byte, data []byte) (sequence uint64, commands [][]byte, err error) {
	if len(data) == 0 {
		return 0, dst, nil
	}
	d := decoder{b: data}
	if v := d.byte(); v != commandsVersion {
		return 0, dst, fmt.Errorf("commands of version %d: %w", v, ErrFrame)
	}
	sequence = d.uint()
	for len(d.b) > 0 {
		dst = append(dst, d.bytes())
	}
	if d.bad {
		return 0, dst, fmt.Errorf("commands: %w", ErrFrame)
	}
	return sequence, dst, nil
}

// EncodeMembers encodes members for StateMachine.Members and snapshots.
func EncodeMembers(dst []byte, members []Member) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(members)))
	for _, m := range members {
		dst = append(binary.AppendUvarint(dst, m.Replica), m.Node[:]...)
	}
	return dst
}

// DecodeMembers reads what EncodeMembers wrote and returns what follows.
func DecodeMembers(b []byte) (members []Member, rest []byte, err error) {
	d := decoder{b: b}
	for n := d.count(17); n > 0 && !d.bad; n-- {
		m := Member{Replica: d.uint()}
		if len(d.b) < len(m.Node) {
			d.bad = true
			break
		}
		copy(m.Node[:], d.b)
		d.b = d.b[len(m.Node):]
		members = append(members, m)
	}
	if d.bad {
		return nil, nil, fmt.Errorf("members: %w", ErrFrame)
	}
	return members, d.b, nil
}
