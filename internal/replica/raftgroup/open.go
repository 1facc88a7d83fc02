// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// GroupConfig describes a group that is opened, as its state machine knows it.
type GroupConfig struct {
	ID uint64
	// Replica is this replica's id.
	Replica uint64
	// Applied and Term belong to the last entry in the state; 0 for a replica that waits for its first snapshot.
	Applied, Term uint64
	// Conf are the members as of Applied, Where the nodes they are on.
	Conf  *pb.ConfState
	Where []Member
	// Born is true if the state is as it was born: nothing was ever applied to it. Only such a replica may have no log
	// yet.
	Born bool
	// Fresh is true if the group was born in this process: no lease can rest on it.
	Fresh bool
	// Favours is the node whose member alone gets a vote in the first election timeout, where Fresh is false: it may
	// hold a lease from before the group was born, and campaigns when it does not use that any more. Zero for none.
	Favours NodeID
}

// Open adds groups. Those that are just born and have no log get the birth record of their state; where a crash came
// between the installation of a snapshot and the reset of the log, the log is reset. Both are durable when Open
// returns. A log that does not hold the last entry of its state for another reason, or is missing, is ErrLostLog. Loop
// only.
func (h *Host) Open(configs ...GroupConfig) ([]*Group, error) {
	stores := make([]raft.Storage, len(configs))
	repaired := false
	for i := range configs {
		c := &configs[i]
		if h.groups[c.ID] != nil {
			return nil, fmt.Errorf("group %d is open already", c.ID)
		}
		if h.leaving[c.ID] {
			return nil, fmt.Errorf("open group %d: %w", c.ID, ErrLeaving)
		}
		changed, err := h.repair(c)
		if err != nil {
			return nil, fmt.Errorf("open group %d: %w", c.ID, err)
		}
		repaired = repaired || changed
	}
	if repaired {
		if err := h.batch.Commit(true); err != nil {
			return nil, fmt.Errorf("open groups: %w", err)
		}
	}
	var err error
	out := make([]*Group, 0, len(configs))
	for i := range configs {
		if stores[i], err = h.log.Storage(configs[i].ID); err != nil {
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

// repair makes the log fit the state; it reports whether there is something to commit.
func (h *Host) repair(c *GroupConfig) (bool, error) {
	if c.Born {
		born, err := h.batch.Birth(c.ID, c.Applied, c.Term, c.Conf)
		if err != nil || born {
			return born, err
		}
	}
	s, err := h.log.Storage(c.ID)
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
		return h.dropLeftover(c, s, last)
	}
	if c.Applied+1 < first {
		return false, fmt.Errorf("applied %d, log begins at %d: %w", c.Applied, first, ErrBehindLog)
	}
	installing, err := h.log.Installing(c.ID)
	if err != nil {
		return false, err
	}
	// A log that reaches past the state may still be another one: the tail of an older term, which the snapshot passed.
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
	case fits: // the snapshot was not installed, or the log was reset and has grown since
		return true, h.batch.Install(c.ID, 0)
	case installing != c.Applied:
		return false, fmt.Errorf("applied entry %d of term %d, log ends at %d without it: %w", c.Applied, c.Term, last,
			ErrLostLog)
	}
	return true, h.batch.Reset(c.ID, c.Applied, c.Term, c.Conf)
}

// dropLeftover empties the log of a replica that waits for its first snapshot: entries there are an earlier replica's
// of this node. Its vote stays, to be safe.
func (h *Host) dropLeftover(c *GroupConfig, s raft.Storage, last uint64) (bool, error) {
	if last == 0 {
		return false, nil
	}
	hs, _, err := s.InitialState()
	if err == nil {
		err = h.batch.Reset(c.ID, 0, 0, &pb.ConfState{})
	}
	if err == nil {
		err = h.batch.SetHardState(c.ID, hs.GetTerm(), hs.GetVote(), 0)
	}
	return true, err
}

// start makes the group's RawNode.
func (h *Host) start(c *GroupConfig, log raft.Storage) (*Group, error) {
	g := newGroup(h, c.ID, c.Replica)
	g.log, g.conf = log, proto.CloneOf(c.Conf)
	g.applied, g.appliedTerm, g.appliedBy = c.Applied, c.Term, c.Applied
	g.routes.set(append([]Member(nil), c.Where...))
	for _, m := range c.Where {
		if m.Node != h.opts.Node {
			h.peers.of(m.Node)
		}
	}
	if !c.Fresh {
		g.promise.renew(h.ticks, h.opts.ElectionTicks)
		g.promise.favours = c.Favours
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
	g.initial = raiseHardState(hs, c)
	g.term = g.initial.GetTerm()
	g.tail.hard = hardState{hs.GetTerm(), hs.GetVote(), g.initial.GetCommit()}
	g.lastActive, g.leaderless = h.ticks, h.ticks
	g.appliedShown.Store(c.Applied)
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        c.Replica,
		ElectionTick:              h.opts.ElectionTicks,
		HeartbeatTick:             h.opts.HeartbeatTicks,
		Storage:                   storage{log, g},
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
	g.raft = library{node: node, touched: true}
	h.groups[c.ID] = g
	h.order = append(h.order, g)
	if voters := c.Conf.GetVoters(); len(voters) == 1 && voters[0] == c.Replica &&
		len(c.Conf.GetVotersOutgoing()) == 0 {
		_ = g.raft.Campaign() // nobody else could lead
	}
	h.mark(g)
	return g, nil
}

// raiseHardState gives the hard state the library needs: the commit index is written without a sync, so after a crash
// it may be behind the state, whose entries were committed.
func raiseHardState(hs *pb.HardState, c *GroupConfig) *pb.HardState {
	term, vote, commit := hs.GetTerm(), hs.GetVote(), max(hs.GetCommit(), c.Applied)
	if term < c.Term {
		term, vote = c.Term, 0
	}
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

// storage is the log, but for the members and the snapshot, which the state machine knows better.
type storage struct {
	raft.Storage
	g *Group
}

func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return s.g.initial, pb.EnsureConfState(proto.CloneOf(s.g.conf)), nil
}

// Snapshot returns metadata only. Send.Capture replaces it by those of the state that it really sends.
func (s storage) Snapshot() (*pb.Snapshot, error) {
	index, term := s.g.applied, s.g.appliedTerm
	if index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: proto.CloneOf(s.g.conf)}},
		nil
}
