// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// still is a member of a replica set that does not act by itself.
type still struct {
	leading bool // may act
	status  raftgroup.Status
	changes []raftgroup.Change
	deposed error // the result of Confirm
	level   feature.Level
	epoch   uint64
	splits  int
}

func (r *still) ID() topology.PartitionID          { return 1 }
func (r *still) Leading() bool                     { return r.leading }
func (r *still) Status() (raftgroup.Status, error) { return r.status, nil }
func (r *still) Confirm(context.Context) error     { return r.deposed }
func (r *still) Transfer(topology.ReplicaID) error { return nil }
func (r *still) Level() feature.Level              { return r.level }
func (r *still) RaiseLevel(_ context.Context, level feature.Level) error {
	r.level = level
	return nil
}
func (r *still) Span() (topology.Span, uint64) { return topology.Span{}, r.epoch }
func (r *still) Split(_ context.Context, epoch uint64, _ *command.Split) error {
	r.splits++
	r.epoch = epoch + 1
	return nil
}
func (r *still) Member() topology.ReplicaID             { return 1 }
func (r *still) Frozen() uint64                         { return 0 }
func (r *still) Freeze(context.Context, uint64) error   { return nil }
func (r *still) Unfreeze(context.Context, uint64) error { return nil }
func (r *still) Merge(context.Context, uint64, *command.Merge) error {
	return nil
}
func (r *still) ChangeMembers(_ context.Context, c []raftgroup.Change) error {
	r.changes = append(r.changes, c...)
	return nil
}

// stuck is a leader whose membership change waits for an unavailable quorum.
type stuck struct {
	still
	begun chan struct{}
}

func (r *stuck) ChangeMembers(ctx context.Context, _ []raftgroup.Change) error {
	close(r.begun)
	<-ctx.Done()
	return ctx.Err()
}

type replicasByID map[topology.PartitionID]Replica

func (r replicasByID) Replica(id topology.PartitionID) Replica { return r[id] }

// TestStuckChangeHoldsUpNoOther checks that a membership change that never completes does not block changes of the
// node's other replica sets. The test also checks that the unfinished change is not started twice.
func TestStuckChangeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places := []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}}
		m, err := topology.New().CutTable(600, topology.Equal(2, places))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Partitions(600) {
			if m, _, err = m.AddMember(p.ID, "r", topology.NodeID{4}, topology.Joining); err != nil {
				t.Fatal(err)
			}
		}
		leads := func(p *topology.Partition) still {
			s := still{leading: true, level: m.Level(),
				status: raftgroup.Status{Leading: true, Members: &pb.ConfState{}}}
			for _, r := range p.Sets[0].Replicas[:3] {
				s.status.Members.Voters = append(s.status.Members.Voters, uint64(r.ID))
			}
			s.status.Replica = s.status.Members.Voters[0]
			return s
		}
		ps := m.Partitions(600)
		first, second := &stuck{still: leads(ps[0]), begun: make(chan struct{})}, leads(ps[1])
		members := MembershipReconciler{Region: "r", Keeper: keeperOf(t, m), Log: slog.New(slog.DiscardHandler),
			Replicas: replicasByID{ps[0].ID: first, ps[1].ID: &second}}
		members.Enqueue(ps[0].ID, ps[1].ID)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { members.Run(ctx); close(ended) }()
		time.Sleep(2*roundInterval + roundInterval/2)
		synctest.Wait()
		select {
		case <-first.begun:
		default:
			t.Fatal("the first change was not begun")
		}
		members.Enqueue(ps[0].ID)
		time.Sleep(2 * roundInterval)
		synctest.Wait()
		if len(second.changes) == 0 {
			t.Error("the second replica set waits for the first")
		}
		cancel()
		<-ended
	})
}

// TestMembersAreNotForgotten checks that every node that may become the leader examines a changing replica set until
// the change is complete. A new leader is notified of its leadership before it may act. The previous leader may then no
// longer act.
func TestMembersAreNotForgotten(t *testing.T) {
	p := &topology.Partition{ID: 1, Sets: []topology.ReplicaSet{{Replicas: []topology.Replica{
		{ID: 1, Node: topology.NodeID{1}, State: topology.Voter},
		{ID: 2, Node: topology.NodeID{2}, State: topology.Voter},
		{ID: 3, Node: topology.NodeID{3}, State: topology.Voter},
		{ID: 4, Node: topology.NodeID{4}, State: topology.Joining},
	}}}}
	r := &still{status: raftgroup.Status{Replica: 1, Leader: 2, Members: &pb.ConfState{Voters: []uint64{1, 2, 3}}}}
	var m MembershipReconciler
	var level feature.Level
	look := func(when string, converged bool, changes int) {
		t.Helper()
		got, err := m.step(t.Context(), r, p, level)
		if err != nil || got != converged || len(r.changes) != changes {
			t.Errorf("%s: converged %v, %d changes, %v; want %v, %d", when, got, len(r.changes), err, converged,
				changes)
		}
	}
	look("another one leads", false, 0)
	r.status.Leader, r.status.Leading = 1, true
	look("it leads and may not act", false, 0)
	r.leading = true
	look("it leads", false, 1)
	r.status.Members.Voters = append(r.status.Members.Voters, 4)
	r.deposed = errors.New("somebody else leads by now")
	// Without Confirm, the topology would receive the change.
	if converged, err := m.step(t.Context(), r, p, level); converged || err != r.deposed {
		t.Errorf("a leader that may be none: converged %v, %v", converged, err)
	}
	for i := range p.Sets[0].Replicas {
		p.Sets[0].Replicas[i].State = topology.Voter
	}
	look("all vote", true, 1)
	level = 3
	look("the level of the cluster is raised", false, 1)
	if r.level != level {
		t.Errorf("the level of the partition is %d", r.level)
	}
	look("that of the partition, too", true, 1)
	r.leading = false
	look("it leads and may not act, all vote", false, 1)
	r.status.Leading = false
	look("another one leads, all vote", true, 1)
}
