// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// rawNode wraps the library's state of one replica. It records whether the state has been accessed, because checking
// the library for pending work is expensive.
type rawNode struct {
	node *raft.RawNode
	// touched reports whether the state may have changed since the last call of ready.
	touched bool
}

// ready returns the pending work. ok is false if no work is pending.
func (l *rawNode) ready() (rd raft.Ready, ok bool) {
	if !l.touched {
		return raft.Ready{}, false
	}
	l.touched = false
	if !l.node.HasReady() {
		return raft.Ready{}, false
	}
	return l.node.Ready(), true
}

// touch returns the node and records that its state may change.
func (l *rawNode) touch() *raft.RawNode {
	l.touched = true
	return l.node
}

// Step passes a message to the library. An error means that the sender is not a member, or that the message had no
// effect.
func (l *rawNode) Step(m *pb.Message) error { return l.touch().Step(m) }

func (l *rawNode) Tick()                           { l.touch().Tick() }
func (l *rawNode) Propose(data []byte) error       { return l.touch().Propose(data) }
func (l *rawNode) ReadIndex(context []byte)        { l.touch().ReadIndex(context) }
func (l *rawNode) Campaign() error                 { return l.touch().Campaign() }
func (l *rawNode) ForgetLeader() error             { return l.touch().ForgetLeader() }
func (l *rawNode) TransferLeader(to uint64)        { l.touch().TransferLeader(to) }
func (l *rawNode) ReportUnreachable(member uint64) { l.touch().ReportUnreachable(member) }

func (l *rawNode) ReportSnapshot(member uint64, status raft.SnapshotStatus) {
	l.touch().ReportSnapshot(member, status)
}

func (l *rawNode) ProposeConfChange(cc pb.ConfChangeI) error { return l.touch().ProposeConfChange(cc) }

func (l *rawNode) ApplyConfChange(cc pb.ConfChangeI) *pb.ConfState {
	return l.touch().ApplyConfChange(cc)
}

// campaigns reports whether the replica is currently a candidate.
func (l *rawNode) campaigns() bool { return l.node.BasicStatus().RaftState == raft.StateCandidate }

// leads reports whether the replica currently leads.
func (l *rawNode) leads() bool { return l.node.BasicStatus().RaftState == raft.StateLeader }

// progress visits the leader's information about each member.
func (l *rawNode) progress(visit func(id uint64, kind raft.ProgressType, p tracker.Progress)) {
	l.node.WithProgress(visit)
}
