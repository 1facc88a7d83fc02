// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// TestYoungerReplica checks that messages for a replica that has not been created yet are reported and have no other
// effect. Messages for a removed replica must not be reported.
func TestYoungerReplica(t *testing.T) {
	var heard [][2]uint64
	b, _ := open(t, vfs.NewMem(), 3, raftgroup.Options{Observer: &observer{
		unknownGroup: func(group, replica uint64, from raftgroup.NodeID) {
			if from != nodeID(1) {
				t.Errorf("received from %x", from)
			}
			heard = append(heard, [2]uint64{group, replica})
		},
	}})
	b.tick(1)
	b.take()
	for _, at := range [][2]uint64{{1, 9}, {1, 40}, {2, 7}} {
		m := &pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(8)), To: new(at[1]), From: new(uint64(11))}
		f, err := raftgroup.DecodeFrame(nodeID(1), raftgroup.AppendMessage(raftgroup.NewFrame(nil, b.now, b.echo),
			at[0], m))
		if err != nil {
			t.Fatal(err)
		}
		b.inbox.Frames = append(b.inbox.Frames, f)
		b.run()
	}
	if got := b.take(); got != "" || len(heard) != 2 || heard[0] != [2]uint64{1, 40} || heard[1] != [2]uint64{2, 7} {
		t.Errorf("sent %q, received %v", got, heard)
	}
	if s, _ := b.host.Status(1); s.Term >= 8 {
		t.Errorf("the existing replica moved to term %d", s.Term)
	}
}
