// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// led makes replica 10 the leader of a group of three, with its first entry committed, and returns its term.
func led(t *testing.T, o raftgroup.Options) (b *bench, g *raftgroup.Group, term uint64) {
	t.Helper()
	return ledOf(t, 3, o)
}

// ledOf makes replica 10 the leader of a group with the given number of members.
func ledOf(t *testing.T, members int, o raftgroup.Options) (b *bench, g *raftgroup.Group, term uint64) {
	t.Helper()
	b, g = open(t, vfs.NewMem(), members, o)
	b.tick(o.ElectionTicks + 21) // after the vote lease that follows a restart
	for range 60 {
		b.take()
		b.tick(1)
		if s, _ := b.host.Status(1); s.Term > 5 || s.Leading {
			break
		}
		b.hear(&pb.Message{Type: pb.MsgPreVoteResp.Enum(), Term: new(uint64(6))})
	}
	s, _ := b.host.Status(1)
	b.hear(&pb.Message{Type: pb.MsgVoteResp.Enum(), Term: &s.Term})
	b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &s.Term, Index: new(uint64(11))})
	if term, ok := g.Evaluating(); !ok || term != s.Term {
		t.Fatalf("term %d, %v: replica 10 should lead in %d", term, ok, s.Term)
	}
	return b, g, s.Term
}

// replicate delivers entries of replica 11, which is now the leader. commit is the commit index that they contain.
func (b *bench) replicate(term, index, logTerm, commit uint64, entries ...*pb.Entry) {
	b.t.Helper()
	b.hear(&pb.Message{Type: pb.MsgApp.Enum(), Term: &term, Index: &index, LogTerm: &logTerm, Commit: &commit,
		Entries: entries})
}

// TestOutcomes checks the outcomes that the proposers of entries 12 and 13 receive when replica 10 loses its
// leadership. It has one case for each way in which their entries may end.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(b *bench, term uint64)
		want string
	}{
		{"both are committed by the next leader", func(b *bench, term uint64) {
			b.replicate(term+1, 13, term, 14, &pb.Entry{Term: new(term + 1), Index: new(uint64(14))})
		}, "done 2, done 5"},
		{"one is, the other is replaced", func(b *bench, term uint64) {
			b.replicate(term+1, 12, term, 13, &pb.Entry{Term: new(term + 1), Index: new(uint64(13))})
		}, "done 2, replaced"},
		{"a newer term before both is proof enough", func(b *bench, term uint64) {
			b.replicate(term+1, 11, term, 12, &pb.Entry{Term: new(term + 1), Index: new(uint64(12))})
		}, "replaced, replaced"},
		{"entries of another term that are not committed prove nothing", func(b *bench, term uint64) {
			b.replicate(term+1, 11, term, 11, &pb.Entry{Term: new(term + 1), Index: new(uint64(12))},
				&pb.Entry{Term: new(term + 1), Index: new(uint64(13))})
		}, "open, open"},
		{"nothing is heard for too long", func(b *bench, term uint64) {
			b.replicate(term+1, 11, term, 11)
			b.tick(41)
		}, "unknown, unknown"},
		{"the replica is closed", func(b *bench, term uint64) {
			b.replicate(term+1, 11, term, 11)
			b.host.Close(1, nil)
		}, "unknown, unknown"},
		{"still waiting", func(b *bench, term uint64) {
			b.replicate(term+1, 11, term, 11)
			b.tick(20)
		}, "open, open"},
		{"a snapshot over one, of a newer term", func(b *bench, term uint64) {
			b.snapshot(term, 12, term+1)
		}, "replaced, replaced"},
		{"a snapshot over both", func(b *bench, term uint64) { b.snapshot(term, 20, term+1) }, "unknown, unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, g, term := led(t, raftgroup.Options{})
			first := b.propose(g, 0, ledger.Add("n", 2))
			b.run()
			second := b.propose(g, term, ledger.Add("n", 3))
			b.run()
			queued := b.propose(g, term, ledger.Add("n", 1)) // proposed after the leadership has already been lost
			c.then(b, term)
			text := ""
			for i, o := range []*outcome{first, second} {
				if i > 0 {
					text += ", "
				}
				switch {
				case o.calls > 1:
					t.Fatalf("notified %d times", o.calls)
				case o.calls == 0:
					text += "open"
				case o.Err == nil:
					text += fmt.Sprintf("done %v", o.Result)
				case errors.Is(o.Err, raftgroup.ErrReplaced) && errors.Is(o.Err, raftgroup.ErrStaleTerm):
					text += "replaced"
				case errors.Is(o.Err, raftgroup.ErrUnknown):
					text += "unknown"
				default:
					text += o.Err.Error()
				}
			}
			if text != c.want {
				t.Errorf("%s, want %s", text, c.want)
			}
			if queued.calls != 1 || !errors.Is(queued.Err, raftgroup.ErrNotLeader) {
				t.Errorf("what was queued: %+v", queued)
			}
		})
	}
}

// snapshotOf returns a snapshot that replica 11 sends in a term, its announcement, and its data. The snapshot has the
// members of replica 10's state.
func (b *bench) snapshotOf(term, index, snapTerm uint64) (raftgroup.Received, raftgroup.SnapshotData) {
	b.t.Helper()
	other, err := ledger.Open("rows", vfs.NewMem(), 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { other.Close() })
	meta, _, err := b.store.Meta(1)
	if err != nil {
		b.t.Fatal(err)
	}
	meta.Applied, meta.Term = index, snapTerm
	if err := other.Create(1, meta); err != nil {
		b.t.Fatal(err)
	}
	sm, data, err := other.Snapshot(1)
	if err != nil {
		b.t.Fatal(err)
	}
	kind, to, from := pb.MsgSnap, uint64(10), uint64(11)
	m := &pb.Message{Type: &kind, To: &to, From: &from, Term: &term,
		Snapshot: &pb.Snapshot{Metadata: sm, Data: meta.Where}}
	f, err := raftgroup.DecodeFrame(nodeID(1), raftgroup.AppendMessage(raftgroup.NewFrame(nil, b.now, 0), 1, m))
	if err != nil {
		b.t.Fatal(err)
	}
	return f, data
}

// snapshot delivers a snapshot of replica 11 and installs it.
func (b *bench) snapshot(term, index, snapTerm uint64) {
	b.t.Helper()
	f, data := b.snapshotOf(term+1, index, snapTerm)
	defer data.Close()
	b.replicate(term+1, 11, term, 11) // replica 11 is the leader
	if err := b.host.Expect(&f); err != nil {
		b.t.Fatal(err)
	}
	again := f
	if err := b.host.Expect(&again); !errors.Is(err, raftgroup.ErrUnwanted) {
		b.t.Fatalf("a second snapshot at one time: %v", err)
	}
	f.Take(b.received(data))
	b.inbox.Frames = append(b.inbox.Frames, f)
	b.run()
	if b.store.Kept() != 0 {
		b.t.Errorf("%d snapshots are kept", b.store.Kept())
	}
}

// TestSnapshotBehindChange checks that a snapshot does not overtake a membership change that waits to be applied. The
// Raft library adopts the members of the snapshot immediately, and would apply the change to these members. A snapshot
// that arrives in the meantime must be discarded, and the next snapshot must be installed.
func TestSnapshotBehindChange(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 3, raftgroup.Options{})
	b.run()
	arrives, data := b.snapshotOf(6, 20, 6)
	defer data.Close()
	b.replicate(6, 10, 5, 10)
	if err := b.host.Expect(&arrives); err != nil {
		t.Fatal(err)
	}
	add, leave := change(t, &pb.ConfChangeV2{Transition: pb.ConfChangeTransitionJointExplicit.Enum(),
		Changes: []*pb.ConfChangeSingle{
			{Type: pb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(13))}}}), change(t, &pb.ConfChangeV2{})
	b.replicate(6, 10, 5, 11, entry(6, 11, pb.EntryConfChangeV2, add))
	b.lazy = true
	b.replicate(6, 11, 6, 13, entry(6, 12, pb.EntryNormal, nil), entry(6, 13, pb.EntryConfChangeV2, leave))
	arrives.Take(b.received(data))
	b.inbox.Frames = append(b.inbox.Frames, arrives)
	b.run()
	again, more := b.snapshotOf(6, 20, 6)
	defer more.Close()
	if err := b.host.Expect(&again); !errors.Is(err, raftgroup.ErrUnwanted) {
		t.Errorf("a snapshot is requested while a change of members waits: %v", err)
	}
	b.lazy = false
	b.run()
	s, _ := b.host.Status(1)
	if s.Applied != 13 || s.Commit != 13 || len(s.Members.GetVotersOutgoing()) > 0 ||
		len(s.Members.GetLearners()) != 1 || b.store.Kept() != 0 {
		t.Fatalf("%+v, %d snapshots are kept", s, b.store.Kept())
	}
	if err := b.host.Expect(&again); err != nil {
		t.Fatal(err)
	}
	again.Take(b.received(more))
	b.inbox.Frames = append(b.inbox.Frames, again)
	b.run()
	if s, _ := b.host.Status(1); s.Applied != 20 {
		t.Fatalf("the next snapshot is not installed: %+v", s)
	}
}

func entry(term, index uint64, kind pb.EntryType, data []byte) *pb.Entry {
	return &pb.Entry{Term: &term, Index: &index, Type: &kind, Data: data}
}

func change(t *testing.T, cc *pb.ConfChangeV2) []byte {
	t.Helper()
	b, err := proto.Marshal(cc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFreshness checks when a leader is fresh and which freshness its followers may report. A quorum must have just
// confirmed the state in both cases.
func TestFreshness(t *testing.T) {
	b, g, term := led(t, raftgroup.Options{AlwaysTick: true})
	if g.Fresh(b.now, time.Second) {
		t.Fatal("no message with a date was received")
	}
	stamp := b.now
	b.echo = stamp // echo of an earlier process
	b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
	b.echo = b.host.Stamp(stamp + 1) // an instant that has not been sent yet
	b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
	b.tick(2)
	if g.FreshAt() != 0 {
		t.Fatal("an unrelated echo made the replica fresh")
	}
	stamp = b.now
	b.echo = b.host.Stamp(stamp)
	b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
	b.take()
	b.tick(2)
	if !g.Fresh(b.now, 100*time.Millisecond) || g.Fresh(b.now, 99*time.Millisecond) || g.FreshAt() != stamp {
		t.Fatalf("fresh at %d, want %d", g.FreshAt(), stamp)
	}
	b.tick(4)
	if g.Fresh(b.now, 299*time.Millisecond) || !g.Fresh(b.now, 300*time.Millisecond) {
		t.Fatal("freshness does not age")
	}
	// The replica is now a follower. Once the index of a claim is applied, the replica is fresh as of the echo minus
	// the age of the claim.
	heartbeat := func(term, index uint64, age time.Duration) {
		b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: &term, Index: &index, Commit: new(uint64(11)),
			RejectHint: new(uint64(age.Microseconds()))})
	}
	b.echo = b.host.Stamp(b.now)
	heartbeat(term+1, 12, 80*time.Millisecond)
	if g.FreshAt() != stamp {
		t.Fatal("entry 12 is not applied")
	}
	want := b.now - raftgroup.Instant(90*time.Millisecond) // an eighth is subtracted for clock drift
	b.tick(3)
	b.replicate(term+1, 11, term, 12, &pb.Entry{Term: new(term + 1), Index: new(uint64(12))})
	if g.FreshAt() != want {
		t.Fatalf("fresh at %d, want %d", g.FreshAt(), want)
	}
	heartbeat(term+1, 12, 0)
	if g.FreshAt() != want {
		t.Error("a heartbeat without a claim made it fresh")
	}
	b.host.Close(1, nil)
	if g.Fresh(b.now, time.Hour) {
		t.Error("a closed replica is fresh")
	}
}
