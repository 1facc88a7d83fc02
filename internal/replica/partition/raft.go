// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// Cluster makes the replicas of a Host members of replica sets.
type Cluster struct {
	// Node is the ID of this node.
	Node topology.NodeID
	// Log stores the logs of all replicas. The host does not close the log store.
	Log *raftlog.Store
	// Transport sends frames to other nodes.
	Transport raftgroup.Transport
	// Clock is the clock of leases. The default is raftgroup.BootClock.
	Clock raftgroup.Clock
	// Raft configures the groups. The host sets the fields Node and Observer.
	Raft raftgroup.Options
	// StalenessMax is the maximum time for which a follower serves reads after the last message from its leader. The
	// default is 500 ms.
	StalenessMax time.Duration
	// Observer receives events. It may be nil.
	Observer Observer
	// SimHooks replaces goroutines in simulations. If SimHooks is not nil, the host does not use Transport.
	SimHooks *SimHooks
}

// Observer receives events of a node's replicas and groups. The methods must not block. An implementation can embed
// NoObserver to ignore events.
type Observer interface {
	raftgroup.Observer
	// RecordsChanged is called when the local replica of the meta partition has applied a change or installed a
	// snapshot. The version of the replica's records is version or later.
	RecordsChanged(version uint64)
	// RecordsPut is called before RecordsChanged for each applied change. put contains the records that the change from
	// the previous version to version has stored. The observer owns put.
	RecordsPut(version uint64, put []command.Record)
	// LeadershipChanged is called when the leader of a partition changes. leader is the node of the new leader, or zero
	// if no leader is known. here reports whether the local replica is the leader.
	LeadershipChanged(id topology.PartitionID, leader topology.NodeID, here bool)
	// Replaced is called when a member of the meta partition sends messages to a newer replica on this node than the
	// local replica. The local replica was removed while the node was unavailable. The owner must drop the local
	// replica and join as the given replica.
	Replaced(replica topology.ReplicaID)
}

// NoObserver is an Observer that ignores all events.
type NoObserver struct{ raftgroup.NoObserver }

// RecordsChanged implements Observer.
func (NoObserver) RecordsChanged(uint64) {}

// RecordsPut implements Observer.
func (NoObserver) RecordsPut(uint64, []command.Record) {}

// LeadershipChanged implements Observer.
func (NoObserver) LeadershipChanged(topology.PartitionID, topology.NodeID, bool) {}

// Replaced implements Observer.
func (NoObserver) Replaced(topology.ReplicaID) {}

// ReplicaSets holds the Raft groups of a node's replicas and connects them with other nodes. It provides the sequencers
// of a node in a cluster. If the receiver is nil, the exported methods return an error or have no effect.
type ReplicaSets struct {
	host         *Host
	opts         *Cluster
	runner       Runner
	indexWaiters sync.Pool // idle *indexWaiter
	// abstains holds the current AbstainReasons.
	abstains atomic.Uint32

	// closed ends waits. cancel ends reads and writes of snapshots. stopped is closed when the runner has stopped
	// because of an error.
	ctx     context.Context
	cancel  context.CancelFunc
	closed  chan struct{}
	stopped chan struct{}
}

func newRaft(h *Host) *ReplicaSets {
	g := &ReplicaSets{host: h, opts: h.opts.Cluster, closed: make(chan struct{}), stopped: make(chan struct{})}
	g.indexWaiters.New = func() any { return newIndexWaiter() }
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// load implements sequencers. It returns the replicas in the registry.
func (g *ReplicaSets) load(metas []keys.Meta) ([]replicaInit, error) {
	registry, err := g.host.store.Replicas()
	if err != nil {
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	byID := make(map[uint64]*keys.Meta, len(metas))
	for i := range metas {
		byID[metas[i].Partition] = &metas[i]
	}
	list := make([]replicaInit, 0, len(registry))
	for _, record := range registry {
		list = append(list, replicaInit{id: topology.PartitionID(record.Partition),
			replica: topology.ReplicaID(record.Replica),
			meta:    byID[record.Partition]})
		delete(byID, record.Partition)
	}
	for id := range byID {
		return nil, fmt.Errorf("open partition %d: it has rows but is missing from the node's registry", id)
	}
	return list, g.destroyOrphans(list)
}

// destroyOrphans removes the logs of replicas whose state was removed before a crash.
func (g *ReplicaSets) destroyOrphans(list []replicaInit) error {
	groups, err := g.opts.Log.Groups()
	if err != nil {
		return fmt.Errorf("open logs: %w", err)
	}
	known := make(map[uint64]bool, len(list))
	for i := range list {
		known[uint64(list[i].id)] = true
	}
	b := g.opts.Log.NewBatch()
	orphans := 0
	for _, id := range groups {
		if !known[id] {
			orphans++
			if err = b.Destroy(id); err != nil {
				break
			}
		}
	}
	if err == nil && orphans > 0 {
		err = b.Commit(true)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return fmt.Errorf("remove logs without a replica: %w", err)
	}
	return nil
}

// start opens the groups of the loaded replicas and starts the runner.
func (g *ReplicaSets) start(list []replicaInit) error {
	o := g.opts.Raft
	o.Node = g.opts.Node
	o.Observer = groupObserver{g.opts.Observer, g}
	host := raftgroup.NewHost(g.opts.Log, g.opts.Log.NewBatch(), o)
	groups, err := host.Open(configsOf(list, false)...)
	if err != nil {
		return err
	}
	g.setGroups(groups)
	snaps := &snapshots{ReplicaSets: g, store: g.host.store}
	if d := g.opts.SimHooks; d != nil {
		g.runner = d.Runner(host, g.host.machine, snaps)
	} else {
		g.runner = raftgroup.NewRunner(host, raftgroup.NewLogWriter(g.opts.Log.NewBatch()),
			raftgroup.NewApplier(g.host.machine), snaps,
			g.opts.Transport, g.host.clock)
	}
	g.runner.Start()
	return nil
}

// configsOf returns the configurations for opening the groups of replicas. If fresh is true, replicas with a meta are
// created together with their partition.
func configsOf(list []replicaInit, fresh bool) []raftgroup.GroupConfig {
	configs := make([]raftgroup.GroupConfig, 0, len(list))
	for i := range list {
		n := &list[i]
		meta := n.meta
		if meta == nil {
			meta = &keys.Meta{Partition: uint64(n.id)}
		}
		configs = append(configs, configOf(uint64(n.replica), meta, fresh && n.meta != nil))
	}
	return configs
}

func (g *ReplicaSets) setGroups(groups []*raftgroup.Group) {
	for _, group := range groups {
		g.of(group.ID()).group.Store(group)
	}
}

// of returns the sequencer of a group, or nil if the group has no replica on this node.
func (g *ReplicaSets) of(group uint64) *raftSequencer {
	if r := g.host.Replica(topology.PartitionID(group)); r != nil {
		return r.seq.(*raftSequencer)
	}
	return nil
}

// groupObserver handles the events of groups and passes them to the host's Observer.
type groupObserver struct {
	Observer
	raft *ReplicaSets
}

func (o groupObserver) LeaderChanged(group uint64, leader raftgroup.Member, term uint64) {
	o.Observer.LeaderChanged(group, leader, term)
	r := o.raft.host.Replica(topology.PartitionID(group))
	o.LeadershipChanged(topology.PartitionID(group), leader.Node, r != nil && leader.Replica != 0 &&
		leader.Replica == uint64(r.member))
}

func (o groupObserver) UnknownGroup(group, replica uint64, from raftgroup.NodeID) {
	o.Observer.UnknownGroup(group, replica, from)
	if topology.PartitionID(group) == topology.MetaPartition && o.raft.of(group) != nil {
		o.Replaced(topology.ReplicaID(replica))
	}
}

func (o groupObserver) Failed(err error) {
	close(o.raft.stopped)
	o.Observer.Failed(err)
}

// failed implements sequencers.
func (g *ReplicaSets) failed() error {
	if err := g.runner.Failed(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil
}

// close closes the groups. The outcome of requests in progress is unknown.
func (g *ReplicaSets) close() error {
	close(g.closed)
	g.cancel()
	if g.runner == nil {
		return nil
	}
	return g.runner.Close()
}

// initialReplicas implements sequencers. It returns the voters in the topology that are on this node. All nodes create
// their replicas of a partition with the same state, so they need no communication. The first voter campaigns
// immediately.
func (g *ReplicaSets) initialReplicas(ps []*topology.Partition) (list []replicaInit) {
	for _, p := range ps {
		set := p.SetOn(g.opts.Node)
		if set == nil {
			continue
		}
		for i, r := range set.Replicas {
			if r.Node == g.opts.Node && r.State == topology.Voter {
				meta := initialMeta(p, set, g.host.store.Level())
				list = append(list, replicaInit{id: p.ID, replica: r.ID, meta: &meta, leads: i == 0, listed: true})
			}
		}
	}
	return list
}

// open implements sequencers. It first waits until the logs of previous replicas have been removed.
func (g *ReplicaSets) open(list []replicaInit) error {
	const pause = 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		var err error
		closed := g.runner.Do(func(h *raftgroup.Host) {
			var groups []*raftgroup.Group
			if groups, err = h.Open(configsOf(list, true)...); err != nil {
				return
			}
			g.setGroups(groups)
			for i := range list {
				if list[i].leads {
					h.Campaign(uint64(list[i].id))
				}
			}
		})
		if closed != nil {
			return ErrClosed
		}
		if !errors.Is(err, raftgroup.ErrLeaving) || waited >= leavingMax {
			return err
		}
		_, err = await(g.host.sim, waitLimit{ctx: context.Background(), ends: [2]chan struct{}{g.closed}, max: pause},
			never)
		if errors.Is(err, errEnded) {
			return ErrClosed
		}
	}
}

// openChild implements sequencers. The child gets a new log unless a log already exists, because its leader may have
// already sent entries.
func (g *ReplicaSets) openChild(child *replicaInit, leader topology.NodeID) {
	list := []replicaInit{*child}
	g.runner.Call(func(h *raftgroup.Host) {
		c := configsOf(list, true)
		c[0].Fresh, c[0].PreferredNode = false, leader
		groups, err := h.Open(c...)
		if err != nil {
			return // the log cannot be written, so the node stops
		}
		g.setGroups(groups)
		if leader == g.opts.Node {
			h.Campaign(uint64(child.id))
		}
	})
}

// leavingMax is the maximum time for which a new replica waits for the removal of a previous replica's log.
const leavingMax = 10 * time.Second

// never is a channel that never delivers a value.
var never chan struct{}

// discard implements sequencers.
func (g *ReplicaSets) discard(r *Replica) {
	g.runner.Call(func(h *raftgroup.Host) {
		h.Close(uint64(r.id), func(group *raftgroup.Group) {
			g.host.retired.Delete(r.id)
			h.DestroyLog(group)
		})
	})
}

// stopSequencers implements sequencers. It closes the groups of the replicas. finish then destroys the logs. The logs
// must be destroyed after the state, because otherwise a crash could leave a replica that has forgotten its votes.
func (g *ReplicaSets) stopSequencers(rs []*Replica) (finish func() error, err error) {
	groups := make(chan *raftgroup.Group, len(rs))
	for _, r := range rs {
		id := uint64(r.id)
		g.runner.Call(func(h *raftgroup.Host) {
			if h.Group(id) == nil {
				groups <- nil // another replica has taken over the span
				return
			}
			h.Close(id, func(group *raftgroup.Group) { groups <- group })
		})
	}
	idle := make([]*raftgroup.Group, 0, len(rs))
	for range rs {
		group, err := await(g.host.sim, waitLimit{ctx: context.Background(), ends: [2]chan struct{}{g.stopped}},
			groups)
		if err != nil {
			return nil, ErrClosed // the replicas remain and are loaded at the next start
		}
		if group != nil {
			idle = append(idle, group)
		}
	}
	return func() error {
		return g.runner.Do(func(h *raftgroup.Host) {
			for _, group := range idle {
				h.DestroyLog(group)
			}
		})
	}, nil
}

// ReplicaSets returns the Raft groups of the host, or nil if the node does not belong to a cluster.
func (h *Host) ReplicaSets() *ReplicaSets {
	g, _ := h.seqs.(*ReplicaSets)
	return g
}

// errNoReplicaSet rejects operations that require a replica set.
var errNoReplicaSet = errors.New("this node does not belong to a replica set")

// Receive processes and retains a frame from another node.
func (g *ReplicaSets) Receive(from topology.NodeID, frame []byte) error {
	if g == nil {
		return errNoReplicaSet
	}
	return g.runner.Receive(from, frame)
}

// ReceiveSnapshot receives a snapshot from another node. size is the number of bytes, including the head.
// ReceiveSnapshot returns nil when the snapshot is on this node's disk.
func (g *ReplicaSets) ReceiveSnapshot(from topology.NodeID, r io.Reader, size int64) error {
	if g == nil {
		return errNoReplicaSet
	}
	return g.runner.ReceiveSnapshot(from, r)
}

// NodeRefused handles a refused connection, which indicates that the node's process may have ended.
func (g *ReplicaSets) NodeRefused(node topology.NodeID) {
	g.onLoop(func(r *raftgroup.Host) { r.NodeRefused(node) })
}

// NodeDeparted handles the announcement that a node has stopped serving requests. The groups that this node led elect
// new leaders immediately.
func (g *ReplicaSets) NodeDeparted(node topology.NodeID) {
	g.onLoop(func(r *raftgroup.Host) { r.NodeDeparted(node) })
}

// AbstainReason is a reason why a node leaves leadership to other nodes.
type AbstainReason uint32

// These are the reasons, one bit each.
const (
	ClockWrong AbstainReason = 1 << iota
	DiskFull
)

// Abstain adds or removes a reason for this node to abstain. While at least one reason exists, the node leaves the
// leadership of partitions to other voters that can lead.
func (g *ReplicaSets) Abstain(why AbstainReason, on bool) {
	if g == nil {
		return
	}
	for {
		old := g.abstains.Load()
		reasons := old &^ uint32(why)
		if on {
			reasons |= uint32(why)
		}
		if g.abstains.CompareAndSwap(old, reasons) {
			break
		}
	}
	g.onLoop(func(r *raftgroup.Host) { r.Abstain(g.abstains.Load() != 0) })
}

// Abstaining sets the nodes that abstain according to this node. It retains the map. If all voters of a partition
// abstain, any of them may lead.
func (g *ReplicaSets) Abstaining(nodes map[topology.NodeID]bool) {
	g.onLoop(func(r *raftgroup.Host) { r.Abstaining(nodes) })
}

// SetLowDisk sets whether the disk of this node has little free space. If it does, the logs of the node's replicas are
// kept short.
func (g *ReplicaSets) SetLowDisk(on bool) {
	g.onLoop(func(r *raftgroup.Host) { r.SetLowDisk(on) })
}

// SetFullDisks sets the nodes whose disks are almost full. It retains the map. If less than a quorum of a partition's
// voters has free space, the local leader rejects writes that take space. Otherwise, nodes could run out of space and
// stop, and reads would lose their quorum.
func (g *ReplicaSets) SetFullDisks(full map[topology.NodeID]bool) {
	g.onLoop(func(h *raftgroup.Host) {
		for _, r := range g.host.Replicas() {
			r.quorumLowDisk.Store(!h.QuorumWithout(uint64(r.id), full))
		}
	})
}

// onLoop runs f asynchronously on the loop of the groups. It does nothing if the node has no groups.
func (g *ReplicaSets) onLoop(f func(*raftgroup.Host)) {
	if g != nil {
		g.runner.Call(f)
	}
}

// TransferAll transfers every leadership of the node to a voter with the complete log, and waits for requests in
// progress. It is called before Close. If the context ends first, elections determine the leaders of the remaining
// partitions.
func (g *ReplicaSets) TransferAll(ctx context.Context) error {
	if g == nil {
		return nil // no other node can take over the leadership
	}
	for {
		left := 0
		err := g.runner.Do(func(r *raftgroup.Host) {
			left = r.TransferAll()
			for _, group := range r.Groups() {
				if s, ok := r.Status(group.ID()); ok && s.Waiting > 0 {
					left++
				}
			}
		})
		if err != nil {
			return ErrClosed
		}
		if left == 0 {
			return nil
		}
		if _, err := await(g.host.sim, waitLimit{ctx: ctx, max: 20 * time.Millisecond}, never); ctx.Err() != nil {
			return fmt.Errorf("%d leaderships or requests remain: %w", left, err)
		}
	}
}
