// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
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
	// Node is the ID of this node. The node ID is also the first half of the dedupe IDs of this node's writes.
	Node topology.NodeID
	// Network sends requests to the other nodes. Peers provides the state of the other nodes. Both are nil if the
	// cluster has no other nodes.
	Network Network
	Peers   Peers
	// Relays sends requests through an intermediate node. If Relays is nil, requests are not relayed.
	Relays Relays
	// Sequence is the second half of the first dedupe ID. The number increases with each ID. After a restart, a node
	// must use higher numbers than before, because replicas treat lower numbers as forgotten IDs. If Sequence is 0, the
	// number starts at the current time in nanoseconds, which suffices if no replica remembers the previous process.
	Sequence uint64
	// Batches is the batch log for atomic batches of several physical partitions. If Batches is nil, these batches are
	// rejected.
	Batches BatchLog
}

// Network provides access to the replicas on other nodes.
type Network interface {
	// Replica returns the replica of a partition on another node.
	Replica(node topology.NodeID, id topology.PartitionID) Member
	// Address returns the name of a node in traces.
	Address(node topology.NodeID) string
}

// Relays provides access to the replicas on other nodes through intermediate nodes.
type Relays interface {
	// Via returns the replica of a partition on node. Requests are sent through the node via.
	Via(via, node topology.NodeID, id topology.PartitionID) Member
}

// Peers provides the state of the other nodes. *peers.Peers implements it.
type Peers interface {
	// Alive reports whether a node is believed to be up. Alive must be fast.
	Alive(node topology.NodeID) bool
	// Memory returns the newest dedupe epoch that another node had reported before the given time, or 0 if the epoch is
	// unknown. See partition.Host.DedupeEpoch.
	Memory(node topology.NodeID, before time.Time) uint64
	// SendAcknowledged sends the acknowledged log indexes of partitions to the other nodes. The local reads of these
	// nodes then include the indexes. SendAcknowledged returns after all reachable nodes have received the indexes.
	SendAcknowledged(ctx context.Context, to map[topology.PartitionID]uint64)
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
	// Leader returns the leader that is known to the replica.
	Leader() (topology.NodeID, bool)
	// Leading reports whether the replica is the leader.
	Leading() bool
	// Throughput returns the throughput limit of the partition and the units that the replica has borrowed.
	Throughput() *partition.Throughput
	// Spend charges a principal for evaluating the rows of a read.
	Spend(who fairshare.Principal, t token.Token, key []byte, u ru.Units)
	// ReadHere reads from this replica at any consistency level, even if the replica is not the leader. For levels
	// above ONE, the replica first requests a log index from the leader and waits until it has applied this index.
	ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error
	// NoteAcknowledged records that index has been acknowledged to this node. Subsequent local reads must include the
	// index.
	NoteAcknowledged(index uint64)
}

// cluster holds a Cluster and its current state.
type cluster struct {
	Cluster
	sequence atomic.Uint64
	local    localHost
}

// localHost holds the replicas on this node.
type localHost interface {
	// Replica returns the replica of a partition, or nil if this node has no replica.
	Replica(id topology.PartitionID) Local
	DedupeEpoch() uint64
}

type hostReplicas struct{ *partition.Host }

// Replica implements localHost.
func (h hostReplicas) Replica(id topology.PartitionID) Local {
	if r := h.Host.Replica(id); r != nil {
		return r
	}
	return nil
}

func newCluster(o *Cluster, host *partition.Host, s *sched.Scheduler) *cluster {
	if o == nil {
		o = &Cluster{}
	}
	cl := &cluster{Cluster: *o, local: hostReplicas{host}}
	if cl.Node == (topology.NodeID{}) {
		cl.Node = topology.NodeID{1}
	}
	if cl.Sequence == 0 {
		cl.Sequence = uint64(s.Wall().UnixNano())
	}
	cl.sequence.Store(cl.Sequence - 1)
	return cl
}

// isAlive reports whether a node is believed to be up.
func (cl *cluster) isAlive(node topology.NodeID) bool { return cl.Peers == nil || cl.Peers.Alive(node) }

// singleNode reports whether the cluster has no other nodes. Requests to a local replica cannot be lost, so a single
// node sends each request only once.
func (cl *cluster) singleNode() bool { return cl.Network == nil }

// nextID returns a new dedupe ID.
func (cl *cluster) nextID() command.DedupeID {
	return command.DedupeID{Coordinator: cl.Node, Sequence: cl.sequence.Add(1)}
}

// BatchLog is the batch log table. The table contains one row for each atomic batch in progress. The partition key is
// the batch ID. One column holds the encoded batch.
type BatchLog interface {
	// Table returns the ID of the table.
	Table() uint32
	// Record returns the mutation that inserts the row of a batch. Remove returns the mutation that deletes the row.
	// All operands have the timestamp stamp.
	Record(id [16]byte, stamp int64, encoded []byte) command.Mutation
	Remove(id [16]byte, stamp int64) command.Mutation
	// Replan plans a part again for the current schema. It derives the index entries of the part and sets the part's
	// SchemaVersion. If the table was dropped, Replan returns ErrUnknownTable.
	Replan(part *command.Conditional) error
}

type route struct {
	// leader is the last known leader, or nil.
	leader atomic.Pointer[topology.NodeID]
	// cached is the most recently used remote replica.
	cached atomic.Pointer[cachedMember]
	// relayHint is the last successful relay to an unreachable leader, or nil.
	relayHint atomic.Pointer[relayHint]
	// leaderElected is closed when a node becomes the leader. The first waiter creates the channel.
	leaderElected atomic.Pointer[chan struct{}]
}

// relayHint records that node was reached through via. Until the hint expires, requests do not use the direct
// connection.
type relayHint struct {
	node, via topology.NodeID
	until     time.Time
}

// relayHintTTL is the time after which a relay hint expires.
const relayHintTTL = 5 * time.Second

type cachedMember struct {
	node   topology.NodeID
	member Member
}

// LeaderChanged notifies the coordinator that node leads a partition. A zero NodeID means that the partition has no
// leader. Requests that wait for a leader are retried immediately.
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

// learn stores the leader of the partition. It allocates memory only if the leader has changed.
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
	m := cl.Network.Replica(node, id)
	r.cached.Store(&cachedMember{node, m})
	return m
}

// routesOf returns the routes for a topology. Existing routes are reused.
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
