// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// Proposal is a command to append to a group's log. Group.NewProposal creates a Proposal, and a Step processes it.
type Proposal struct {
	g      *Group
	term   uint64
	data   []byte
	waiter Waiter
}

// NewProposal admits a command. The caller must not modify data afterward. If term is not 0, the command enters the log
// only in this term (RG5); see Evaluating. After a successful call, waiter is called once.
func (g *Group) NewProposal(term uint64, data []byte, waiter Waiter) (Proposal, error) {
	o := &g.host.opts
	switch {
	case g.gone.Load():
		return Proposal{}, ErrClosed
	case g.leadShown.Load() != g.replica:
		return Proposal{}, ErrNotLeader
	case len(data) > o.ProposalBytes:
		return Proposal{}, &LimitError{"ProposalBytes", int64(o.ProposalBytes)}
	}
	if g.pending.admitted.Add(1) > int64(o.ProposalsPerGroup) {
		g.pending.admitted.Add(-1)
		return Proposal{}, &LimitError{"ProposalsPerGroup", int64(o.ProposalsPerGroup)}
	}
	if g.host.proposed.Add(int64(len(data))) > o.ProposalsNodeBytes {
		g.host.proposed.Add(-int64(len(data)))
		g.pending.admitted.Add(-1)
		return Proposal{}, &LimitError{"ProposalsNodeBytes", o.ProposalsNodeBytes}
	}
	return Proposal{g, term, data, waiter}, nil
}

// end releases the admitted resources and notifies the waiter.
func (p *Proposal) end(o Outcome) {
	p.g.pending.admitted.Add(-1)
	p.g.host.proposed.Add(-int64(len(p.data)))
	p.waiter.Done(o)
}

// enter queues an admitted proposal.
func (fs *pendingProposals) enter(p Proposal) {
	g := fs.g
	if g.closed || !g.leading {
		p.end(Outcome{Err: ErrNotLeader})
		return
	}
	g.quiescence.active()
	fs.queue = append(fs.queue, p)
	g.host.mark(g)
}

// proposeQueued combines queued proposals into entries while few entries are unapplied.
func (fs *pendingProposals) proposeQueued() {
	g, h := fs.g, fs.g.host
	for len(fs.queue) > 0 && len(fs.inflight) < h.opts.UnappliedEntries && h.logQueued <= h.opts.LogQueueBytes &&
		!h.batcher.holds(g) {
		n, size := 0, 16
		for n < len(fs.queue) {
			p := &fs.queue[n]
			if p.term != 0 && p.term != g.term {
				break
			}
			if n > 0 && size+len(p.data)+5 > h.opts.EntryBytes {
				break
			}
			size += len(p.data) + 5
			n++
		}
		if n == 0 { // required by RG5
			fs.queue[0].end(Outcome{Err: ErrStaleTerm})
			fs.queue = fs.queue[1:]
			continue
		}
		ps := fs.queue[:n:n]
		fs.sequence++
		// If the library accepts the entry, the term is still g.term, because a replica needs a durable vote to become
		// the leader of another term.
		if err := g.raft.Propose(appendCommands(make([]byte, 0, size), fs.sequence, ps)); err != nil {
			fs.refuseQueue(err)
			return
		}
		if invariant.Enabled {
			g.checkProposed(ps)
		}
		fs.queue = fs.queue[n:]
		fs.inflight = append(fs.inflight, pendingProposal{term: g.term, sequence: fs.sequence,
			proposals: ps})
		h.batcher.count(&fs.inflight[len(fs.inflight)-1])
	}
}

// refuseQueue handles the library's rejection of a proposal. It fails the queued proposals, unless the library has
// rejected the proposal because of too much uncommitted data. The queue then remains, because the entries in flight
// will free space.
func (fs *pendingProposals) refuseQueue(err error) {
	if errors.Is(err, raft.ErrProposalDropped) && len(fs.inflight) > 0 && fs.g.offer.to == 0 {
		return
	}
	fs.failQueue(ErrNotLeader)
}

// failQueue fails the proposals that are not in the log.
func (fs *pendingProposals) failQueue(err error) {
	for i := range fs.queue {
		fs.queue[i].end(Outcome{Err: err})
	}
	fs.queue = nil
}

// Change is the change of one member.
type Change struct {
	Member Member
	// As is the new role of the member.
	As Role
}

// Role is the role of a member.
type Role uint8

// These are the roles of members. Gone is the role of a removed member.
const (
	Voter Role = iota
	Learner
	Gone
)

// ChangeMembers proposes a membership change. Several changes use a joint configuration, which the group leaves
// automatically. waiter is called when the change has been applied on this node. ChangeMembers must be called on the
// loop.
func (h *Host) ChangeMembers(id uint64, changes []Change, waiter Waiter) {
	g := h.groups[id]
	switch {
	case g == nil || !g.leading:
		waiter.Done(Outcome{Err: ErrNotLeader})
		return
	case g.pending.changing || g.appliedTerm != g.term || g.membership.joint() || len(changes) == 0:
		waiter.Done(Outcome{Err: ErrMembersBusy})
		return
	}
	g.quiescence.active()
	cc := &pb.ConfChangeV2{}
	var where []Member
	for i := range changes {
		c := &changes[i]
		kind := pb.ConfChangeAddNode
		switch c.As {
		case Learner:
			kind = pb.ConfChangeAddLearnerNode
		case Gone:
			kind = pb.ConfChangeRemoveNode
		}
		cc.Changes = append(cc.Changes, &pb.ConfChangeSingle{Type: &kind, NodeId: &c.Member.Replica})
		if c.As != Gone {
			where = append(where, c.Member)
		}
	}
	g.pending.sequence++
	cc.Context = EncodeMembers(binary.AppendUvarint(nil, g.pending.sequence), where)
	if err := g.raft.ProposeConfChange(cc); err != nil {
		waiter.Done(Outcome{Err: ErrNotLeader})
		return
	}
	g.pending.changing = true
	g.pending.inflight = append(g.pending.inflight, pendingProposal{term: g.term, sequence: g.pending.sequence,
		members: waiter})
	g.processReady() // assign the index before any other event
	h.mark(g)
}

// decodeChange decodes an entry that changes members. Its context is empty if a group leaves a joint configuration
// automatically.
func decodeChange(e *pb.Entry) (cc *pb.ConfChangeV2, sequence uint64, where []Member, err error) {
	if e.GetType() == pb.EntryConfChange {
		v1 := &pb.ConfChange{}
		err = proto.Unmarshal(e.GetData(), v1)
		cc = v1.AsV2()
	} else {
		cc = &pb.ConfChangeV2{}
		err = proto.Unmarshal(e.GetData(), cc)
	}
	if err != nil || len(cc.GetContext()) == 0 {
		return cc, 0, nil, err
	}
	d := newDecoder(cc.GetContext())
	sequence = d.Uint()
	where, _, err = DecodeMembers(d.Rest())
	return cc, sequence, where, err
}
