// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"errors"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// TestJointIsLeft checks that a group leaves a joint configuration without a client write, even on a node that must not
// lead and whose transfers fail. The Raft library drops its own proposal to leave the joint configuration while a
// transfer is open. It repeats the proposal only when an entry is applied. Leadership is therefore not transferred
// while members change.
func TestJointIsLeft(t *testing.T) {
	b, _, term := led(t, raftgroup.Options{AlwaysTick: true})
	status := func() raftgroup.Status { s, _ := b.host.Status(1); return s }
	// The follower acknowledges the entries that it has, and accepts no leadership.
	pass := func(ticks int, has uint64) {
		for range ticks {
			b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
			b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &term, Index: &has})
			b.tick(1)
		}
	}
	refused := func(when string) {
		t.Helper()
		if err := b.host.Transfer(1, 11); !errors.Is(err, raftgroup.ErrNotReady) {
			t.Errorf("the leadership is offered %s: %v", when, err)
		}
	}
	o := &outcome{}
	b.host.ChangeMembers(1, []raftgroup.Change{
		{Member: raftgroup.Member{Replica: 13, Node: nodeID(3)}, As: raftgroup.Voter},
		{Member: raftgroup.Member{Replica: 12}, As: raftgroup.Gone},
	}, o)
	b.run()
	b.host.Abstain(true)
	pass(10, 11)
	refused("while a change waits for a quorum")
	b.lazy = true
	pass(10, 12)
	if s := status(); len(s.Members.GetVotersOutgoing()) != 3 || s.Applied != 11 || o.calls != 0 {
		t.Fatalf("entry 12 should be with the applier: %+v", s)
	}
	refused("before the change is applied")
	b.lazy = false
	pass(10, 12)
	if o.calls != 1 || o.Err != nil {
		t.Fatalf("%+v", o)
	}
	refused("in the joint configuration")
	b.host.Abstain(false)
	pass(50, 12) // the offer has expired
	pass(2, status().Last)
	s := status()
	if !s.Leading || s.Term != term || s.Applied != s.Last {
		t.Fatalf("%+v", s)
	}
	if len(s.Members.GetVotersOutgoing()) > 0 {
		t.Errorf("the group is still in a joint configuration: %v", s.Members)
	}
	if err := b.host.Transfer(1, 11); err != nil {
		t.Errorf("the leadership is not offered after the change: %v", err)
	}
}
