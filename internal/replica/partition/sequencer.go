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

// sequencer orders the entries of one replica and makes them durable. The machine then applies the entries. A
// raftSequencer stores entries on the disks of a quorum before they are applied. A localSequencer applies entries as
// they arrive and syncs them in groups.
type sequencer interface {
	// evaluating returns the term in which this replica leads and has applied all entries of previous terms. It returns
	// 0 if the replica does not lead.
	evaluating() (term uint64)
	// leader returns the leader according to this replica.
	leader() (raftgroup.Member, bool)
	// applied returns the index of the last entry that readers can see, or 0 before the first snapshot.
	applied() uint64
	// propose proposes an encoded entry that was evaluated in term. The entry enters the log only in this term (P7). w
	// receives the outcome once, possibly before propose returns. The sequencer does not read the bytes of the entry
	// after that. If propose returns an error, the entry has no effect and w is not called.
	propose(term uint64, entry []byte, w raftgroup.Waiter) error
	// lease returns the leader's token for an immediate read, or the zero token if the leader has no lease. The caller
	// must confirm the token after the read.
	lease() leaseToken
	// admit returns a token for a read, or *NotLeader. The caller must confirm the token after the read. If here is
	// true, a follower contacts the leader instead of returning *NotLeader.
	admit(ctx context.Context, level dberr.Consistency, here bool) (leaseToken, error)
	// confirmRead returns nil if the caller may return the data that q has read since admit. If q is nil, the caller
	// has read only a timestamp. confirmRead may block.
	confirmRead(ctx context.Context, t leaseToken, q *command.Read) error
	// confirmAsync confirms a conditional write's read of one key without blocking. It calls then once. If confirmAsync
	// returns an error, it does not call then.
	confirmAsync(t leaseToken, table uint32, tok token.Token, then func(error)) error
}

// leaseToken is a permission to read. The data is valid only if the token is confirmed after the read.
type leaseToken struct {
	// term and lease are set for a leader. term is 0 if leadership need not be confirmed.
	term, lease uint64
	// installs is set for a follower. If a snapshot has been installed since then, the data is invalid.
	follower bool
	installs uint64
}

// appliedNotifier is a raftgroup.Waiter that is also notified when its entry is applied before the entry is durable.
// The waiter can then release its latches. applied is called before Done.
type appliedNotifier interface{ applied() }

// sequencers creates the sequencers of a node's replicas.
type sequencers interface {
	// load returns the replicas in the store.
	load(metas []keys.Meta) ([]replicaInit, error)
	// sequencer returns the sequencer of a new replica.
	sequencer(r *Replica, meta *keys.Meta) sequencer
	// initialReplicas returns the replicas of new partitions to be created on this node.
	initialReplicas(ps []*topology.Partition) []replicaInit
	// open starts applying entries to replicas. The replicas must be in the store and in the host's map.
	open(list []replicaInit) error
	// openChild starts applying entries to the child of a split. The machine calls openChild, so it must not block.
	// leader is the node that led the parent.
	openChild(child *replicaInit, leader topology.NodeID)
	// discard removes the log of a retired replica after the state has been removed. It does not block.
	discard(r *Replica)
	// stopSequencers stops the sequencers of closed replicas. No entries are applied to these replicas after it
	// returns. The caller must call finish after it has removed the state of the replicas.
	stopSequencers(rs []*Replica) (finish func() error, err error)
	// failed returns the reason why the sequencers reject entries, or nil.
	failed() error
	close() error
}
