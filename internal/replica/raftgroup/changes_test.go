// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// exchange returns the entry that replaces one voter with another replica by means of a joint configuration.
func exchange(t *testing.T, index, in, out uint64, node int) *pb.Entry {
	t.Helper()
	where := []raftgroup.Member{{Replica: in, Node: nodeID(node)}}
	return changeEntry(t, index, &pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{
			{Type: pb.ConfChangeAddNode.Enum(), NodeId: &in}, {Type: pb.ConfChangeRemoveNode.Enum(), NodeId: &out},
		},
		Context: raftgroup.EncodeMembers(binary.AppendUvarint(nil, index), where),
	})
}

// changeEntry returns an entry of term 6. An empty change leaves a joint configuration.
func changeEntry(t *testing.T, index uint64, cc *pb.ConfChangeV2) *pb.Entry {
	t.Helper()
	data, err := proto.Marshal(cc)
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Entry{Term: new(uint64(6)), Index: &index, Type: pb.EntryConfChangeV2.Enum(), Data: data}
}

// TestChangesSurviveCrash checks a replica whose log contains a membership change and that has not applied an earlier
// change. After a crash, it must not campaign with the old configuration (RG12). Otherwise, it could win with the vote
// of a removed replica while the new members acknowledge writes of another leader.
func TestChangesSurviveCrash(t *testing.T) {
	leave := &pb.ConfChangeV2{}
	for _, c := range []struct {
		name    string
		voters  int
		changes []*pb.Entry
		commit  uint64
	}{
		{"one exchange of three", 3, []*pb.Entry{exchange(t, 12, 13, 12, 3), changeEntry(t, 13, leave)}, 12},
		{"two exchanges of four", 4, []*pb.Entry{exchange(t, 12, 14, 11, 4), changeEntry(t, 13, leave),
			exchange(t, 14, 15, 12, 5), changeEntry(t, 15, leave)}, 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewCrashableMem()
			b, _ := open(t, fs, c.voters, raftgroup.Options{})
			b.tick(2)
			b.lazy = true // all entries are in the log, and the process ends before they are applied
			term := uint64(6)
			b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: &term, Commit: new(uint64(10))})
			b.hear(&pb.Message{
				Type: pb.MsgApp.Enum(), Term: &term, Index: new(uint64(10)), LogTerm: new(uint64(5)), Commit: &c.commit,
				Entries: append([]*pb.Entry{{Term: &term, Index: new(uint64(11))}}, c.changes...),
			})
			clone, now := fs.CrashClone(vfs.CrashCloneCfg{}), b.now
			b.close()
			b = reopen(t, clone, raftgroup.Options{})
			b.now, b.lazy = now, true
			if _, err := b.openGroups(); err != nil {
				t.Fatal(err)
			}
			s, _ := b.host.Status(1)
			if s.Applied != 10 || s.Last != c.changes[len(c.changes)-1].GetIndex() {
				t.Fatalf("after the crash: applied %d, last %d", s.Applied, s.Last)
			}
			b.take()
			b.tick(200)
			if sent := b.take(); strings.Contains(sent, "Vote") {
				t.Errorf("the replica asks for votes before it has applied the changes: %s", sent)
			}
			b.lazy = false
			b.run()
			b.tick(200)
			if sent := b.take(); !strings.Contains(sent, "Vote") {
				t.Errorf("the replica does not ask for votes after it has applied the changes: %s", sent)
			}
		})
	}
}
