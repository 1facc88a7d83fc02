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

// sequencer orders the entries of one replica and makes them durable; the machine applies them. The package has two
// implementations: raftSequencer, whose entries are on the disks of a quorum before they are applied, and
// localSequencer, whose entries are applied as they arrive and synced in groups. The rest of a replica is the same for
// both.
type sequencer interface {
	// evaluating returns the term in which this replica leads and has applied all older entries, or 0.
	evaluating() (term uint64)
	// leader returns the member that leads, as far as this replica knows.
	leader() (raftgroup.Member, bool)
	// applied returns the index of the last entry visible to readers, or 0 before the first snapshot.
	applied() uint64
	// propose passes on an encoded entry that was evaluated in term. It enters the log in that term or not at all (P7).
	// w is notified of the outcome once, possibly before propose returns; the bytes are not read after that. If propose
	// returns an error, nothing was done and w is not notified.
	propose(term uint64, entry []byte, w raftgroup.Waiter) error
	// lease returns the leader's token for an immediate read, with the term in which it evaluates, or 0 if the leader
	// has no lease. The token must be confirmed after the read.
	lease() leaseToken
	// admit returns a token for a read, to be confirmed after the read, or *NotLeader. With here, a follower asks its
	// leader instead of rejecting the read.
	admit(ctx context.Context, level dberr.Consistency, here bool) (leaseToken, error)
	// confirmRead returns nil if the data that q has read since admit, or a timestamp if q is nil, may be returned. It
	// may block.
	confirmRead(ctx context.Context, t leaseToken, q *command.Read) error
	// confirmAsync is confirmRead for one key read by a conditional write. It does not block; the function then is
	// called once. If confirmAsync returns an error, then is not called.
	confirmAsync(t leaseToken, table uint32, tok token.Token, then func(error)) error
}

// leaseToken is a permission to read. The data that was read is valid if it is confirmed afterward.
type leaseToken struct {
	// term and lease belong to a leader. term is 0 if leadership need not be confirmed.
	term, lease uint64
	// installs is set for a follower: a snapshot that is installed in the meantime invalidates the data.
	follower bool
	installs uint64
}

// appliedNotifier is a raftgroup.Waiter that is notified when its entry is applied, if that happens before the entry is
// durable. The waiter can then release resources that only separate conflicting commands. applied is called before
// Done.
type appliedNotifier interface{ applied() }

// sequencers creates the sequencers of a node's replicas.
type sequencers interface {
	// load returns the replicas in the store.
	load(metas []keys.Meta) ([]replicaInit, error)
	// sequencer returns the sequencer of a replica that is about to be opened.
	sequencer(r *Replica, meta *keys.Meta) sequencer
	// initialReplicas returns the replicas of new partitions to be created on this node.
	initialReplicas(ps []*topology.Partition) []replicaInit
	// open starts applying entries to replicas that are stored and in the host's map.
	open(list []replicaInit) error
	// openChild is open for a child of a split. The machine calls it, so it must not block. leader is the node that led
	// the parent.
	openChild(child *replicaInit, leader topology.NodeID)
	// discard removes the log of a replica whose span was taken over, once its state is gone. It does not block.
	discard(r *Replica)
	// stopSequencers stops the sequencers of closed replicas: nothing is applied to the replicas after stopSequencers
	// returns. finish must be called after the removal of their state.
	stopSequencers(rs []*Replica) (finish func() error, err error)
	// failed returns the reason why entries are rejected, or nil.
	failed() error
	close() error
}
