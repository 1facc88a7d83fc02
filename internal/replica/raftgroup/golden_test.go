// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/hex"
	"fmt"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

func frameOf(entries, size int) []byte {
	m := &pb.Message{
		Type: pb.MsgApp.Enum(), To: new(uint64(1 << 40)), From: new(uint64(2)), Term: new(uint64(7)),
		LogTerm: new(uint64(6)), Index: new(uint64(70000)),
		Commit: new(uint64(69999)), Context: []byte("context"),
	}
	for i := range entries {
		m.Entries = append(m.Entries, &pb.Entry{Term: new(uint64(7)), Index: new(70001 + uint64(i)),
			Type: pb.EntryNormal.Enum(), Data: make([]byte, size)})
	}
	return AppendMessage(NewFrame(nil, 1<<33, 300), 1<<20, m)
}

// TestFrameBytes pins the bytes that nodes of other versions send and that logs contain.
func TestFrameBytes(t *testing.T) {
	snapshot := &pb.Message{
		Type: pb.MsgSnap.Enum(), To: new(uint64(1)), From: new(uint64(2)), Reject: new(true),
		RejectHint: new(uint64(5)),
		Snapshot: &pb.Snapshot{Data: []byte("data"), Metadata: &pb.SnapshotMetadata{Index: new(uint64(300)),
			Term: new(uint64(4)), ConfState: &pb.ConfState{
				Voters: []uint64{1, 300}, LearnersNext: []uint64{9}, AutoLeave: new(true),
			}}},
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"append", frameOf(2, 3),
			"018080808020ac028080400306808080808020020706f0a204efa2040007636f6e746578740207f1a204000300000007f2a2040003000000"},
		{"snapshot", AppendMessage(NewFrame(nil, 0, 0), 3, snapshot),
			"01000003070901020000000005ac02040201ac0200000109010464617461"},
		{"commands", appendCommands(nil, 300, []Proposal{{data: []byte("one")}, {}, {data: []byte("three")}}),
			"01ac02036f6e6500057468726565"},
		{"members", EncodeMembers(nil, []Member{{1, NodeID{1}}, {1 << 60, NodeID{2, 3}}}),
			"02010100000000000000000000000000000080808080808080801002030000000000000000000000000000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// BenchmarkFrame measures the CPU time to encode and decode a frame with an append, and the entry in it.
func BenchmarkFrame(b *testing.B) {
	for _, entries := range []int{0, 1, 16} {
		frame := frameOf(entries, 200)
		f, err := DecodeFrame(NodeID{}, frame)
		if err != nil {
			b.Fatal(err)
		}
		m := f.Messages[0]
		var dst []byte
		b.Run(fmt.Sprintf("append/entries=%d", entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendMessage(NewFrame(dst[:0], 1<<33, 300), m.Group, m.Raft)
			}
		})
		b.Run(fmt.Sprintf("decode/entries=%d", entries), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeFrame(NodeID{}, frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var ps []Proposal
	for range 8 {
		ps = append(ps, Proposal{data: make([]byte, 200)})
	}
	var dst []byte
	var commands [][]byte
	b.Run("commands", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = appendCommands(dst[:0], 70000, ps)
			var err error
			if _, commands, err = decodeCommands(commands[:0], dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}
