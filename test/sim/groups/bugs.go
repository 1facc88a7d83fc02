// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Bugs are mistakes that the product does not make and the simulator must find. Each is planted in what stands around
// the product: the disk it writes to, the clock it reads, the command it is given.
type Bugs struct {
	// NoSync: the log is not synced.
	NoSync bool
	// EarlyTruncation: logs are cut though the state machine was not synced.
	EarlyTruncation bool
	// WrongSnapshotIndex: a snapshot says that it is older by one entry than its state.
	WrongSnapshotIndex bool
	// LongLease: a lease has no margin, and ends 700 ms after voters are free again, as if it were counted from a slow
	// answer.
	LongLease bool
	// DoubleApply: some entries are applied twice, on every replica.
	DoubleApply bool
	// StaleTerm: a proposal evaluated in one term is made in whichever term there is.
	StaleTerm bool
	// HastyFate: a client takes an unknown outcome for the certainty that nothing was done.
	HastyFate bool
	// AnyFollower: reads are served by whatever replica there is, fresh or not.
	AnyFollower bool
	// EarlyClock: a leader looks at its lease before a follower's question has come.
	EarlyClock bool
	// SharedAnswer: a read at a follower uses the answer to a question that was sent before the read began.
	SharedAnswer bool
	// UnappliedRead: a follower reads before it has applied the index that it was told.
	UnappliedRead bool
	// EarlyCommit: followers are told of commits that their leader has not applied.
	EarlyCommit bool
	// RefusedIsDeath: a connection that is refused is taken for the proof that the process has ended.
	RefusedIsDeath bool
	// BrokenPromise: votes are given while a lease may rest on the word of who gives them.
	BrokenPromise bool
	// ForgottenPromise: a process that starts votes at once, though it may have answered a leader before.
	ForgottenPromise bool
	// OfferUnderLease: a leader offers its leadership and goes on to read under its lease.
	OfferUnderLease bool
	// ForgottenCommit: the commit index is written only when the term or the vote has changed.
	ForgottenCommit bool
}

type logWithoutSync struct{ raftgroup.LogBatch }

func (l logWithoutSync) Commit(bool) error { return l.LogBatch.Commit(false) }

// logWithoutCommit drops hard states that differ from the last one in the commit index only.
type logWithoutCommit struct {
	raftgroup.LogBatch
	last map[uint64][2]uint64
}

func (l logWithoutCommit) SetHardState(group, term, vote, commit uint64) error {
	if now := [2]uint64{term, vote}; l.last[group] != now {
		l.last[group] = now
		return l.LogBatch.SetHardState(group, term, vote, commit)
	}
	return nil
}

func (n *node) plantLog(b raftgroup.LogBatch) raftgroup.LogBatch {
	if n.w.plan.Bugs.NoSync {
		b = logWithoutSync{b}
	}
	if n.w.plan.Bugs.ForgottenCommit {
		b = logWithoutCommit{b, map[uint64][2]uint64{}}
	}
	return n.OnDisk(b)
}

type machineWithoutSync struct{ raftgroup.StateMachine }

func (machineWithoutSync) Sync() error { return nil }

type machineTwice struct{ raftgroup.StateMachine }

func (m machineTwice) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	if index%41 == 0 {
		commands = append(commands, commands...)
	}
	return m.StateMachine.Apply(group, index, term, commands, results)
}

// machineWatched tells the laws what is applied where, and the history which attempts of clients that are.
type machineWatched struct {
	raftgroup.StateMachine
	n *node
}

func (m machineWatched) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	m.n.w.applies(m.n, group, index, term, commands)
	for _, c := range commands {
		m.n.w.attemptApplied(binary.BigEndian.Uint64(c[len(c)-8:]), m.n, group, index)
	}
	return m.StateMachine.Apply(group, index, term, commands, results)
}

func (n *node) plantMachine(m raftgroup.StateMachine) raftgroup.StateMachine {
	if n.w.plan.Bugs.EarlyTruncation {
		m = machineWithoutSync{m}
	}
	if n.w.plan.Bugs.DoubleApply {
		m = machineTwice{m}
	}
	return machineWatched{m, n}
}

type snapshotsOffByOne struct{ raftgroup.SnapshotStore }

type replaced struct {
	*bytes.Reader
	io.Closer
}

func (s snapshotsOffByOne) Snapshot(group uint64) (*pb.SnapshotMetadata, raftgroup.SnapshotData, error) {
	meta, data, err := s.SnapshotStore.Snapshot(group)
	if err != nil {
		return nil, nil, err
	}
	raw, err := io.ReadAll(io.NewSectionReader(data, 0, data.Size()))
	if err != nil {
		return nil, nil, err
	}
	index := meta.GetIndex() - 1
	_, size := binary.Uvarint(raw)
	raw = append(binary.AppendUvarint(nil, index), raw[size:]...)
	return &pb.SnapshotMetadata{Index: &index, Term: meta.Term, ConfState: meta.ConfState},
		replaced{bytes.NewReader(raw), data}, nil
}

func (n *node) plantSnapshots(s raftgroup.SnapshotStore) raftgroup.SnapshotStore {
	if n.w.plan.Bugs.WrongSnapshotIndex {
		return snapshotsOffByOne{s}
	}
	return s
}

// plantClock moves the clock by which a step runs: leases begin late, or the questions of followers are answered by an
// earlier one.
func (n *node) plantClock() raftgroup.Instant {
	if n.w.plan.Bugs.LongLease {
		return raftgroup.Instant(elections*tick - (elections-2)*tick*9/10 + 700*time.Millisecond)
	}
	if n.w.plan.Bugs.EarlyClock {
		for i := range n.Inbox.Frames {
			for _, m := range n.Inbox.Frames[i].Messages {
				if m.Raft.GetType() == raftgroup.MsgIndexQuery {
					return -raftgroup.Instant(1500 * time.Millisecond)
				}
			}
		}
	}
	return 0
}

// plantAnswers changes what a follower hears, and what a voter is asked: the library and the product take a vote with
// this context for one that the leader wants.
func (w *simulation) plantAnswers(f *raftgroup.Received) {
	for _, m := range f.Messages {
		if t := m.Raft.GetType(); w.plan.Bugs.BrokenPromise && (t == pb.MsgVote || t == pb.MsgPreVote) {
			m.Raft.Context = []byte("CampaignTransfer")
		}
		if w.plan.Bugs.UnappliedRead && m.Raft.GetType() == raftgroup.MsgIndexReply && !m.Raft.GetReject() {
			*m.Raft.Commit = 1
		}
	}
}

// plantCommits changes what a leader tells its followers.
func (n *node) plantCommits(frame []byte) []byte {
	if !n.w.plan.Bugs.EarlyCommit {
		return frame
	}
	f, err := raftgroup.DecodeFrame(n.self(), frame)
	if err != nil {
		n.w.Fail("node %d: %v", n.ID, err)
		return frame
	}
	out := raftgroup.NewFrame(nil, f.At, f.Echo)
	for _, m := range f.Messages {
		s, ok := n.Host.Status(m.Group)
		if ok && s.Leading && m.Raft.GetType() == pb.MsgApp && m.Raft.GetTerm() == s.Term {
			*m.Raft.Commit = s.Commit
		}
		out = raftgroup.AppendMessage(out, m.Group, m.Raft)
	}
	return out
}

// plantRefused is what a node makes of a connection that was refused.
func (w *simulation) plantRefused(by *node) func(*raftgroup.Host) {
	if w.plan.Bugs.RefusedIsDeath {
		return func(h *raftgroup.Host) { h.NodeDeparted(by.self()) }
	}
	return func(h *raftgroup.Host) { h.NodeRefused(by.self()) }
}

// plantOffer asks a replica to lead behind the back of the leader's host; it reports whether it did.
func (w *simulation) plantOffer(n *node, group, to uint64) bool {
	target := w.at(group, to)
	s, ok := n.Host.Status(group)
	if !w.plan.Bugs.OfferUnderLease || !ok || !s.Leading || target == nil || target == n {
		return false
	}
	offer := &pb.Message{Type: pb.MsgTimeoutNow.Enum(), To: &to, From: &s.Replica, Term: &s.Term}
	frame := raftgroup.AppendMessage(raftgroup.NewFrame(nil, 0, 0), group, offer)
	w.Net.Send(n.ID, target.ID, frame, func(frame []byte) { target.Hear(n.self(), frame) })
	w.hinder(n, group, to)
	return true
}

// plantTerm is the term that a client gives to its proposal.
func (w *simulation) plantTerm(evaluated uint64) uint64 {
	if w.plan.Bugs.StaleTerm {
		return 0
	}
	return evaluated
}
