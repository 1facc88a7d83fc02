// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// TestEarlyVotes checks that a vote request that arrives before its group exists is answered when the group is opened,
// unless the request is too old. The child of a split must have its leader without waiting for a tick.
func TestEarlyVotes(t *testing.T) {
	for ticks, want := range map[int]string{0: "MsgPreVoteResp to 11", 19: "MsgPreVoteResp to 11", 25: ""} {
		b := reopen(t, vfs.NewMem(), raftgroup.Options{})
		conf := &pb.ConfState{Voters: []uint64{10, 11, 12}}
		var where []raftgroup.Member
		for i := range 3 {
			where = append(where, raftgroup.Member{Replica: uint64(10 + i), Node: nodeID(i)})
		}
		b.hear(&pb.Message{Type: pb.MsgPreVote.Enum(), Term: new(uint64(6)), LogTerm: new(uint64(5)),
			Index: new(uint64(10))})
		if got := b.take(); got != "" {
			t.Errorf("before the group exists: %s", got)
		}
		b.tick(ticks)
		meta := ledger.Meta{Replica: 10, Applied: 10, Term: 5, Conf: conf,
			Where: raftgroup.EncodeMembers(nil, where)}
		if err := b.store.Create(1, meta); err != nil {
			t.Fatal(err)
		}
		_, err := b.host.Open(raftgroup.GroupConfig{ID: 1, Replica: 10, Applied: 10, Term: 5, Conf: conf, Where: where,
			Initial: true, PreferredNode: nodeID(1)})
		if err != nil {
			t.Fatal(err)
		}
		b.run()
		if got := b.take(); got != want {
			t.Errorf("%d ticks after the request: got %q, want %q", ticks, got, want)
		}
		b.close()
	}
}

// TestReplicaWithoutSnapshotVotes checks a replica that waits for its first snapshot and has received messages from a
// leader. It must vote for another replica when that leader is down. If only two of four other voters are left, no
// replica can lead without its vote.
func TestReplicaWithoutSnapshotVotes(t *testing.T) {
	b := reopen(t, vfs.NewMem(), raftgroup.Options{})
	if _, err := b.host.Open(raftgroup.GroupConfig{ID: 1, Replica: 10}); err != nil {
		t.Fatal(err)
	}
	b.tick(40)
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(5))})
	if got := b.take(); got != "MsgHeartbeatResp to 11" {
		t.Fatalf("to the leader: %q", got)
	}
	b.tick(40)
	b.take()
	b.hear(&pb.Message{Type: pb.MsgPreVote.Enum(), Term: new(uint64(6)), LogTerm: new(uint64(5)),
		Index: new(uint64(16))})
	if got := b.take(); got != "MsgPreVoteResp to 11" {
		t.Errorf("response to the next candidate: %q", got)
	}
}
