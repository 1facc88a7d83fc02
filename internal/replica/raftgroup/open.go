// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// GroupConfig describes a group to be opened, according to its state machine.
type GroupConfig struct {
	ID uint64
	// Replica is the ID of this replica.
	Replica uint64
	// Applied and Term are the index and the term of the last applied entry. They are 0 if the replica waits for its
	// first snapshot.
	Applied, Term uint64
	// Conf holds the members as of Applied, and Where holds their nodes.
	Conf  *pb.ConfState
	Where []Member
	// Initial is true if no entry has been applied to the initial state. A replica may lack a log only if Initial is
	// true.
	Initial bool
	// Fresh is true if the group was created in this process. No lease can depend on a fresh replica.
	Fresh bool
	// PreferredNode is the node of the only candidate that gets a vote in the first election timeout. It is used only
	// if Fresh is false. The zero NodeID means that no node is preferred.
	PreferredNode NodeID
}

// Open adds groups. For a new group without a log, it creates a log that starts at the initial state. It resets the log
// if a crash occurred between the installation of a snapshot and the reset of the log. These changes are durable when
// Open returns. In all other cases, Open returns ErrLostLog if the log is missing or lacks the last entry of the state.
// Open must be called on the loop.
func (h *Host) Open(configs ...GroupConfig) ([]*Group, error) {
	stores := make([]raft.Storage, len(configs))
	repaired := false
	for i := range configs {
		c := &configs[i]
		if h.groups[c.ID] != nil {
			return nil, fmt.Errorf("group %d is already open", c.ID)
		}
		if h.leaving[c.ID] {
			return nil, fmt.Errorf("open group %d: %w", c.ID, ErrLeaving)
		}
		changed, err := h.logs.repair(c)
		if err != nil {
			return nil, fmt.Errorf("open group %d: %w", c.ID, err)
		}
		repaired = repaired || changed
	}
	if repaired {
		if err := h.logs.batch.Commit(true); err != nil {
			return nil, fmt.Errorf("open groups: %w", err)
		}
	}
	var err error
	out := make([]*Group, 0, len(configs))
	for i := range configs {
		if stores[i], err = h.logs.Storage(configs[i].ID); err != nil {
			return nil, fmt.Errorf("open group %d: %w", configs[i].ID, err)
		}
		g, err := h.start(&configs[i], stores[i])
		if err != nil {
			return nil, fmt.Errorf("open group %d: %w", configs[i].ID, err)
		}
		out = append(out, g)
		if e, ok := h.early.take(g.id, h.ticks, h.opts.ElectionTicks); ok {
			h.step(h.peers.of(e.from), e.message)
		}
	}
	return out, nil
}

// logs opens the logs of groups and repairs them after a crash.
type logs struct {
	Log
	batch LogBatch // used only for repairs
}

// repair makes the log match the state. It reports whether the batch contains changes.
func (l *logs) repair(c *GroupConfig) (bool, error) {
	if c.Initial {
		born, err := l.batch.Create(c.ID, c.Applied, c.Term, c.Conf)
		if err != nil || born {
			return born, err
		}
	}
	s, err := l.Storage(c.ID)
	if err != nil {
		return false, err
	}
	first, err := s.FirstIndex()
	if err != nil {
		return false, err
	}
	last, err := s.LastIndex()
	if err != nil {
		return false, err
	}
	if c.Applied == 0 {
		return l.dropLeftover(c, s, last)
	}
	if c.Applied+1 < first {
		return false, fmt.Errorf("the applied index is %d, but the log begins at %d: %w", c.Applied, first,
			ErrBehindLog)
	}
	installing, err := l.Installing(c.ID)
	if err != nil {
		return false, err
	}
	// A log that extends beyond the state may still not match the state. It may be a tail of an older term that the
	// snapshot has replaced.
	var fits bool
	if last >= c.Applied {
		term, err := s.Term(c.Applied)
		if err != nil {
			return false, err
		}
		fits = term == c.Term
	}
	switch {
	case fits && installing == 0:
		return false, nil
	case fits: // the snapshot was not installed, or the log has grown after its reset
		return true, l.batch.Install(c.ID, 0)
	case installing != c.Applied:
		return false, fmt.Errorf("the log ends at %[3]d and lacks applied entry %[1]d of term %[2]d: %[4]w", c.Applied,
			c.Term, last,
			ErrLostLog)
	}
	return true, l.batch.Reset(c.ID, c.Applied, c.Term, c.Conf)
}

// dropLeftover empties the log of a replica that waits for its first snapshot, because its entries belong to an earlier
// replica on this node. It keeps the vote, which is safe.
func (l *logs) dropLeftover(c *GroupConfig, s raft.Storage, last uint64) (bool, error) {
	if last == 0 {
		return false, nil
	}
	hs, _, err := s.InitialState()
	if err == nil {
		err = l.batch.Reset(c.ID, 0, 0, &pb.ConfState{})
	}
	if err == nil {
		err = l.batch.SetHardState(c.ID, hs.GetTerm(), hs.GetVote(), 0)
	}
	return true, err
}

// start creates the group's RawNode.
func (h *Host) start(c *GroupConfig, log raft.Storage) (*Group, error) {
	g := newGroup(h, c.ID, c.Replica)
	g.log, g.membership.conf = log, proto.CloneOf(c.Conf)
	g.setApplied(c.Applied, c.Term)
	g.appliedBy = c.Applied
	g.membership.set(append([]Member(nil), c.Where...))
	for _, m := range c.Where {
		if m.Node != h.opts.Node {
			h.peers.of(m.Node)
		}
	}
	if !c.Fresh {
		g.election.voteLease.renew(h.ticks, h.opts.ElectionTicks)
		g.election.voteLease.exempt = c.PreferredNode
	}
	hs, _, err := log.InitialState()
	if err != nil {
		return nil, err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return nil, err
	}
	g.tail.cut = first - 1
	initial := raiseHardState(hs, c)
	g.term = initial.GetTerm()
	g.tail.hard = hardState{hs.GetTerm(), hs.GetVote(), initial.GetCommit()}
	g.quiescence.lastActive, g.election.leaderless = h.ticks, h.ticks
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        c.Replica,
		ElectionTick:              h.opts.ElectionTicks,
		HeartbeatTick:             h.opts.HeartbeatTicks,
		Storage:                   storage{log, g, initial},
		Applied:                   c.Applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  4 << 20,
		MaxUncommittedEntriesSize: 64 << 20,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          16 << 20,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    quietLogger{},
	})
	if err != nil {
		return nil, err
	}
	g.raft = rawNode{node: node, touched: true}
	h.groups[c.ID] = g
	h.order = append(h.order, g)
	if voters := c.Conf.GetVoters(); len(voters) == 1 && voters[0] == c.Replica &&
		len(c.Conf.GetVotersOutgoing()) == 0 {
		_ = g.raft.Campaign() // no other replica can lead
	}
	h.mark(g)
	return g, nil
}

// raiseHardState converts the stored hard state to the hard state with which the Raft library starts. It raises the
// commit index to at least the applied index, and the term to at least the term of the last applied entry. This is
// necessary because commit indexes are written without a sync, so a crash may leave a commit index lower than the
// applied index.
func raiseHardState(hs *pb.HardState, c *GroupConfig) *pb.HardState {
	term, vote, commit := hs.GetTerm(), hs.GetVote(), max(hs.GetCommit(), c.Applied)
	if term < c.Term {
		term, vote = c.Term, 0
	}
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

// storage provides the log to the library. It takes members and snapshots from the state machine.
type storage struct {
	raft.Storage
	g       *Group
	initial *pb.HardState
}

func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return s.initial, pb.EnsureConfState(proto.CloneOf(s.g.membership.conf)), nil
}

// Snapshot returns metadata only. Send.Capture replaces it with the metadata of the state that is sent.
func (s storage) Snapshot() (*pb.Snapshot, error) {
	index, term := s.g.applied, s.g.appliedTerm
	if index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	conf := proto.CloneOf(s.g.membership.conf)
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}, nil
}
