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
	// Log stores the logs of all replicas. The host does not close it.
	Log *raftlog.Store
	// Transport sends frames to other nodes.
	Transport raftgroup.Transport
	// Clock is the clock of leases; raftgroup.BootClock if nil.
	Clock raftgroup.Clock
	// Raft configures the groups. The host sets its Node and Observer.
	Raft raftgroup.Options
	// StalenessMax is the maximum time for which a follower serves reads after the last message from its leader; 500 ms
	// if 0.
	StalenessMax time.Duration
	// Observer is notified of events. It may be nil.
	Observer Observer
	// SimHooks, for simulations, runs the steps instead of goroutines. Transport is then not used.
	SimHooks *SimHooks
}

// Observer is notified of events of the replicas of a node and of their groups. Its methods must not block. An
// implementation that embeds NoObserver needs only the methods for the events that it uses.
type Observer interface {
	raftgroup.Observer
	// RecordsChanged is called when the local replica of the meta partition has applied a change or installed a
	// snapshot. Its records are at the given version or a later one.
	RecordsChanged(version uint64)
	// RecordsPut is called before RecordsChanged for each individually applied change, which led from the previous
	// version to version. The receiver owns put.
	RecordsPut(version uint64, put []command.Record)
	// LeadershipChanged is called when the partition follows a leader on the given node, or the zero NodeID if none is
	// known. here reports whether the leader is the local replica.
	LeadershipChanged(id topology.PartitionID, leader topology.NodeID, here bool)
	// Replaced is called when a member of the meta partition sends messages to a replica on this node other than the
	// local replica. The other replica was assigned to the node later. The local replica was removed while the node was
	// away and will receive no more messages. The owner must drop it and join as the other replica.
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
// of a node with several replicas per partition. The methods for other packages do nothing if it is nil, or return an
// error.
type ReplicaSets struct {
	host         *Host
	opts         *Cluster
	runner       Runner
	indexWaiters sync.Pool // idle *indexWaiter
	// abstains holds the current AbstainReasons.
	abstains atomic.Uint32

	// closed ends waits. cancel ends the reading and writing of snapshots. stopped is closed when the runner has
	// stopped because of an error.
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

// configsOf returns the configurations for opening the groups of replicas. With fresh, they are created with their
// partition, unless they wait for a snapshot.
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

// groupObserver handles the events of groups, in addition to the host's Observer.
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

// close closes the groups. Requests in progress get an unknown outcome.
func (g *ReplicaSets) close() error {
	close(g.closed)
	g.cancel()
	if g.runner == nil {
		return nil
	}
	return g.runner.Close()
}

// initialReplicas implements sequencers. It returns the voters in the topology that are on this node. All replicas of a
// partition are created with the same state on their nodes, so they agree without communication. The first voter
// campaigns immediately.
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

// open implements sequencers. It waits until the logs of earlier replicas are removed.
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

// openChild implements sequencers. The log of the child starts like the log of every new replica, unless the child
// already has a log: its leader may have sent entries before.
func (g *ReplicaSets) openChild(child *replicaInit, leader topology.NodeID) {
	list := []replicaInit{*child}
	g.runner.Call(func(h *raftgroup.Host) {
		c := configsOf(list, true)
		c[0].Fresh, c[0].PreferredNode = false, leader
		groups, err := h.Open(c...)
		if err != nil {
			return // the log cannot be written, which stops the node
		}
		g.setGroups(groups)
		if leader == g.opts.Node {
			h.Campaign(uint64(child.id))
		}
	})
}

// leavingMax is the time for which a new replica waits until the log of an earlier one is destroyed.
const leavingMax = 10 * time.Second

// never is a channel that never delivers anything.
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

// stopSequencers implements sequencers. It closes groups. Their logs are destroyed after the state, because in the
// reverse order a crash could leave a replica that has forgotten its votes.
func (g *ReplicaSets) stopSequencers(rs []*Replica) (finish func() error, err error) {
	groups := make(chan *raftgroup.Group, len(rs))
	for _, r := range rs {
		id := uint64(r.id)
		g.runner.Call(func(h *raftgroup.Host) {
			if h.Group(id) == nil {
				groups <- nil // another replica has taken over its span in the meantime
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
			return nil, ErrClosed // the state stays, and so do the replicas at the next start
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

// errNoReplicaSet is returned for operations that require a replica set.
var errNoReplicaSet = errors.New("this node does not belong to a replica set")

// Receive processes a frame from another node and keeps it.
func (g *ReplicaSets) Receive(from topology.NodeID, frame []byte) error {
	if g == nil {
		return errNoReplicaSet
	}
	return g.runner.Receive(from, frame)
}

// ReceiveSnapshot receives a snapshot from another node, of size bytes including its head. It returns nil when the
// snapshot is on this node's disk.
func (g *ReplicaSets) ReceiveSnapshot(from topology.NodeID, r io.Reader, size int64) error {
	if g == nil {
		return errNoReplicaSet
	}
	return g.runner.ReceiveSnapshot(from, r)
}

// NodeRefused handles a hint that a node's process may have ended: its address refused a connection.
func (g *ReplicaSets) NodeRefused(node topology.NodeID) {
	g.onLoop(func(r *raftgroup.Host) { r.NodeRefused(node) })
}

// NodeDeparted handles the announcement of a node's process that it no longer serves anything. The groups that it led
// elect new leaders immediately.
func (g *ReplicaSets) NodeDeparted(node topology.NodeID) {
	g.onLoop(func(r *raftgroup.Host) { r.NodeDeparted(node) })
}

// AbstainReason is a reason why a node leaves leadership to other nodes.
type AbstainReason uint32

// The reasons, one bit each.
const (
	ClockWrong AbstainReason = 1 << iota
	DiskFull
)

// Abstain makes the node leave the leadership of partitions to other voters that can lead, or ends that if no other
// reason remains.
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

// Abstaining sets the nodes that abstain, as far as this node knows, and keeps the map. If all voters of a partition
// abstain, all of them may lead.
func (g *ReplicaSets) Abstaining(nodes map[topology.NodeID]bool) {
	g.onLoop(func(r *raftgroup.Host) { r.Abstaining(nodes) })
}

// SetLowDisk sets whether the disk of this node has little space left. The logs of its replicas are then kept short.
func (g *ReplicaSets) SetLowDisk(on bool) {
	g.onLoop(func(r *raftgroup.Host) { r.SetLowDisk(on) })
}

// SetFullDisks sets the nodes whose disks are almost full, and keeps the map. Partitions led here reject writes that
// take space if fewer than a quorum of their voters have space for them: a node that runs out of space stops, and reads
// need a quorum.
func (g *ReplicaSets) SetFullDisks(full map[topology.NodeID]bool) {
	g.onLoop(func(h *raftgroup.Host) {
		for _, r := range g.host.Replicas() {
			r.quorumLowDisk.Store(!h.QuorumWithout(uint64(r.id), full))
		}
	})
}

// onLoop runs f asynchronously on the loop of the groups, if the node has groups.
func (g *ReplicaSets) onLoop(f func(*raftgroup.Host)) {
	if g != nil {
		g.runner.Call(f)
	}
}

// TransferAll transfers every leadership of the node to a voter with the complete log, and waits until requests in
// progress have completed. It is called before Close. If its context ends first, the remaining leaderships are decided
// by elections.
func (g *ReplicaSets) TransferAll(ctx context.Context) error {
	if g == nil {
		return nil // no other node could take over
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
