// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// library is the library's state of one replica. It remembers whether anything was done to it, because to ask it
// whether something is ready costs a fifth of getting it.
type library struct {
	node *raft.RawNode
	// touched says that the state may have changed since the last ready, which leaves nothing: entries that it holds
	// back for their size wait until others are applied, and that is a Step.
	touched bool
}

// ready takes what there is to do; ok is false if there is nothing.
func (l *library) ready() (rd raft.Ready, ok bool) {
	if !l.touched {
		return raft.Ready{}, false
	}
	l.touched = false
	if !l.node.HasReady() {
		return raft.Ready{}, false
	}
	return l.node.Ready(), true
}

// touch returns what is about to be changed.
func (l *library) touch() *raft.RawNode {
	l.touched = true
	return l.node
}

// Step takes a message. An error says that its sender is no member (any more), or that nothing was done.
func (l *library) Step(m *pb.Message) error { return l.touch().Step(m) }

func (l *library) Tick()                           { l.touch().Tick() }
func (l *library) Propose(data []byte) error       { return l.touch().Propose(data) }
func (l *library) ReadIndex(context []byte)        { l.touch().ReadIndex(context) }
func (l *library) Campaign() error                 { return l.touch().Campaign() }
func (l *library) ForgetLeader() error             { return l.touch().ForgetLeader() }
func (l *library) TransferLeader(to uint64)        { l.touch().TransferLeader(to) }
func (l *library) ReportUnreachable(member uint64) { l.touch().ReportUnreachable(member) }

func (l *library) ReportSnapshot(member uint64, status raft.SnapshotStatus) {
	l.touch().ReportSnapshot(member, status)
}

func (l *library) ProposeConfChange(cc pb.ConfChangeI) error { return l.touch().ProposeConfChange(cc) }

func (l *library) ApplyConfChange(cc pb.ConfChangeI) *pb.ConfState {
	return l.touch().ApplyConfChange(cc)
}

// campaigns reports whether the replica asks for votes at present.
func (l *library) campaigns() bool { return l.node.BasicStatus().RaftState == raft.StateCandidate }

// leads reports whether the replica leads at present.
func (l *library) leads() bool { return l.node.BasicStatus().RaftState == raft.StateLeader }

// progress shows what a leader knows of each member.
func (l *library) progress(visit func(id uint64, kind raft.ProgressType, p tracker.Progress)) {
	l.node.WithProgress(visit)
}
