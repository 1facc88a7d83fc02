// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// read delivers a read.
func (b *bench) read(g *raftgroup.Group) *outcome {
	b.t.Helper()
	o := &outcome{}
	r, err := g.NewRead(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.inbox.Reads = append(b.inbox.Reads, r)
	b.run()
	return o
}

// sentOf returns the messages of a type that were sent since the last call of take, and discards all messages.
func (b *bench) sentOf(kind pb.MessageType) (out []*pb.Message) {
	for _, m := range b.sent {
		if m.GetType() == kind {
			out = append(out, m)
		}
	}
	b.sent = nil
	return out
}

// TestLeaderIndexQuery checks index queries on the leader (RG10). Without a lease, an index query must wait for a
// quorum. With a lease, the leader must reply immediately with the commit index. It must not reply based on a clock
// reading from before the query, after the lease has ended, or to a node outside the group.
func TestLeaderIndexQuery(t *testing.T) {
	b, g, term := led(t, raftgroup.Options{AlwaysTick: true})
	ask := func(number uint64) []*pb.Message {
		b.take()
		b.hear(&pb.Message{Type: raftgroup.MsgIndexQuery.Enum(), Term: &term, Index: &number})
		return b.sentOf(raftgroup.MsgIndexReply)
	}
	confirm := func(beats []*pb.Message) {
		for _, m := range beats {
			if m.GetTo() == 11 && len(m.GetContext()) > 0 {
				b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term, Context: m.GetContext()})
			}
		}
	}
	b.take()
	b.hear(&pb.Message{Type: raftgroup.MsgIndexQuery.Enum(), Term: &term, Index: new(uint64(70))})
	beats := b.sent
	if got := b.sentOf(raftgroup.MsgIndexReply); len(got) != 0 {
		t.Fatalf("responded without a lease and without a quorum: %v", got)
	}
	confirm(beats)
	got := b.sentOf(raftgroup.MsgIndexReply)
	if len(got) != 1 || got[0].GetIndex() != 70 || got[0].GetCommit() != 11 || got[0].GetReject() {
		t.Fatalf("confirmed by a quorum: %v", got)
	}
	if g.Lease() == 0 {
		t.Fatal("the round granted no lease")
	}
	// A committed entry that is not applied counts, because readers may see it before the loop is notified.
	b.lazy = true
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &term, Index: new(uint64(12))})
	if got := ask(71); len(got) != 1 || got[0].GetCommit() != 12 || got[0].GetReject() {
		t.Fatalf("under the lease: %v", got)
	}
	b.inbox.Coarse = true
	if got := ask(72); len(got) != 0 {
		t.Fatalf("by an instant that may be too early: %v", got)
	}
	b.now += raftgroup.Instant(time.Second)
	if got := ask(73); len(got) != 0 {
		t.Fatalf("after the lease: %v", got)
	}
	b.take()
	m := &pb.Message{
		Type: raftgroup.MsgIndexQuery.Enum(), To: new(uint64(10)), From: new(uint64(99)), Term: &term,
		Index: new(uint64(74)),
	}
	f, err := raftgroup.DecodeFrame(nodeID(1), raftgroup.AppendMessage(raftgroup.NewFrame(nil, b.now, 0), 1, m))
	if err != nil {
		t.Fatal(err)
	}
	b.inbox.Frames = append(b.inbox.Frames, f)
	b.run()
	if got := b.sentOf(raftgroup.MsgIndexReply); len(got) != 1 || !got[0].GetReject() || got[0].GetTo() != 99 {
		t.Fatalf("an unknown user: got %v", got)
	}
	// The replica has lost its leadership, so queries that wait for a quorum are rejected.
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(term + 1), Commit: new(uint64(11))})
	if got := b.sentOf(raftgroup.MsgIndexReply); len(got) != 2 || !got[0].GetReject() || !got[1].GetReject() {
		t.Fatalf("deposed: %v", got)
	}
}

// TestIndexQuery checks index queries on a follower (RG10). Reads must wait for the reply to a query that was sent
// after they began, and then until its index is applied. They must fail if the leader rejects the query, is silent, or
// is replaced.
func TestIndexQuery(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 3, raftgroup.Options{AlwaysTick: true})
	if _, err := g.NewRead(&outcome{}); !errors.Is(err, raftgroup.ErrNotLeader) {
		t.Fatalf("without a leader: %v", err)
	}
	term := uint64(6)
	b.replicate(term, 10, 5, 10, &pb.Entry{Term: &term, Index: new(uint64(11))})
	b.take()
	tell := func(number, index uint64, reject bool) {
		b.hear(&pb.Message{Type: raftgroup.MsgIndexReply.Enum(), Term: &term, Index: &number, Commit: &index,
			Reject: &reject})
	}
	first := b.read(g)
	asks := b.sentOf(raftgroup.MsgIndexQuery)
	if len(asks) != 1 || asks[0].GetTo() != 11 || first.calls != 0 {
		t.Fatalf("the leader was asked %v", asks)
	}
	late := b.read(g)
	if asks := b.sentOf(raftgroup.MsgIndexQuery); len(asks) != 0 {
		t.Fatalf("asked again while a query is in progress: %v", asks)
	}
	tell(asks[0].GetIndex()+1, 10, false)
	if first.calls != 0 {
		t.Fatal("the response to another query was accepted")
	}
	tell(asks[0].GetIndex(), 11, false)
	again := b.sentOf(raftgroup.MsgIndexQuery)
	if first.calls != 0 || late.calls != 0 || len(again) != 1 || again[0].GetIndex() == asks[0].GetIndex() {
		t.Fatalf("entry 11 is not applied; the next query is %v", again)
	}
	b.replicate(term, 11, term, 11)
	if first.calls != 1 || first.Err != nil || first.Index != 11 || late.calls != 0 {
		t.Fatalf("first %+v, late %+v", first, late)
	}
	tell(again[0].GetIndex(), 11, false)
	if late.calls != 1 || late.Err != nil {
		t.Fatalf("late %+v", late)
	}
	refused := b.read(g)
	tell(b.sentOf(raftgroup.MsgIndexQuery)[0].GetIndex(), 0, true)
	behind := b.read(g)
	tell(b.sentOf(raftgroup.MsgIndexQuery)[0].GetIndex(), 1_000_000, false)
	silent := b.read(g)
	b.tick(7)
	if !errors.Is(refused.Err, raftgroup.ErrNotLeader) || !errors.Is(behind.Err, raftgroup.ErrNotLeader) ||
		!errors.Is(silent.Err, raftgroup.ErrReadTimeout) {
		t.Fatalf("refused %+v, far behind %+v, silent %+v", refused, behind, silent)
	}
	b.take()
	orphan := b.read(g)
	if asks := b.sentOf(raftgroup.MsgIndexQuery); len(asks) != 1 {
		t.Fatalf("a lost question holds up the next: %v", asks)
	}
	b.hear(&pb.Message{
		Type: pb.MsgVote.Enum(), Term: new(term + 1), LogTerm: &term, Index: new(uint64(11)),
		Context: []byte("CampaignTransfer"),
	})
	if !errors.Is(orphan.Err, raftgroup.ErrNotLeader) {
		t.Fatalf("another leads: %+v", orphan)
	}
}

// TestCommitIsToldWhenApplied checks that a follower is notified of a commit as soon as its leader has applied it, and
// not earlier (RG10).
func TestCommitIsToldWhenApplied(t *testing.T) {
	b, g, term := led(t, raftgroup.Options{AlwaysTick: true})
	highest := func() (commit uint64) {
		for _, m := range b.sent {
			if m.GetTo() == 11 {
				commit = max(commit, m.GetCommit())
			}
		}
		b.sent = nil
		return commit
	}
	b.take()
	b.lazy = true
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &term, Index: new(uint64(12))})
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	b.tick(4)
	if got := highest(); got > 11 {
		t.Errorf("a follower was notified of commit %d; 11 is applied", got)
	}
	b.lazy = false
	b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &term, Index: new(uint64(13))})
	if got := highest(); got != 13 {
		t.Errorf("a follower was notified of commit %d; 13 is applied", got)
	}
}
