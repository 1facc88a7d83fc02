// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// A frame contains the messages that one node sends to another node at the same time:
//
//	version u8, at, echo, then messages until the end; none is a heartbeat of the node
//	  at is the sender's clock, echo the last value it has received of the receiver's: so the receiver knows, by its own clock, after
//	  which instant the frame was sent. Each process adds its own number. Frames of the log writer have 0 for both.
//	message: group, type u8, flags u8, to, from, term, log term, index, commit, reject hint
//	  flag 2: context     length, bytes
//	  flag 4: entries     count, then term, index, type u8, length, data each
//	  flag 8: snapshot    index, term, members, length, data: where the members are, and no state
//
// The host sets the index and the reject hint of a heartbeat (see claimIn in staleness.go). All numbers are uvarints
// except single bytes.
const frameVersion = 1

const (
	flagReject = 1 << iota
	flagContext
	flagEntries
	flagSnapshot
)

// msgQuiesce is a message type of this package. With this message, the leader becomes quiescent at Index and requests
// its followers to become quiescent.
const msgQuiesce = pb.MessageType(200)

// carried reports whether messages of a type are sent to other nodes. All other types are local to a node.
func carried(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgSnap,
		pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTimeoutNow, msgQuiesce, MsgIndexQuery, MsgIndexReply:
		return true
	}
	return false
}

// Message is a message of a group.
type Message struct {
	Group uint64
	Raft  *pb.Message
	// Data is the data of a snapshot. It is nil for all other messages. A snapshot without data is stepped only if it
	// does not change the replica.
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
		dst = codec.AppendBytes(dst, m.GetContext())
	}
	if flags&flagEntries != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(m.GetEntries())))
		for _, e := range m.GetEntries() {
			dst = binary.AppendUvarint(dst, e.GetTerm())
			dst = binary.AppendUvarint(dst, e.GetIndex())
			dst = append(dst, byte(e.GetType()))
			dst = codec.AppendBytes(dst, e.GetData())
		}
	}
	if flags&flagSnapshot != 0 {
		meta := m.GetSnapshot().GetMetadata()
		dst = binary.AppendUvarint(dst, meta.GetIndex())
		dst = binary.AppendUvarint(dst, meta.GetTerm())
		dst = appendConfState(dst, meta.GetConfState())
		dst = codec.AppendBytes(dst, m.GetSnapshot().GetData())
	}
	return dst
}

func appendConfState(dst []byte, cs *pb.ConfState) []byte {
	w := codec.Writer(dst)
	for _, list := range [][]uint64{cs.GetVoters(), cs.GetLearners(), cs.GetVotersOutgoing(), cs.GetLearnersNext()} {
		w.Uint(uint64(len(list)))
		for _, id := range list {
			w.Uint(id)
		}
	}
	w.Flag(cs.GetAutoLeave())
	return w
}

// messageBlock contains a message and the scalars to which the message's pointers refer. It reduces ten allocations to
// one.
type messageBlock struct {
	m                                            pb.Message
	kind                                         pb.MessageType
	to, from, term, logTerm, index, commit, hint uint64
	reject                                       bool
	one                                          [1]*pb.Entry
}

type entryBlock struct {
	e           pb.Entry
	term, index uint64
	kind        pb.EntryType
}

// decoder decodes frames. The decoded byte slices refer to the frame.
type decoder struct {
	codec.Reader
	// whole is the length of the frame.
	whole int
	// blocks is memory for the next messages. made is the number of blocks that have been allocated for the frame.
	blocks []messageBlock
	made   int
}

// blocksMax is the maximum number of messages that share an allocation.
const blocksMax = 8

// block returns memory for a message.
func (d *decoder) block() *messageBlock {
	if len(d.blocks) == 0 {
		d.blocks = make([]messageBlock, min(max(1, d.made), blocksMax))
		d.made += len(d.blocks)
	}
	b := &d.blocks[0]
	d.blocks = d.blocks[1:]
	return b
}

func newDecoder(b []byte) decoder {
	return decoder{Reader: codec.NewReader(b, ErrFrame), whole: len(b)}
}

// bytes returns a slice of the frame, or nil if the slice is empty.
func (d *decoder) bytes() []byte {
	if v := d.Take(d.Uint()); len(v) > 0 {
		return v
	}
	return nil
}

// own copies a small part of a large frame, because a long-lived entry must not keep the frame in memory.
func (d *decoder) own(view []byte) []byte {
	if d.whole < 64<<10 || len(view) > d.whole/8 || view == nil {
		return view
	}
	return append([]byte(nil), view...)
}

func (d *decoder) confState() *pb.ConfState {
	cs := &pb.ConfState{}
	for _, list := range []*[]uint64{&cs.Voters, &cs.Learners, &cs.VotersOutgoing, &cs.LearnersNext} {
		for range d.Count(1) {
			*list = append(*list, d.Uint())
		}
	}
	cs.AutoLeave = new(d.Byte() == 1)
	return cs
}

// DecodeFrame decodes a frame. The messages refer to the frame, so the caller must not modify the frame.
func DecodeFrame(from NodeID, frame []byte) (Received, error) {
	d := newDecoder(frame)
	if v := d.Byte(); v != frameVersion {
		return Received{}, fmt.Errorf("version %d: %w", v, ErrFrame)
	}
	f := Received{From: from, At: Instant(d.Uint()), Echo: Instant(d.Uint())}
	for len(d.Rest()) > 0 {
		m := d.message()
		if d.Err() != nil || !carried(m.Raft.GetType()) {
			return Received{}, ErrFrame
		}
		f.hasQueries = f.hasQueries || m.Raft.GetType() == MsgIndexQuery
		f.Messages = append(f.Messages, m)
	}
	if err := d.Err(); err != nil {
		return Received{}, err
	}
	return f, nil
}

func (d *decoder) message() Message {
	k := d.block()
	group := d.Uint()
	k.kind = pb.MessageType(d.Byte())
	flags := d.Byte()
	k.reject = flags&flagReject != 0
	for _, p := range [...]*uint64{&k.to, &k.from, &k.term, &k.logTerm, &k.index, &k.commit, &k.hint} {
		*p = d.Uint()
	}
	m := &k.m
	m.Type, m.To, m.From, m.Term, m.LogTerm = &k.kind, &k.to, &k.from, &k.term, &k.logTerm
	m.Index, m.Commit, m.RejectHint, m.Reject = &k.index, &k.commit, &k.hint, &k.reject
	if flags&flagContext != 0 {
		m.Context = d.bytes()
	}
	if flags&flagEntries != 0 {
		n := d.Count(4)
		if m.Entries = k.one[:0:1]; n > 1 {
			m.Entries = make([]*pb.Entry, 0, n)
		}
		for ; n > 0 && d.Err() == nil; n-- {
			e := &entryBlock{term: d.Uint(), index: d.Uint(), kind: pb.EntryType(d.Byte())}
			e.e.Term, e.e.Index, e.e.Type, e.e.Data = &e.term, &e.index, &e.kind, d.own(d.bytes())
			m.Entries = append(m.Entries, &e.e)
		}
	}
	if flags&flagSnapshot != 0 {
		index, term := d.Uint(), d.Uint()
		m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: d.confState()},
			Data: d.bytes()}
	}
	return Message{Group: group, Raft: m}
}

// The commands of one entry are encoded as the version (u8), the sequence, and the length and bytes of each command.
// The leader assigns the sequence, which is unique in its term.
const commandsVersion = 1

// appendCommands encodes proposals as the data of an entry.
func appendCommands(dst []byte, sequence uint64, ps []Proposal) []byte {
	dst = binary.AppendUvarint(append(dst, commandsVersion), sequence)
	for i := range ps {
		dst = codec.AppendBytes(dst, ps[i].data)
	}
	return dst
}

// decodeCommands appends slices of an entry's commands to dst. The empty entry at the start of a term contains no
// commands.
func decodeCommands(dst [][]byte, data []byte) (sequence uint64, commands [][]byte, err error) {
	if len(data) == 0 {
		return 0, dst, nil
	}
	d := newDecoder(data)
	if v := d.Byte(); v != commandsVersion {
		return 0, dst, fmt.Errorf("commands of version %d: %w", v, ErrFrame)
	}
	sequence = d.Uint()
	if d.Err() != nil {
		return 0, dst, fmt.Errorf("commands: %w", ErrFrame)
	}
	// For speed, this loop does not use d.Bytes. With d.Bytes, decoding commands took 14 % of the loop's time.
	for b := d.Rest(); len(b) > 0; {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return 0, dst, fmt.Errorf("commands: %w", ErrFrame)
		}
		end := size + int(n)
		dst, b = append(dst, b[size:end:end]), b[end:]
	}
	return sequence, dst, nil
}

// DecodeCommands returns the commands in an entry's data and the sequence for EncodeCommands. The commands refer to
// data. DecodeCommands is used to read or change the log of a stopped node.
func DecodeCommands(data []byte) (sequence uint64, commands [][]byte, err error) {
	return decodeCommands(nil, data)
}

// EncodeCommands encodes the data of an entry.
func EncodeCommands(sequence uint64, commands [][]byte) []byte {
	dst := binary.AppendUvarint([]byte{commandsVersion}, sequence)
	for _, c := range commands {
		dst = codec.AppendBytes(dst, c)
	}
	return dst
}

// EncodeMembers encodes members for StateMachine.Members and snapshots.
func EncodeMembers(dst []byte, members []Member) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(len(members)))
	for _, m := range members {
		w.Uint(m.Replica)
		w.Raw(m.Node[:])
	}
	return w
}

// DecodeMembers decodes members encoded by EncodeMembers and returns the remaining bytes.
func DecodeMembers(b []byte) (members []Member, rest []byte, err error) {
	d := newDecoder(b)
	for range d.Count(17) {
		m := Member{Replica: d.Uint()}
		copy(m.Node[:], d.Take(uint64(len(m.Node))))
		members = append(members, m)
	}
	if err := d.Err(); err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	return members, d.Rest(), nil
}
