// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"encoding/hex"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Cluster gives a coordinator access to the other nodes.
type Cluster struct {
	// Node is the ID of this node. It is also the first half of the dedupe IDs of its writes.
	Node topology.NodeID
	// Replica returns the replica of a partition on another node. A nil function means that the cluster has no other
	// nodes.
	Replica func(node topology.NodeID, id topology.PartitionID) Member
	// Via returns the same replica as Replica, reached through a third node. A nil function disables relaying.
	Via func(via, node topology.NodeID, id topology.PartitionID) Member
	// Alive reports whether this node considers another node to be up. It must be fast. A nil function means that all
	// nodes are up.
	Alive func(node topology.NodeID) bool
	// DedupeEpoch returns the newest dedupe epoch that another node had reported before the given time (see
	// partition.Host.DedupeEpoch). It returns 0 if the node had reported none. A nil function always returns 0.
	DedupeEpoch func(node topology.NodeID, before time.Time) uint64
	// Acknowledged notifies the other nodes of the acknowledged log indexes of partitions, so that their local reads
	// include these indexes. It returns when all reachable nodes have been notified. A nil function does nothing.
	Acknowledged func(ctx context.Context, to map[topology.PartitionID]uint64)
	// NodeName returns the name of a node in traces, for example its address. If it is nil, the node ID is used.
	NodeName func(node topology.NodeID) string
	// Sequence is the second half of the first dedupe ID. Each later ID is one higher. A node must never use a number
	// twice, and must not use a lower number after a restart. Replicas would treat it as a number that they have
	// forgotten. The value 0 selects the clock in nanoseconds, which is sufficient if no replica remembers the previous
	// process.
	Sequence uint64
	// Batches is the batch log for atomic batches over several physical partitions. Without a batch log, such batches
	// are rejected.
	Batches *BatchLog
}

// Member is a replica of a replica set. *partition.Replica and *remote.Replica implement it.
type Member interface {
	Replica
	WriteAll(ctx context.Context, parts []partition.Part, done command.Completion) error
	Require(ctx context.Context, x partition.Extent, revision uint64) error
	Last(ctx context.Context, x partition.Extent, who fairshare.Principal) (stamp int64, err error)
	Change(ctx context.Context, records command.Records) (version uint64, err error)
}

// Local is a replica on this node.
type Local interface {
	Member
	// Leader returns the node of the leader, according to the replica's information.
	Leader() (topology.NodeID, bool)
	// Leading reports whether the replica is the leader.
	Leading() bool
	// AllowsLocalRead reports whether the budget of the partition allows the replica to serve a read as a follower.
	// Borrow adds a request for a share of the budget to a read that is sent to the leader. Lent and Refused process
	// the leader's response.
	AllowsLocalRead(who fairshare.Principal) bool
	Borrow(c *command.Read)
	Lent(lent, price ru.Units)
	Refused(who fairshare.Principal, wait time.Duration)
	// Spend charges a principal for evaluating data that was read.
	Spend(who fairshare.Principal, t token.Token, key []byte, u ru.Units)
	// ReadHere reads at any consistency level from a replica that need not be the leader. For levels above ONE, the
	// replica asks the leader for the index that it must have applied.
	ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error
	// NoteAcknowledged records that index has been acknowledged to this node. Local reads must include that index.
	NoteAcknowledged(index uint64)
}

// cluster is a Cluster with its current state.
type cluster struct {
	Cluster
	sequence atomic.Uint64
	// localReplica returns the replica on this node, or nil if the node has none. localEpoch returns the dedupe epoch
	// of this node.
	localReplica func(id topology.PartitionID) Local
	localEpoch   func() uint64
}

func newCluster(o *Cluster, host *partition.Host, s *sched.Scheduler) *cluster {
	if o == nil {
		o = &Cluster{}
	}
	cl := &cluster{Cluster: *o}
	if cl.Node == (topology.NodeID{}) {
		cl.Node = topology.NodeID{1}
	}
	if cl.Alive == nil {
		cl.Alive = func(topology.NodeID) bool { return true }
	}
	if cl.DedupeEpoch == nil {
		cl.DedupeEpoch = func(topology.NodeID, time.Time) uint64 { return 0 }
	}
	if cl.Sequence == 0 {
		cl.Sequence = uint64(s.Wall().UnixNano())
	}
	cl.sequence.Store(cl.Sequence - 1)
	if cl.NodeName == nil {
		cl.NodeName = func(node topology.NodeID) string { return hex.EncodeToString(node[:]) }
	}
	cl.localEpoch = host.DedupeEpoch
	cl.localReplica = func(id topology.PartitionID) Local {
		if r := host.Replica(id); r != nil {
			return r
		}
		return nil
	}
	return cl
}

// singleNode reports whether the cluster has no other nodes. A request to a local replica cannot be lost, so it is sent
// only once.
func (cl *cluster) singleNode() bool { return cl.Replica == nil }

// nextID returns a new dedupe ID.
func (cl *cluster) nextID() command.DedupeID {
	return command.DedupeID{Coordinator: cl.Node, Sequence: cl.sequence.Add(1)}
}

// BatchLog is the batch log table. It has one row per atomic batch in progress. The partition key is the batch ID, and
// one column holds the encoded batch.
type BatchLog struct {
	// Table is the ID of the table.
	Table uint32
	// Record returns the mutation that inserts the row of a batch. Remove returns the mutation that deletes the row of
	// a batch. All operands have the given timestamp.
	Record func(id [16]byte, stamp int64, encoded []byte) command.Mutation
	Remove func(id [16]byte, stamp int64) command.Mutation
	// Replan plans a part again for the current schema. It derives the index entries of the part and sets its
	// SchemaVersion. It returns ErrUnknownTable if the table has been dropped.
	Replan func(part *command.Conditional) error
}

// route holds routing hints for a partition, in addition to the topology.
type route struct {
	// leader is the last known leader, or nil.
	leader atomic.Pointer[topology.NodeID]
	// cached is the most recently used remote replica.
	cached atomic.Pointer[cachedMember]
	// relayHint is the relay through which an unreachable leader was last reached, or nil.
	relayHint atomic.Pointer[relayHint]
	// leaderElected is created by the first waiter and closed when a node becomes the leader.
	leaderElected atomic.Pointer[chan struct{}]
}

// relayHint records that node was reached through via. Until the hint expires, the direct connection is not tried.
type relayHint struct {
	node, via topology.NodeID
	until     time.Time
}

// relayHintTTL is the time for which a relay is used before the direct connection is tried again.
const relayHintTTL = 5 * time.Second

type cachedMember struct {
	node   topology.NodeID
	member Member
}

// LeaderChanged informs the coordinator of the node that leads a partition. A zero NodeID means that no node leads it.
// Requests that wait for the partition are retried immediately.
func (c *Coordinator) LeaderChanged(id topology.PartitionID, node topology.NodeID) {
	if r := c.view.Load().routes[id]; r != nil {
		r.learn(node)
		if node == (topology.NodeID{}) {
			return
		}
		if way := r.relayHint.Load(); way != nil && way.node != node {
			r.relayHint.CompareAndSwap(way, nil)
		}
		r.wake()
	}
}

// changed returns a channel that is closed when a node becomes the leader.
func (r *route) changed() <-chan struct{} {
	for {
		if ch := r.leaderElected.Load(); ch != nil {
			return *ch
		}
		ch := make(chan struct{})
		if r.leaderElected.CompareAndSwap(nil, &ch) {
			return ch
		}
	}
}

func (r *route) wake() {
	if ch := r.leaderElected.Swap(nil); ch != nil {
		close(*ch)
	}
}

// learn stores the leader of the partition. It allocates only if the leader has changed.
func (r *route) learn(node topology.NodeID) {
	old := r.leader.Load()
	switch {
	case node == topology.NodeID{}:
		if old != nil {
			r.leader.CompareAndSwap(old, nil)
		}
	case old == nil || *old != node:
		kept := node
		r.leader.Store(&kept)
	}
}

// member returns the replica of a partition on another node.
func (cl *cluster) member(r *route, node topology.NodeID, id topology.PartitionID) Member {
	if p := r.cached.Load(); p != nil && p.node == node {
		return p.member
	}
	m := cl.Replica(node, id)
	r.cached.Store(&cachedMember{node, m})
	return m
}

// routesOf returns the routes for a topology. It keeps existing routes.
func routesOf(s *topology.Snapshot, old map[topology.PartitionID]*route) map[topology.PartitionID]*route {
	out := make(map[topology.PartitionID]*route, s.Len()+1)
	for p := range s.All() {
		if r := old[p.ID]; r != nil {
			out[p.ID] = r
		} else {
			out[p.ID] = new(route)
		}
	}
	return out
}
