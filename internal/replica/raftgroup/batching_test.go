// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// TestProposalsGatherOverGroups checks that proposals of each group are combined into one entry while many entries of
// the node are unapplied. The test also checks that slow entries do not delay other groups.
func TestProposalsGatherOverGroups(t *testing.T) {
	b := reopen(t, vfs.NewMem(), raftgroup.Options{UnappliedNode: 4, AlwaysTick: true})
	for id := uint64(1); id <= 6; id++ {
		conf := &pb.ConfState{Voters: []uint64{10 + id}}
		where := raftgroup.EncodeMembers(nil, []raftgroup.Member{{Replica: 10 + id, Node: nodeID(0)}})
		meta := ledger.Meta{Replica: 10 + id, Applied: 10, Term: 5, Conf: conf, Where: where}
		if err := b.store.Create(id, meta); err != nil {
			t.Fatal(err)
		}
	}
	gs, err := b.openGroups()
	if err != nil {
		t.Fatal(err)
	}
	b.run()
	all := func() (out []*outcome) {
		for _, g := range gs {
			out = append(out, b.propose(g, 0, ledger.Add("n", 1)))
		}
		b.run()
		return out
	}
	last := func(i int) uint64 {
		s, _ := b.host.Status(gs[i].ID())
		return s.Last
	}
	b.lazy = true
	first := all()
	began := last(0)
	second, third := all(), all()
	if last(0) != began {
		t.Fatal("proposals are not collected while entries are unapplied")
	}
	b.lazy = false
	b.run()
	for i := range gs {
		same := second[i].Index == third[i].Index && second[i].Index != first[i].Index
		if first[i].Err != nil || second[i].Err != nil || !same {
			t.Fatalf("group %d: %+v, %+v, %+v: want the last two in one entry", i+1, first[i], second[i], third[i])
		}
	}
	b.lazy = true
	all()
	began = last(0)
	all()
	b.tick(2)
	if last(0) != began {
		t.Fatal("proposals are not collected")
	}
	b.tick(1)
	if last(0) == began {
		t.Fatal("slow entries delay all others")
	}
}

// TestCommitIsNotWritten checks that a commit index alone causes no write, and that output that depends on earlier
// writes is still sent.
func TestCommitIsNotWritten(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 3, raftgroup.Options{AlwaysTick: true})
	term := uint64(6)
	b.replicate(term, 10, 5, 10, &pb.Entry{Term: &term, Index: new(uint64(11))})
	b.take()
	commits := b.log.Metrics().Commits
	b.replicate(term, 11, term, 11)
	if s, _ := b.host.Status(1); s.Applied != 11 {
		t.Fatalf("applied %d", s.Applied)
	}
	if got := b.log.Metrics().Commits; got != commits {
		t.Errorf("%d writes for a commit index", got-commits)
	}
	if got := b.take(); got != "MsgAppResp to 11" {
		t.Errorf("answered %s", got)
	}
}

// TestNoProbesOfBusyFollowers checks that a follower to which entries were just sent gets no empty message after its
// heartbeat response. A follower that lacks entries and to which no entries were sent must get such a message.
func TestNoProbesOfBusyFollowers(t *testing.T) {
	b, g, term := led(t, raftgroup.Options{AlwaysTick: true})
	probes := func() (n int) {
		for range 3 { // the first message may be omitted, because it contains only an index
			b.take()
			b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
			for _, m := range b.sentOf(pb.MsgApp) {
				if m.GetTo() == 11 && len(m.GetEntries()) == 0 {
					n++
				}
			}
		}
		return n
	}
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	if n := probes(); n != 0 {
		t.Errorf("%d probes of a follower that was just sent entries", n)
	}
	b.tick(2)
	if n := probes(); n == 0 {
		t.Error("no probe of a follower that has not answered and is sent nothing")
	}
}
