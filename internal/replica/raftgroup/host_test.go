// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// bench is one node whose steps a test runs one by one. It records the messages that the node sends.
type bench struct {
	t       *testing.T
	log     *raftlog.Store
	store   *ledger.Store
	host    *raftgroup.Host
	writer  *raftgroup.LogWriter
	applier *raftgroup.Applier
	inbox   raftgroup.Inbox
	now     raftgroup.Instant
	sent    []*pb.Message
	applies []raftgroup.Apply
	// lazy delays all applies.
	lazy bool
	// echo is the last value of this node's clock that the peer has received.
	echo raftgroup.Instant
	// carry, if not nil, receives the messages that the node sends.
	carry func(raftgroup.Frame)
}

// open opens node 0 with group 1, whose members are replicas 10, 11, and so on. The replicas are on nodes 0, 1, and so
// on.
func open(t *testing.T, fs vfs.FS, members int, o raftgroup.Options) (*bench, *raftgroup.Group) {
	t.Helper()
	return openAs(t, fs, 0, members, o)
}

// openAs opens group 1 on one of the other nodes.
func openAs(t *testing.T, fs vfs.FS, node, members int, o raftgroup.Options) (*bench, *raftgroup.Group) {
	t.Helper()
	o.Node = nodeID(node)
	b := reopen(t, fs, o)
	conf := &pb.ConfState{}
	var where []raftgroup.Member
	for i := range members {
		conf.Voters = append(conf.Voters, uint64(10+i))
		where = append(where, raftgroup.Member{Replica: uint64(10 + i), Node: nodeID(i)})
	}
	meta := ledger.Meta{Replica: uint64(10 + node), Applied: 10, Term: 5, Conf: conf,
		Where: raftgroup.EncodeMembers(nil, where)}
	if err := b.store.Create(1, meta); err != nil {
		t.Fatal(err)
	}
	gs, err := b.openGroups()
	if err != nil {
		t.Fatal(err)
	}
	return b, gs[0]
}

func reopen(t *testing.T, fs vfs.FS, o raftgroup.Options) *bench {
	t.Helper()
	b := &bench{t: t}
	var err error
	if b.log, err = raftlog.Open("log", raftlog.Options{FS: fs, MemtableBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if b.store, err = ledger.Open("rows", fs, 1<<20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	if o.Node == (raftgroup.NodeID{}) {
		o.Node = nodeID(0)
	}
	b.host = raftgroup.NewHost(b.log, b.log.NewBatch(), o)
	b.writer, b.applier = raftgroup.NewLogWriter(b.log.NewBatch()), raftgroup.NewApplier(b.store)
	return b
}

func (b *bench) openGroups() ([]*raftgroup.Group, error) {
	var configs []raftgroup.GroupConfig
	err := b.store.Metas(func(group uint64, m ledger.Meta) {
		where, _, _ := raftgroup.DecodeMembers(m.Where)
		configs = append(
			configs,
			raftgroup.GroupConfig{
				ID:      group,
				Replica: m.Replica,
				Applied: m.Applied,
				Term:    m.Term,
				Conf:    m.Conf,
				Where:   where,
				Initial: m.Applied == 10,
			},
		)
	})
	if err != nil {
		return nil, err
	}
	return b.host.Open(configs...)
}

func (b *bench) close() {
	if b.log != nil {
		if err := errors.Join(b.log.Close(), b.store.Close()); err != nil {
			b.t.Error(err)
		}
		b.log = nil
	}
}

// run executes steps until no work is left.
func (b *bench) run() {
	b.t.Helper()
	for range 100 {
		in := b.inbox
		b.inbox = raftgroup.Inbox{}
		w := b.host.Step(b.now, &in)
		b.keep(w.Frames)
		b.applies = append(b.applies, w.Applies...)
		if len(w.Appends) > 0 {
			logged, frames, err := b.writer.Write(w.Appends)
			if err != nil {
				b.t.Fatal(err)
			}
			b.keep(frames)
			b.inbox.Logged = logged
		}
		if len(b.applies) > 0 && !b.lazy {
			applied, err := b.applier.Apply(b.applies)
			if err != nil {
				b.t.Fatal(err)
			}
			b.applies, b.inbox.Applied = nil, applied
		}
		for _, d := range w.Discards {
			if err := d.Close(); err != nil {
				b.t.Fatal(err)
			}
		}
		for _, i := range w.Installs {
			done, err := i.Run(b.store)
			if err != nil {
				b.t.Fatal(err)
			}
			b.inbox.Installed = append(b.inbox.Installed, done)
		}
		if len(b.inbox.Logged)+len(b.inbox.Applied)+len(b.inbox.Installed) == 0 {
			return
		}
	}
	b.t.Fatal("the steps do not end")
}

func (b *bench) keep(frames []raftgroup.Frame) {
	for _, f := range frames {
		if b.carry != nil {
			b.carry(f)
			continue
		}
		got, err := raftgroup.DecodeFrame(nodeID(0), append([]byte(nil), f.Data...))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, m := range got.Messages {
			b.sent = append(b.sent, m.Raft)
		}
	}
}

// take returns, as text, the messages sent since the last call.
func (b *bench) take() string {
	var out []string
	for _, m := range b.sent {
		text := fmt.Sprintf("%v to %d", m.GetType(), m.GetTo())
		if m.GetReject() {
			text += " reject"
		}
		out = append(out, text)
	}
	b.sent = nil
	return strings.Join(out, ", ")
}

// hear delivers a message from replica 11 on node 1.
func (b *bench) hear(m *pb.Message) {
	b.t.Helper()
	m.To, m.From = new(uint64(10)), new(uint64(11))
	f, err := raftgroup.DecodeFrame(nodeID(1), raftgroup.AppendMessage(raftgroup.NewFrame(nil, b.now, b.echo), 1, m))
	if err != nil {
		b.t.Fatal(err)
	}
	b.inbox.Frames = append(b.inbox.Frames, f)
	b.run()
}

func (b *bench) tick(n int) {
	b.t.Helper()
	for range n {
		b.now += raftgroup.Instant(50 * time.Millisecond)
		b.inbox.Ticks = 1
		b.run()
	}
}

// received is a snapshot received by the store.
func (b *bench) received(data raftgroup.SnapshotData) raftgroup.SnapshotData {
	b.t.Helper()
	kept, err := b.store.Receive(1, io.NewSectionReader(data, 0, data.Size()))
	if err != nil {
		b.t.Fatal(err)
	}
	return kept
}

// outcome is a Waiter that stores the outcome.
type outcome struct {
	calls int
	raftgroup.Outcome
}

func (o *outcome) Done(out raftgroup.Outcome) { o.calls++; o.Outcome = out }

func (b *bench) propose(g *raftgroup.Group, term uint64, data []byte) *outcome {
	b.t.Helper()
	o := &outcome{}
	p, err := g.NewProposal(term, data, o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.inbox.Proposals = append(b.inbox.Proposals, p)
	return o
}

// TestSingleVoter checks the steps of a proposal and its result, and that state and log survive a restart.
func TestSingleVoter(t *testing.T) {
	fs := vfs.NewMem()
	b, g := open(t, fs, 1, raftgroup.Options{})
	b.run()
	term, ok := g.Evaluating()
	if !ok || term != 6 {
		t.Fatalf("term %d, %v: want a single voter to lead immediately", term, ok)
	}
	first, second := b.propose(g, 0, ledger.Add("n", 2)), b.propose(g, term, ledger.Add("n", 3))
	b.run()
	if first.Err != nil || second.Err != nil || second.Result != uint64(5) || first.Index != second.Index {
		t.Fatalf("%+v, %+v: want sums in one entry", first, second)
	}
	b.close()
	b = reopen(t, fs, raftgroup.Options{})
	gs, err := b.openGroups()
	if err != nil {
		t.Fatal(err)
	}
	b.run()
	third := b.propose(gs[0], 0, ledger.Add("n", 1))
	b.run()
	if third.Err != nil || third.Result != uint64(6) || third.Term != 7 {
		t.Fatalf("after a restart: %+v", third)
	}
}

// TestStaleTerm checks that a proposal of another term is rejected without affecting other queued proposals (RG5).
func TestStaleTerm(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{})
	b.run()
	before, stale, after := b.propose(g, 6, ledger.Add("n", 1)), b.propose(g, 5, ledger.Add("n", 10)),
		b.propose(g, 6, ledger.Add("n", 1))
	b.run()
	if before.Err != nil || !errors.Is(stale.Err, raftgroup.ErrStaleTerm) || after.Err != nil ||
		after.Result != uint64(2) {
		t.Fatalf("%+v %+v %+v", before, stale, after)
	}
}

// TestBounds checks the limits of client requests (RG7). The error must contain the name of the exceeded limit, and
// completed requests must no longer count.
func TestBounds(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{ProposalsPerGroup: 3, ProposalBytes: 200,
		ProposalsNodeBytes: 250, ReadsPerGroup: 1})
	b.run()
	refused := func(err error) string {
		var r *raftgroup.LimitError
		if !errors.As(err, &r) {
			return fmt.Sprint(err)
		}
		return r.Bound
	}
	try := func(n int) error {
		p, err := g.NewProposal(0, ledger.Set("k", make([]byte, n)), &outcome{})
		if err == nil {
			b.inbox.Proposals = append(b.inbox.Proposals, p)
		}
		return err
	}
	for _, step := range []struct {
		bytes int
		want  string
	}{{300, "ProposalBytes"}, {100, ""}, {100, ""}, {100, "ProposalsNodeBytes"}, {1, ""}, {1, "ProposalsPerGroup"}} {
		if err := try(step.bytes); (err == nil) != (step.want == "") || err != nil && refused(err) != step.want {
			t.Fatalf("%d bytes: %v, want %s", step.bytes, err, step.want)
		}
	}
	if _, err := g.NewRead(&outcome{}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.NewRead(&outcome{}); refused(err) != "ReadsPerGroup" {
		t.Fatal(err)
	}
	b.run()
	if err := try(100); err != nil {
		t.Fatalf("after all ended: %v", err)
	}
}

// TestEntriesGather checks that proposals are collected while UnappliedEntries entries are unapplied, and are then
// proposed as one entry.
func TestEntriesGather(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{UnappliedEntries: 2})
	b.run()
	b.lazy = true
	var out []*outcome
	for range 6 {
		out = append(out, b.propose(g, 0, ledger.Add("n", 1)))
		b.run()
	}
	b.lazy = false
	b.run()
	var indexes []uint64
	for _, o := range out {
		indexes = append(indexes, o.Index-out[0].Index)
	}
	if fmt.Sprint(indexes) != "[0 1 2 2 2 2]" {
		t.Fatalf("entries %v", indexes)
	}
}

// TestVoteLease checks when a replica withholds its vote (RG6). It must not vote for an election timeout after a
// restart or after a message of a leader, unless that leader requested the vote. After that, it must vote.
func TestVoteLease(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 3, raftgroup.Options{})
	vote := func(term uint64, context string) string {
		b.take()
		b.hear(&pb.Message{Type: pb.MsgVote.Enum(), Term: &term, LogTerm: new(uint64(9)), Index: new(uint64(90)),
			Context: []byte(context)})
		return b.take()
	}
	if got := vote(7, ""); got != "" {
		t.Errorf("after a restart: %s", got)
	}
	b.tick(20)
	if got := vote(8, ""); got != "MsgVoteResp to 11" {
		t.Errorf("an election timeout later: %q", got)
	}
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(8)), Commit: new(uint64(10))})
	// This makes the library forget the leader.
	b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: new(uint64(9)), Index: new(uint64(10))})
	if got := vote(9, ""); got != "" {
		t.Errorf("after a message of a leader: %s", got)
	}
	if got := vote(10, "CampaignTransfer"); got != "MsgVoteResp to 11" {
		t.Errorf("at the leader's request: %q", got)
	}
}

// TestFavours checks that a child of a split gives no vote before an election timeout has passed. The only exception is
// a vote for the member on the node of the parent's leader.
func TestFavours(t *testing.T) {
	for favoured, want := range map[int]string{1: "MsgVoteResp to 11", 2: ""} {
		b := reopen(t, vfs.NewMem(), raftgroup.Options{})
		conf := &pb.ConfState{Voters: []uint64{10, 11, 12}}
		var where []raftgroup.Member
		for i := range 3 {
			where = append(where, raftgroup.Member{Replica: uint64(10 + i), Node: nodeID(i)})
		}
		if err := b.store.Create(1, ledger.Meta{Replica: 10, Applied: 10, Term: 5, Conf: conf,
			Where: raftgroup.EncodeMembers(nil, where)}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.host.Open(raftgroup.GroupConfig{ID: 1, Replica: 10, Applied: 10, Term: 5, Conf: conf,
			Where: where, Initial: true, PreferredNode: nodeID(favoured)}); err != nil {
			t.Fatal(err)
		}
		vote := func(term uint64) string {
			b.take()
			b.hear(&pb.Message{Type: pb.MsgVote.Enum(), Term: &term, LogTerm: new(uint64(9)), Index: new(uint64(90))})
			return b.take()
		}
		if got := vote(7); got != want {
			t.Errorf("node %d is favoured: the vote for that on node 1 is %q, want %q", favoured, got, want)
		}
		b.tick(20)
		if got := vote(8); got != "MsgVoteResp to 11" {
			t.Errorf("node %d is preferred: an election timeout later the vote is %q", favoured, got)
		}
	}
}

// TestRefusedIsNotDeath checks that a refused connection does not end the vote lease of the leader at that address. The
// replica must not vote for itself or for others before an election timeout has passed since the last message. A leader
// that reports that it has served its last read must be replaced immediately.
func TestRefusedIsNotDeath(t *testing.T) {
	for _, departs := range []bool{false, true} {
		b, _ := open(t, vfs.NewMem(), 2, raftgroup.Options{})
		b.run()
		b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(10))})
		b.take()
		b.inbox.Calls = append(b.inbox.Calls, func(h *raftgroup.Host) {
			if departs {
				h.NodeDeparted(nodeID(1))
			} else {
				h.NodeRefused(nodeID(1))
			}
		})
		b.run()
		b.hear(&pb.Message{Type: pb.MsgVote.Enum(), Term: new(uint64(7)), LogTerm: new(uint64(9)),
			Index: new(uint64(90))})
		got := b.take()
		if asked := strings.Contains(got, "MsgPreVote to 11"); asked != departs {
			t.Errorf("departs %v: it asks for votes: %q", departs, got)
		}
		if voted := strings.Contains(got, "MsgVoteResp to 11"); voted != departs {
			t.Errorf("departs %v: it votes: %q", departs, got)
		}
		b.tick(19)
		if got := b.take(); !departs && strings.Contains(got, "Vote") {
			t.Errorf("before the vote lease ends: %q", got)
		}
	}
}

// TestRefusedWakesQuietGroup checks a quiescent group that has not received a message from its leader for an election
// timeout. It must elect a new leader as soon as the leader's address refuses connections.
func TestRefusedWakesQuietGroup(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 2, raftgroup.Options{})
	b.run()
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(10))})
	b.hear(&pb.Message{Type: raftgroup.MsgQuiesce.Enum(), Term: new(uint64(6)), Index: new(uint64(10))})
	for range 25 { // the leader's node is alive
		b.inbox.Frames = []raftgroup.Received{{From: nodeID(1)}, {From: nodeID(2)}}
		b.tick(1)
	}
	if s, _ := b.host.Status(1); !s.Quiet {
		t.Fatalf("%+v", s)
	}
	b.take()
	b.inbox.Calls = append(b.inbox.Calls, func(h *raftgroup.Host) { h.NodeRefused(nodeID(1)) })
	b.run()
	if got := b.take(); !strings.Contains(got, "MsgPreVote to 11") {
		t.Errorf("the leader of a quiescent group is rejected: %q", got)
	}
}

// TestQuietMembersAreActive checks that the members of a quiescent group count as active, for every tick at which the
// group became quiescent. The Raft library treats silent members as inactive at each election timeout, and quiescent
// members are silent. Without this rule, a learner that should become a voter would stay a learner indefinitely.
func TestQuietMembersAreActive(t *testing.T) {
	for offset := range 25 {
		b, g, term := ledOf(t, 2, raftgroup.Options{})
		alive := func() {
			b.inbox.Frames = []raftgroup.Received{{From: nodeID(1)}, {From: nodeID(2)}}
			b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
			b.tick(1)
		}
		for range offset {
			alive()
		}
		o := b.propose(g, term, ledger.Add("n", 1))
		b.run()
		b.hear(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &term, Index: new(uint64(12))})
		if o.calls != 1 || o.Err != nil {
			t.Fatalf("%+v", o)
		}
		quiet := func() bool { s, _ := b.host.Status(1); return s.Quiet }
		for i := 0; i < 100 && !quiet(); i++ {
			alive()
		}
		if s, _ := b.host.Status(1); !s.Quiet || !s.Leading || len(s.Peers) != 1 || !s.Peers[0].Active {
			t.Errorf("offset %d: %+v", offset, s)
		}
	}
}

// TestAbstains checks an abstaining node while another voter is alive. It must not request votes, must decline
// leadership, must offer the leaderships that it holds, and must vote.
func TestAbstains(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 3, raftgroup.Options{})
	b.host.Abstain(true)
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(10))})
	for range 80 {
		b.inbox.Frames = []raftgroup.Received{{From: nodeID(1)}, {From: nodeID(2)}}
		b.tick(1)
	}
	b.hear(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), Term: new(uint64(6))})
	if got := b.take(); got != "MsgHeartbeatResp to 11, MsgTimeoutNow to 11 reject" {
		t.Errorf("it sends %q", got)
	}
	b.hear(&pb.Message{Type: pb.MsgPreVote.Enum(), Term: new(uint64(7)), LogTerm: new(uint64(9)),
		Index: new(uint64(90))})
	b.hear(&pb.Message{Type: pb.MsgVote.Enum(), Term: new(uint64(7)), LogTerm: new(uint64(9)), Index: new(uint64(90))})
	if got := b.take(); got != "MsgPreVoteResp to 11, MsgVoteResp to 11" {
		t.Errorf("its votes: %q", got)
	}

	b, _, term := led(t, raftgroup.Options{AlwaysTick: true})
	b.host.Abstain(true)
	b.take()
	for range 20 {
		b.hear(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), Term: &term})
		b.tick(1)
	}
	if got := b.take(); !strings.Contains(got, "MsgTimeoutNow to 11") {
		t.Errorf("the node still leads: %s", got)
	}
}

// TestSuccession checks the first voter after a leader whose node has been silent for an election timeout. It must
// request votes immediately instead of after a random delay, which can be the same for two voters.
func TestSuccession(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), 2, raftgroup.Options{})
	b.run()
	b.hear(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(6)), Commit: new(uint64(10))})
	b.take()
	b.tick(19)
	if got := b.take(); strings.Contains(got, "Vote") {
		t.Fatalf("too early: %s", got)
	}
	b.tick(2)
	if got := b.take(); !strings.Contains(got, "MsgPreVote to 11") {
		t.Errorf("after an election timeout: %q", got)
	}
}

// TestLeaseTokens checks that a lease serves only data that was read while the lease was valid. A lease must not serve
// data that was read before it was granted, after it ended, or before it was revoked.
func TestLeaseTokens(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{})
	b.run()
	if g.Lease() != 0 {
		t.Fatal("a lease before any read")
	}
	grant := func() {
		o := &outcome{}
		r, err := g.NewRead(o)
		if err != nil {
			t.Fatal(err)
		}
		b.inbox.Reads = append(b.inbox.Reads, r)
		b.run()
		if o.Err != nil || o.calls != 1 {
			t.Fatalf("%+v", o)
		}
	}
	early := g.Lease()
	grant()
	token := g.Lease()
	end := b.now + raftgroup.Instant(810*time.Millisecond)
	switch {
	case g.Leased(early, b.now):
		t.Error("data read before the lease was granted is served")
	case !g.Leased(token, end-1):
		t.Error("the lease is shorter than it should be")
	case g.Leased(token, end):
		t.Error("the lease has no end")
	}
	if err := b.host.Transfer(1, 99); !errors.Is(err, raftgroup.ErrNotReady) || !g.Leased(token, b.now) {
		t.Fatalf("transfer to an unknown node: %v", err)
	}
	b.host.TransferAnyway(1, 99)
	if g.Leased(token, b.now) || g.Lease() != 0 {
		t.Error("a lease while the leadership is handed over")
	}
	grant()
	if g.Lease() != 0 {
		t.Error("a lease in the term in which the leadership was offered")
	}
}

// TestStateBehindLog checks that a state older than the beginning of the log is rejected, because entries have been
// lost.
func TestStateBehindLog(t *testing.T) {
	fs := vfs.NewMem()
	b, g := open(t, fs, 1, raftgroup.Options{TruncateEntries: 4, TruncateKeep: 1})
	b.run()
	for range 20 {
		b.propose(g, 0, ledger.Add("n", 1))
		b.run()
	}
	if s, _ := b.host.Status(1); s.First < 15 {
		t.Fatalf("the log was not truncated: %+v", s)
	}
	meta, _, err := b.store.Meta(1)
	if err == nil {
		err = b.store.Remove(1)
	}
	meta.Applied = 12
	if err := errors.Join(err, b.store.Create(1, meta)); err != nil {
		t.Fatal(err)
	}
	b.close()
	b = reopen(t, fs, raftgroup.Options{})
	if _, err := b.openGroups(); !errors.Is(err, raftgroup.ErrBehindLog) {
		t.Fatalf("%v", err)
	}
}

// TestLostLog checks that a replica with applied entries is rejected without its log, or with a log that ends before
// these entries. It must stay rejected, because its votes and acknowledgments were in that log.
func TestLostLog(t *testing.T) {
	for _, lose := range []func(fs *vfs.MemFS, b *bench) error{
		func(fs *vfs.MemFS, _ *bench) error { return fs.RemoveAll("log") },
		func(fs *vfs.MemFS, b *bench) error { // replace the log with an earlier log
			log, err := raftlog.Open("log", raftlog.Options{FS: fs})
			if err != nil {
				return err
			}
			batch := log.NewBatch()
			err = errors.Join(batch.Reset(1, 11, 6, &pb.ConfState{Voters: []uint64{10}}),
				batch.SetHardState(1, 6, 10, 11), batch.Commit(true), batch.Close())
			return errors.Join(err, log.Close())
		},
	} {
		fs := vfs.NewMem()
		b, g := open(t, fs, 1, raftgroup.Options{})
		b.run()
		for range 3 {
			b.propose(g, 0, ledger.Add("n", 1))
			b.run()
		}
		b.close()
		if err := lose(fs, b); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			b = reopen(t, fs, raftgroup.Options{})
			if _, err := b.openGroups(); !errors.Is(err, raftgroup.ErrLostLog) {
				t.Errorf("%v", err)
			}
			b.close()
		}
	}
}

// TestCrashedInstallation checks that a replica recovers if its process ended before the installation of a snapshot, or
// between the installation and the reset of the log.
func TestCrashedInstallation(t *testing.T) {
	for _, installed := range []bool{true, false} {
		fs := vfs.NewMem()
		b, _ := open(t, fs, 3, raftgroup.Options{})
		b.run()
		f, data := b.snapshotOf(6, 20, 6)
		b.replicate(6, 10, 5, 10)
		if err := b.host.Expect(&f); err != nil {
			t.Fatal(err)
		}
		f.Take(b.received(data))
		b.inbox.Frames = append(b.inbox.Frames, f)
		var installs []raftgroup.Install
		for range 10 {
			w := b.host.Step(b.now, &b.inbox)
			b.inbox = raftgroup.Inbox{}
			logged, _, err := b.writer.Write(w.Appends)
			if err != nil {
				t.Fatal(err)
			}
			b.inbox.Logged = logged
			installs = append(installs, w.Installs...)
		}
		if len(installs) != 1 {
			t.Fatalf("%d installations", len(installs))
		}
		if installed {
			if _, err := installs[0].Run(b.store); err != nil {
				t.Fatal(err)
			}
		}
		_ = data.Close()
		b.close()
		b = reopen(t, fs, raftgroup.Options{})
		if _, err := b.openGroups(); err != nil {
			t.Fatalf("installed %v: %v", installed, err)
		}
		want := uint64(10)
		if installed {
			want = 20
		}
		if s, _ := b.host.Status(1); s.Applied != want || s.Last != want {
			t.Errorf("installed %v: %+v", installed, s)
		}
	}
}

// TestCrashedInstallationOverTail checks that a replica follows its leader again if its process ended between the
// installation of a snapshot and the reset of the log. The log had a tail of an older term that extends beyond the
// snapshot. If no snapshot explains such a tail, it must be rejected.
func TestCrashedInstallationOverTail(t *testing.T) {
	conf := &pb.ConfState{Voters: []uint64{10, 11, 12}}
	for _, installing := range []uint64{15, 0} {
		b := reopen(t, vfs.NewMem(), raftgroup.Options{})
		var tail []*pb.Entry
		for i := uint64(11); i <= 20; i++ {
			tail = append(tail, &pb.Entry{Term: new(uint64(5)), Index: &i})
		}
		batch := b.log.NewBatch()
		_, err := batch.Create(1, 10, 5, conf)
		err = errors.Join(err, batch.Append(1, tail), batch.Install(1, installing), batch.Commit(true),
			b.store.Create(1, ledger.Meta{Replica: 10, Applied: 15, Term: 6, Conf: conf,
				Where: raftgroup.EncodeMembers(nil, []raftgroup.Member{{Replica: 11, Node: nodeID(1)}})}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.openGroups()
		if installing == 0 {
			if !errors.Is(err, raftgroup.ErrLostLog) {
				t.Errorf("a log that is not the state's: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.run()
		b.take()
		b.replicate(6, 15, 6, 16, &pb.Entry{Term: new(uint64(6)), Index: new(uint64(16))})
		if s, _ := b.host.Status(1); s.Last != 16 || s.Applied != 16 {
			t.Errorf("an append after entry 15 of term 6: last %d, applied %d; sent %s", s.Last, s.Applied, b.take())
		}
	}
}

// TestLeftoverLog checks that a replica that waits for its first snapshot does not start from the log of an earlier
// replica.
func TestLeftoverLog(t *testing.T) {
	fs := vfs.NewMem()
	b, g := open(t, fs, 1, raftgroup.Options{})
	b.run()
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	if err := errors.Join(b.store.Remove(1),
		b.store.Create(1, ledger.Meta{Replica: 20, Conf: &pb.ConfState{}})); err != nil {
		t.Fatal(err)
	}
	b.close()
	b = reopen(t, fs, raftgroup.Options{})
	if _, err := b.openGroups(); err != nil {
		t.Fatal(err)
	}
	b.tick(100)
	if s, _ := b.host.Status(1); s.Last != 0 || s.Applied != 0 || s.Leading || s.Term != 6 {
		t.Fatalf("%+v", s)
	}
}

// TestGap checks that the applier rejects an entry that does not follow the last applied entry.
func TestGap(t *testing.T) {
	b, g := open(t, vfs.NewMem(), 1, raftgroup.Options{})
	b.run()
	b.lazy = true
	b.propose(g, 0, ledger.Add("n", 1))
	b.run()
	if _, err := b.applier.Apply(b.applies); err != nil {
		t.Fatal(err)
	}
	if _, err := b.applier.Apply(b.applies); !errors.Is(err, raftgroup.ErrGap) {
		t.Fatalf("%v", err)
	}
}

// TestLogQueueBound checks that appends from a leader are dropped, and own proposals wait, while the log writer has too
// much work.
func TestLogQueueBound(t *testing.T) {
	var dropped int
	b, g := open(
		t,
		vfs.NewMem(),
		1,
		raftgroup.Options{LogQueueBytes: 1000, Observer: &observer{dropped: func() { dropped++ }}},
	)
	b.run()
	o := b.propose(g, 0, ledger.Set("k", make([]byte, 2000)))
	w := b.host.Step(b.now, &b.inbox)
	b.inbox = raftgroup.Inbox{}
	second := b.propose(g, 0, ledger.Set("k", nil))
	b.hear(&pb.Message{Type: pb.MsgApp.Enum(), Term: new(uint64(6)),
		Entries: []*pb.Entry{{Term: new(uint64(6)), Index: new(uint64(20))}}})
	if dropped != 1 || second.calls != 0 {
		t.Fatalf("dropped %d, %+v", dropped, second)
	}
	logged, _, err := b.writer.Write(w.Appends)
	if err != nil {
		t.Fatal(err)
	}
	b.inbox.Logged = logged
	b.run()
	if o.Err != nil || second.Err != nil || second.calls != 1 {
		t.Fatalf("%+v %+v", o, second)
	}
}
