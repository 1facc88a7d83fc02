// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func drawMessage(t *rapid.T) Message {
	num := func(name string) *uint64 { return new(rapid.Uint64().Draw(t, name)) }
	kinds := []pb.MessageType{
		pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp, pb.MsgSnap,
		pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTimeoutNow, msgQuiesce,
	}
	m := &pb.Message{
		Type: rapid.SampledFrom(kinds).Draw(t, "type").Enum(), To: num("to"), From: num("from"), Term: num("term"),
		LogTerm: num("log term"),
		Index:   num("index"), Commit: num("commit"), RejectHint: num("hint"),
		Reject: new(rapid.Bool().Draw(t, "reject")),
	}
	if rapid.Bool().Draw(t, "has context") {
		m.Context = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "context")
	}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		e := &pb.Entry{Term: num("term"), Index: num("index"),
			Type: rapid.SampledFrom([]pb.EntryType{pb.EntryNormal, pb.EntryConfChangeV2}).Draw(t, "type").Enum()}
		if rapid.Bool().Draw(t, "has data") {
			e.Data = rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "data")
		}
		m.Entries = append(m.Entries, e)
	}
	if m.GetType() == pb.MsgSnap {
		ids := rapid.SliceOfN(rapid.Uint64(), 1, 4)
		m.Snapshot = &pb.Snapshot{
			Metadata: &pb.SnapshotMetadata{Index: num("index"), Term: num("term"), ConfState: &pb.ConfState{
				Voters: ids.Draw(t, "voters"), Learners: ids.Draw(t, "learners"),
				VotersOutgoing: ids.Draw(t, "outgoing"),
				LearnersNext:   ids.Draw(t, "next"), AutoLeave: new(rapid.Bool().Draw(t, "leave")),
			}},
			Data: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "data"),
		}
	}
	return Message{Group: rapid.Uint64().Draw(t, "group"), Raft: m}
}

// TestFrameRoundTrip checks that frames of random messages preserve all fields that the library sets.
func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Message
		at, echo := Instant(rapid.Int64().Draw(t, "at")), Instant(rapid.Int64().Draw(t, "echo"))
		frame := NewFrame(nil, at, echo)
		for range rapid.IntRange(0, 4).Draw(t, "messages") {
			m := drawMessage(t)
			want = append(want, m)
			frame = AppendMessage(frame, m.Group, m.Raft)
		}
		f, err := DecodeFrame(NodeID{7}, frame)
		got := f.Messages
		if err != nil || len(got) != len(want) || f.From != (NodeID{7}) || f.At != at || f.Echo != echo {
			t.Fatalf("%d messages from %x at %d echo %d, %v; want %d at %d echo %d", len(got), f.From, f.At, f.Echo,
				err, len(want), at, echo)
		}
		for i := range want {
			if got[i].Group != want[i].Group || !proto.Equal(got[i].Raft, want[i].Raft) {
				t.Fatalf("group %d: %v\nwant group %d: %v", got[i].Group, got[i].Raft, want[i].Group, want[i].Raft)
			}
		}
	})
}

// TestFrameRefusals checks that other versions, local message types, and truncated frames are rejected.
func TestFrameRefusals(t *testing.T) {
	whole := AppendMessage(NewFrame(nil, 0, 0), 3, &pb.Message{
		Type: pb.MsgApp.Enum(), To: new(uint64(1)), From: new(uint64(2)),
		Entries: []*pb.Entry{{Term: new(uint64(5)), Index: new(uint64(6)), Data: []byte("data")}},
	})
	for n := range whole {
		if n == 3 {
			continue // the version and the instants alone are a heartbeat
		}
		if _, err := DecodeFrame(NodeID{}, whole[:n]); !errors.Is(err, ErrFrame) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := DecodeFrame(NodeID{}, append([]byte{frameVersion + 1}, whole[1:]...)); !errors.Is(err, ErrFrame) {
		t.Errorf("another version: %v", err)
	}
	for _, kind := range []pb.MessageType{pb.MsgProp, pb.MsgStorageAppendResp, pb.MsgHup, pb.MsgTransferLeader, 99} {
		if _, err := DecodeFrame(NodeID{},
			AppendMessage(NewFrame(nil, 0, 0), 1, &pb.Message{Type: kind.Enum()})); !errors.Is(err, ErrFrame) {
			t.Errorf("message %v: %v", kind, err)
		}
	}
}

// FuzzFrame checks that no frame makes the decoder panic or use more memory than the frame. Re-encoding a decoded frame
// must result in the same bytes.
func FuzzFrame(f *testing.F) {
	f.Add(NewFrame(nil, 0, 0))
	f.Add(AppendMessage(NewFrame(nil, 0, 0), 3, &pb.Message{Type: pb.MsgApp.Enum(), Context: []byte("x"),
		Entries: []*pb.Entry{{Data: []byte("data")}}}))
	f.Add(AppendMessage(NewFrame(nil, 0, 0), 3,
		&pb.Message{Type: pb.MsgSnap.Enum(),
			Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: []uint64{1, 2}}}}}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, err := DecodeFrame(NodeID{}, frame)
		if err != nil {
			return
		}
		messages := got.Messages
		again := NewFrame(nil, 0, 0)
		for _, m := range messages {
			again = AppendMessage(again, m.Group, m.Raft)
		}
		back, err := DecodeFrame(NodeID{}, again)
		if err != nil || len(back.Messages) != len(messages) {
			t.Fatalf("%d messages, %v; were %d", len(back.Messages), err, len(messages))
		}
	})
}

// TestCommandsRoundTrip checks that decoding an entry returns the encoded commands in order.
func TestCommandsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ps []Proposal
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			ps = append(ps, Proposal{data: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")})
		}
		want := rapid.Uint64().Draw(t, "sequence")
		sequence, commands, err := decodeCommands(nil, appendCommands(nil, want, ps))
		if err != nil || sequence != want || len(commands) != len(ps) {
			t.Fatalf("%d, %d commands, %v", sequence, len(commands), err)
		}
		for i := range ps {
			if !bytes.Equal(commands[i], ps[i].data) {
				t.Fatalf("command %d: %x, want %x", i, commands[i], ps[i].data)
			}
		}
	})
	if _, _, err := decodeCommands(nil, []byte{commandsVersion, 1, 200}); !errors.Is(err, ErrFrame) {
		t.Errorf("cut off: %v", err)
	}
	if _, _, err := decodeCommands(nil, []byte{commandsVersion + 1, 1}); !errors.Is(err, ErrFrame) {
		t.Errorf("another version: %v", err)
	}
}

// TestMembersRoundTrip checks the encoding that state machines store.
func TestMembersRoundTrip(t *testing.T) {
	want := []Member{{1, NodeID{1}}, {1 << 60, NodeID{2, 3}}}
	got, rest, err := DecodeMembers(append(EncodeMembers(nil, want), 9))
	if diff := cmp.Diff(want, got); err != nil || diff != "" || !bytes.Equal(rest, []byte{9}) {
		t.Fatalf("%v, rest %x\n%s", err, rest, diff)
	}
	if _, _, err := DecodeMembers(EncodeMembers(nil, want)[:20]); !errors.Is(err, ErrFrame) {
		t.Errorf("cut off: %v", err)
	}
}
