// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// sequencer gives the entries of one replica their order and makes them durable; the machine applies them. There are
// two: raftSequencer, whose entries a quorum has on disk before they are applied, and localSequencer, whose entries are
// applied as they come and synced by group. All else of a replica is the same over both.
type sequencer interface {
	// evaluating returns the term in which this replica leads and has applied everything older, 0 if it does not.
	evaluating() (term uint64)
	// leader returns the member that leads, as far as this replica knows.
	leader() (raftgroup.Member, bool)
	// applied is the index of the last entry that readers see, 0 before the first snapshot.
	applied() uint64
	// propose hands over an encoded entry that was evaluated in term. It enters the log in that term or not at all
	// (P7). w is told once how it ended, perhaps before propose returns; the bytes are not read after that. If propose
	// returns an error, nothing was done and w is not told.
	propose(term uint64, entry []byte, w raftgroup.Waiter) error
	// hold returns the leader's right to read at once, with the term it evaluates in, 0 if it does not; it is to be
	// confirmed after the read.
	hold() ticket
	// admit returns the right to read, to be confirmed after the read, or *NotLeader. With here a follower asks its
	// leader rather than to refuse.
	admit(ctx context.Context, level dberr.Consistency, here bool) (ticket, error)
	// confirm returns nil if what q has read since admit may be passed on, or a stamp if q is nil. It may wait.
	confirm(ctx context.Context, t ticket, q *command.Read) error
	// confirmed is confirm for what a conditional has read of one key: it does not wait, then is told once. If it
	// returns an error, then is not told.
	confirmed(t ticket, table uint32, tok token.Token, then func(error)) error
}

// ticket is the right to read: what was read is true if confirm says so afterwards.
type ticket struct {
	// term and lease are those of a leader; term is 0 where leadership need not be confirmed.
	term, lease uint64
	// installs is set for a follower: a snapshot that was installed meanwhile spoils what was read.
	follower bool
	installs uint64
}

// early is a raftgroup.Waiter that wants to know when its entry is applied, if that is before it is durable: what only
// keeps conflicting commands apart ends then. It is told before Done.
type early interface{ applied() }

// sequencers is what gives the replicas of a node their sequencers.
type sequencers interface {
	// load returns the replicas that are in the store.
	load(metas []keys.Meta) ([]born, error)
	// sequencer makes that of a replica, before it is opened.
	sequencer(r *Replica, meta *keys.Meta) sequencer
	// bear returns the replicas of new partitions that are born on this node.
	bear(ps []*topology.Partition) []born
	// open begins to apply entries to replicas that are stored and in the host's map.
	open(list []born) error
	// begin is open for a child of a split, from the machine, so it does not wait. leader is the node that led the
	// parent.
	begin(child *born, leader topology.NodeID)
	// end is for a replica whose span another one has taken, when its state is gone: its log is removed. It does not
	// wait.
	end(r *Replica)
	// withdraw ends the sequencers of closed replicas: nothing is applied to them when it returns. finish is for after
	// the removal of their state.
	withdraw(rs []*Replica) (finish func() error, err error)
	// failed returns why nothing more is accepted, nil if all is well.
	failed() error
	close() error
}
