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

// Bugs selects faults that the product does not have and that the simulator must find. The simulator injects each
// fault into the product's disk, clock, or incoming commands.
type Bugs struct {
	// NoSync skips the syncs of the log.
	NoSync bool
	// EarlyTruncation truncates logs although the state machine has not been synced.
	EarlyTruncation bool
	// WrongSnapshotIndex labels a snapshot with an index that is one entry lower than its state.
	WrongSnapshotIndex bool
	// LongLease removes the safety margin of leases. A lease ends 700 ms after the voters may vote again, as if the
	// leader measured it from a late response.
	LongLease bool
	// DoubleApply applies some entries twice on every replica.
	DoubleApply bool
	// StaleTerm proposes the result of an evaluation in a later term than the evaluation's term.
	StaleTerm bool
	// HastyFate makes a client treat an unknown outcome as a definite failure.
	HastyFate bool
	// AnyFollower serves reads from any replica, even if the replica has stale data.
	AnyFollower bool
	// EarlyClock makes a leader check its lease before the request of a follower has arrived.
	EarlyClock bool
	// SharedAnswer makes a follower read with the response to a request that was sent before the read began.
	SharedAnswer bool
	// UnappliedRead makes a follower read before it has applied the index in the leader's response.
	UnappliedRead bool
	// EarlyCommit notifies followers of commits that their leader has not applied.
	EarlyCommit bool
	// RefusedIsDeath treats a refused connection as proof that the remote process has ended.
	RefusedIsDeath bool
	// BrokenPromise makes a voter grant votes while a lease may still depend on its promise.
	BrokenPromise bool
	// ForgottenPromise makes a starting process vote immediately, although it may have made a promise to a leader
	// before.
	ForgottenPromise bool
	// OfferUnderLease makes a leader offer its leadership and continue to read under its lease.
	OfferUnderLease bool
	// ForgottenCommit writes the commit index only when the term or the vote has changed.
	ForgottenCommit bool
}

type logWithoutSync struct{ raftgroup.LogBatch }

func (l logWithoutSync) Commit(bool) error { return l.LogBatch.Commit(false) }

// logWithoutCommit drops hard states that differ from the previous hard state only in the commit index.
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

// machineWatched reports applied entries to the invariant checks, and applied attempts of clients to the history.
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

// plantClock shifts the clock of a step. As a result, leases start late, or leaders answer followers with an earlier
// clock value.
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

// plantAnswers changes the messages that a follower receives and the vote requests that a voter receives. The Raft
// library and the product treat a vote request with this context as the result of a leadership transfer.
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

// plantCommits changes the commit index that a leader sends to its followers.
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

// plantRefused changes how a node handles a refused connection.
func (w *simulation) plantRefused(by *node) func(*raftgroup.Host) {
	if w.plan.Bugs.RefusedIsDeath {
		return func(h *raftgroup.Host) { h.NodeDeparted(by.self()) }
	}
	return func(h *raftgroup.Host) { h.NodeRefused(by.self()) }
}

// plantOffer asks a replica to campaign without notifying the leader's host. plantOffer reports whether it sent the
// request.
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

// plantTerm returns the term of a client's proposal.
func (w *simulation) plantTerm(evaluated uint64) uint64 {
	if w.plan.Bugs.StaleTerm {
		return 0
	}
	return evaluated
}
