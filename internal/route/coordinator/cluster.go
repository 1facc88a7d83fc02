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
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Cluster is what a coordinator needs to know of this node and the others.
type Cluster struct {
	// Node is this node. It is the first half of the ids of writes.
	Node topology.NodeID
	// Replica names the replica of a partition on another node; nil says that there is no other node.
	Replica func(node topology.NodeID, id topology.PartitionID) Member
	// Via names it as Replica does, asked by way of a third node; nil asks straight only.
	Via func(via, node topology.NodeID, id topology.PartitionID) Member
	// Alive says whether a node is believed to be up. It must be quick. nil believes it of all.
	Alive func(node topology.NodeID) bool
	// Memory is the newest value of partition.Host.Memory that another node had told before an instant, 0 for none; nil
	// knows of none.
	Memory func(node topology.NodeID, before time.Time) uint64
	// Acknowledged tells the other nodes how far the logs of partitions are acknowledged, so that the replicas which
	// they read alone include that. It returns when those that answer know it; nil tells nobody.
	Acknowledged func(ctx context.Context, to map[topology.PartitionID]uint64)
	// NodeName names a node in traces, by its address for instance; its id is shown if nil.
	NodeName func(node topology.NodeID) string
	// Sequence is the second half of the first write's id; later ones count up. No number may ever come twice from one
	// node, over restarts, nor a lower one after a restart: replicas take it for one that they have forgotten. 0 takes
	// the nanoseconds of the clock, which will do where nobody remembers the process before.
	Sequence uint64
	// Batches is where atomic batches over several physical partitions are recorded; without it they are refused.
	Batches *BatchLog
}

// Member is what the coordinator asks of a replica of a replica set; *partition.Replica and *remote.Replica are some.
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
	// Leader returns the node that leads, as far as the replica knows.
	Leader() (topology.NodeID, bool)
	// Leading reports whether it leads itself.
	Leading() bool
	// Affords reports whether it may serve a read though it does not lead, as far as the budget of its partition is
	// concerned. Borrow has a read that is sent to the leader ask for what it may spend of that; Lent and Refused take
	// in what the leader says to it.
	Affords(who fairshare.Principal) bool
	Borrow(c *command.Read)
	Lent(lent, price ru.Units)
	Refused(who fairshare.Principal, wait time.Duration)
	// ReadHere is Read at any level by a replica that need not lead: above ONE it asks the leader what it must have
	// applied.
	ReadHere(ctx context.Context, c *command.Read, v command.Visitor) error
	// Seen says that index was acknowledged to this node: what the replica serves alone has to include it.
	Seen(index uint64)
}

// cluster is a Cluster at work.
type cluster struct {
	Cluster
	sequence atomic.Uint64
	// here finds a replica on this node, nil if there is none; memory is the memory of all of them.
	here   func(id topology.PartitionID) Local
	memory func() uint64
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
	if cl.Memory == nil {
		cl.Memory = func(topology.NodeID, time.Time) uint64 { return 0 }
	}
	if cl.Sequence == 0 {
		cl.Sequence = uint64(s.Wall().UnixNano())
	}
	cl.sequence.Store(cl.Sequence - 1)
	if cl.NodeName == nil {
		cl.NodeName = func(node topology.NodeID) string { return hex.EncodeToString(node[:]) }
	}
	cl.memory = host.Memory
	cl.here = func(id topology.PartitionID) Local {
		if r := host.Replica(id); r != nil {
			return r
		}
		return nil
	}
	return cl
}

// alone reports whether there is no other node. What a replica here is asked cannot get lost on the way, so it is asked
// once.
func (cl *cluster) alone() bool { return cl.Replica == nil }

// nextID is the id of a write.
func (cl *cluster) nextID() command.DedupeID {
	return command.DedupeID{Coordinator: cl.Node, Sequence: cl.sequence.Add(1)}
}

// BatchLog is the table of atomic batches under way: one row for each, whose partition key is its id, and one column
// with what it does.
type BatchLog struct {
	// Table is the table's id.
	Table uint32
	// Record makes the row of a batch, Remove deletes it. All operands carry the stamp.
	Record func(id [16]byte, stamp int64, encoded []byte) command.Mutation
	Remove func(id [16]byte, stamp int64) command.Mutation
	// Replan plans a part anew for the schema as it is now: it derives the part's index entries and sets its
	// SchemaVersion. ErrUnknownTable says that the table is gone.
	Replan func(part *command.Conditional) error
}

// route is what a coordinator knows of the way to a partition, beside the map.
type route struct {
	// leader is the node that led last, nil if that is not known.
	leader atomic.Pointer[topology.NodeID]
	// remote is the replica on another node that was asked last.
	remote atomic.Pointer[placed]
	// round is how the leader was reached that could not be asked straight, nil if that is not known.
	round atomic.Pointer[round]
	// led is made by the first waiter and closed when a node begins to lead.
	led atomic.Pointer[chan struct{}]
}

// round is a way to a node by another one. Until it ends, nobody tries the straight way.
type round struct {
	node, via topology.NodeID
	until     time.Time
}

// roundFor is how long a way round is taken before the straight one is tried again.
const roundFor = 5 * time.Second

type placed struct {
	node   topology.NodeID
	member Member
}

// LeaderChanged tells the coordinator who leads a partition, zero if nobody is known to. What waits for the partition
// is asked again at once.
func (c *Coordinator) LeaderChanged(id topology.PartitionID, node topology.NodeID) {
	if r := c.view.Load().routes[id]; r != nil {
		r.learn(node)
		if node == (topology.NodeID{}) {
			return
		}
		if way := r.round.Load(); way != nil && way.node != node {
			r.round.CompareAndSwap(way, nil)
		}
		r.wake()
	}
}

// changed is closed when a node begins to lead.
func (r *route) changed() <-chan struct{} {
	for {
		if ch := r.led.Load(); ch != nil {
			return *ch
		}
		ch := make(chan struct{})
		if r.led.CompareAndSwap(nil, &ch) {
			return ch
		}
	}
}

func (r *route) wake() {
	if ch := r.led.Swap(nil); ch != nil {
		close(*ch)
	}
}

// learn remembers a leader; it allocates only when it is another one.
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
	if p := r.remote.Load(); p != nil && p.node == node {
		return p.member
	}
	m := cl.Replica(node, id)
	r.remote.Store(&placed{node, m})
	return m
}

// routesOf makes the routes of a map, keeping what is known.
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
