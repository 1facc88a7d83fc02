// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/raftlog"
)

// Cluster makes the replicas of a Host members of replica sets.
type Cluster struct {
	// Node is this node.
	Node topology.NodeID
	// Log keeps the logs of all replicas; the host does not close it.
	Log *raftlog.Store
	// Transport carries frames to other nodes.
	Transport raftgroup.Transport
	// Clock is that of leases; raftgroup.BootClock if nil.
	Clock raftgroup.Clock
	// Raft tunes the groups. Its Node is set, and its events are called besides the host's own.
	Raft raftgroup.Options
	// StalenessMax is how long ago a follower that serves reads may have heard from its leader; 500 ms if 0.
	StalenessMax time.Duration
	// RecordsChanged: the local replica of the meta partition has applied a change, or installed a snapshot; its
	// records are at this version or a later one. It must not block.
	RecordsChanged func(version uint64)
	// RecordsPut is told before of each change that was applied here one by one, which led to version from the one
	// before; put is the receiver's to keep. It must not block.
	RecordsPut func(version uint64, put []command.Record)
	// LeaderChanged: the partition follows a leader on this node, the zero NodeID if none is known; here says that the
	// leader is the local replica. It must not block.
	LeaderChanged func(id topology.PartitionID, leader topology.NodeID, here bool)
	// Replaced: a member of the meta partition speaks to another replica of it than the one on this node, one that was
	// given to the node since. The one that is here was removed while the node was away and will not hear of anything
	// any more, that included: drop it, then join as the other. It must not block.
	Replaced func(replica topology.ReplicaID)
	// Drive is for simulations: it runs the steps instead of goroutines. Then Transport is not used.
	Drive *Drive
}

// raft is the sequencers of a node that is one of several: a Raft group for each replica.
type raft struct {
	host    *Host
	opts    *Cluster
	runner  Runner
	answers sync.Pool // *answer, not under way

	// closed ends what waits, cancel what reads and writes snapshots. stopped is closed when the runner stopped by
	// itself.
	ctx     context.Context
	cancel  context.CancelFunc
	closed  chan struct{}
	stopped chan struct{}
}

func newRaft(h *Host) *raft {
	g := &raft{host: h, opts: h.opts.Cluster, closed: make(chan struct{}), stopped: make(chan struct{})}
	g.answers.New = func() any { return newAnswer() }
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// load implements sequencers: it returns what the registry lists.
func (g *raft) load(metas []keys.Meta) ([]born, error) {
	registry, err := g.host.store.Replicas()
	if err != nil {
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	byID := make(map[uint64]*keys.Meta, len(metas))
	for i := range metas {
		byID[metas[i].Partition] = &metas[i]
	}
	list := make([]born, 0, len(registry))
	for _, record := range registry {
		list = append(list, born{id: topology.PartitionID(record.Partition),
			replica: topology.ReplicaID(record.Replica),
			meta:    byID[record.Partition]})
		delete(byID, record.Partition)
	}
	for id := range byID {
		return nil, fmt.Errorf("open partition %d: it has rows and is not in the node's registry", id)
	}
	return list, g.destroyOrphans(list)
}

// destroyOrphans removes the logs of replicas whose state was removed before a crash.
func (g *raft) destroyOrphans(list []born) error {
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

// start opens the groups of the replicas that were loaded and starts the runner.
func (g *raft) start(list []born) error {
	o := g.opts.Raft
	o.Node = raftgroup.NodeID(g.opts.Node)
	o.Events.LeaderChanged, o.Events.UnknownGroup, o.Events.Failed = g.leaderChanged, g.unknownGroup, g.runnerFailed
	host := raftgroup.NewHost(g.opts.Log, g.opts.Log.NewBatch(), o)
	groups, err := host.Open(configsOf(list, false)...)
	if err != nil {
		return err
	}
	g.setGroups(groups)
	snaps := &snapshots{raft: g, store: g.host.store}
	if d := g.opts.Drive; d != nil {
		g.runner = d.Runner(host, g.host.machine, snaps)
	} else {
		g.runner = raftgroup.NewRunner(host, raftgroup.NewLogWriter(g.opts.Log.NewBatch()),
			raftgroup.NewApplier(g.host.machine), snaps,
			g.opts.Transport, g.host.clock)
	}
	g.runner.Start()
	return nil
}

// configsOf is what the groups of replicas are opened with; fresh ones are born with their partition, unless they wait
// for a snapshot.
func configsOf(list []born, fresh bool) []raftgroup.GroupConfig {
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

func (g *raft) setGroups(groups []*raftgroup.Group) {
	for _, group := range groups {
		g.of(group.ID()).group.Store(group)
	}
}

// of returns the sequencer of a group, nil if it has no replica here.
func (g *raft) of(group uint64) *raftSequencer {
	if r := g.host.Replica(topology.PartitionID(group)); r != nil {
		return r.seq.(*raftSequencer)
	}
	return nil
}

func (g *raft) leaderChanged(group uint64, leader raftgroup.Member, term uint64) {
	if f := g.opts.Raft.Events.LeaderChanged; f != nil {
		f(group, leader, term)
	}
	if f := g.opts.LeaderChanged; f != nil {
		r := g.host.Replica(topology.PartitionID(group))
		f(topology.PartitionID(group), topology.NodeID(leader.Node), r != nil && leader.Replica != 0 &&
			leader.Replica == uint64(r.member))
	}
}

func (g *raft) unknownGroup(group, replica uint64, from raftgroup.NodeID) {
	if f := g.opts.Raft.Events.UnknownGroup; f != nil {
		f(group, replica, from)
	}
	if f := g.opts.Replaced; f != nil && topology.PartitionID(group) == topology.MetaPartition && g.of(group) != nil {
		f(topology.ReplicaID(replica))
	}
}

func (g *raft) runnerFailed(err error) {
	close(g.stopped)
	if f := g.opts.Raft.Events.Failed; f != nil {
		f(err)
	}
}

// failed implements sequencers.
func (g *raft) failed() error {
	if err := g.runner.Failed(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil
}

// close ends the groups. What is under way is told that nobody knows.
func (g *raft) close() error {
	close(g.closed)
	g.cancel()
	if g.runner == nil {
		return nil
	}
	return g.runner.Close()
}

// bear implements sequencers: the voters of the map that are on this node. All replicas of a partition are born alike,
// on their nodes, so they agree without having talked. The one that is listed first asks for votes at once.
func (g *raft) bear(ps []*topology.Partition) (list []born) {
	for _, p := range ps {
		if len(p.Sets) == 0 {
			continue
		}
		for i, r := range p.Sets[0].Replicas {
			if r.Node == g.opts.Node && r.State == topology.Voter {
				meta := birth(p, g.host.store.Level())
				list = append(list, born{id: p.ID, replica: r.ID, meta: &meta, leads: i == 0, listed: true})
			}
		}
	}
	return list
}

// open implements sequencers. It waits until the logs of earlier replicas are gone.
func (g *raft) open(list []born) error {
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
		_, err = await(g.host.drive, patience{ctx: context.Background(), ends: [2]chan struct{}{g.closed}, max: pause},
			never)
		if errors.Is(err, errEnded) {
			return ErrClosed
		}
	}
}

// begin implements sequencers. The log of the child begins as that of every newborn, unless it has one: its leader may
// have sent entries before.
func (g *raft) begin(child *born, leader topology.NodeID) {
	list := []born{*child}
	g.runner.Call(func(h *raftgroup.Host) {
		c := configsOf(list, true)
		c[0].Fresh, c[0].Favours = false, raftgroup.NodeID(leader)
		groups, err := h.Open(c...)
		if err != nil {
			return // the log cannot be written, which ends the node
		}
		g.setGroups(groups)
		if leader == g.opts.Node {
			h.Campaign(uint64(child.id))
		}
	})
}

// leavingMax bounds how long a new replica waits until the log of an earlier one is destroyed.
const leavingMax = 10 * time.Second

// never is where nothing comes from.
var never chan struct{}

// end implements sequencers.
func (g *raft) end(r *Replica) {
	g.runner.Call(func(h *raftgroup.Host) {
		h.Close(uint64(r.id), func(group *raftgroup.Group) {
			g.host.buried.Delete(r.id)
			h.DestroyLog(group)
		})
	})
}

// withdraw implements sequencers: it closes groups. Their logs are destroyed after the state: in the other order a
// replica could come back that has forgotten how it voted.
func (g *raft) withdraw(rs []*Replica) (finish func() error, err error) {
	groups := make(chan *raftgroup.Group, len(rs))
	for _, r := range rs {
		id := uint64(r.id)
		g.runner.Call(func(h *raftgroup.Host) {
			if h.Group(id) == nil {
				groups <- nil // another one has taken its span meanwhile
				return
			}
			h.Close(id, func(group *raftgroup.Group) { groups <- group })
		})
	}
	idle := make([]*raftgroup.Group, 0, len(rs))
	for range rs {
		group, err := await(g.host.drive, patience{ctx: context.Background(), ends: [2]chan struct{}{g.stopped}},
			groups)
		if err != nil {
			return nil, ErrClosed // the state stays; so do the replicas, at the next start
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

// replicaSets returns the Raft half of the host, or errNoReplicaSet.
func (h *Host) replicaSets() (*raft, error) {
	if g, ok := h.seqs.(*raft); ok {
		return g, nil
	}
	return nil, errNoReplicaSet
}

// errNoReplicaSet answers what only members of a replica set can do.
var errNoReplicaSet = errors.New("the node is not one of several: its partitions have no other replicas")

// Receive takes a frame of another node and keeps it.
func (h *Host) Receive(from topology.NodeID, frame []byte) error {
	g, err := h.replicaSets()
	if err != nil {
		return err
	}
	return g.runner.Receive(raftgroup.NodeID(from), frame)
}

// ReceiveSnapshot takes a snapshot that another node sends, of size bytes with what stands before it, and returns when
// it is on this node's disk, or why it is not.
func (h *Host) ReceiveSnapshot(from topology.NodeID, r io.Reader, size int64) error {
	g, err := h.replicaSets()
	if err != nil {
		return err
	}
	return g.runner.ReceiveSnapshot(raftgroup.NodeID(from), r)
}

// NodeRefused is for the hint that a node's process may have ended: its address refused a connection.
func (h *Host) NodeRefused(node topology.NodeID) {
	h.onLoop(func(r *raftgroup.Host) { r.Refused(raftgroup.NodeID(node)) })
}

// NodeDeparted is for the word of a node's process that it serves nothing any more. What it led elects a leader at
// once.
func (h *Host) NodeDeparted(node topology.NodeID) {
	h.onLoop(func(r *raftgroup.Host) { r.Departed(raftgroup.NodeID(node)) })
}

// Reason is why a node leaves leadership to others.
type Reason uint32

// The reasons, one bit each.
const (
	ClockWrong Reason = 1 << iota
	DiskFull
)

// Abstain has the node leave the leadership of each partition to other voters that can lead it, or ends that if there
// is no other reason.
func (h *Host) Abstain(why Reason, on bool) {
	for {
		old := h.abstains.Load()
		reasons := old &^ uint32(why)
		if on {
			reasons |= uint32(why)
		}
		if h.abstains.CompareAndSwap(old, reasons) {
			break
		}
	}
	h.onLoop(func(r *raftgroup.Host) { r.Abstain(h.abstains.Load() != 0) })
}

// Abstaining says which nodes abstain, as far as this one has heard: where all voters of a partition do, all may lead.
func (h *Host) Abstaining(nodes map[topology.NodeID]bool) {
	set := make(map[raftgroup.NodeID]bool, len(nodes))
	for node := range nodes {
		set[raftgroup.NodeID(node)] = true
	}
	h.onLoop(func(r *raftgroup.Host) { r.Abstaining(set) })
}

// Cramped says whether the disk of this node has little room left: the logs of its replicas are kept short then.
func (h *Host) Cramped(on bool) {
	h.onLoop(func(r *raftgroup.Host) { r.Cramped(on) })
}

// DisksFull says which nodes have disks that are almost full. Partitions that are led here refuse what takes space if
// fewer than a quorum of their voters have room for it: a node that runs out of space ends, and reads need a quorum.
func (h *Host) DisksFull(full map[topology.NodeID]bool) {
	nodes := map[raftgroup.NodeID]bool{}
	for node := range full {
		nodes[raftgroup.NodeID(node)] = true
	}
	h.onLoop(func(g *raftgroup.Host) {
		for _, r := range h.Replicas() {
			r.crowded.Store(!g.QuorumWithout(uint64(r.id), nodes))
		}
	})
}

// onLoop runs f on the loop of the groups, soon, if there are any.
func (h *Host) onLoop(f func(*raftgroup.Host)) {
	if g, err := h.replicaSets(); err == nil {
		g.runner.Call(f)
	}
}

// Handover gives every leadership of the node to a voter that has all of the log, and waits until what is under way has
// ended. Call it before Close. It ends with its context; what is left then is decided by elections.
func (h *Host) Handover(ctx context.Context) error {
	g, err := h.replicaSets()
	if err != nil {
		return nil // nobody could take over
	}
	for {
		left := 0
		err := g.runner.Do(func(r *raftgroup.Host) {
			left = r.Handover()
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
		if _, err := await(h.drive, patience{ctx: ctx, max: 20 * time.Millisecond}, never); ctx.Err() != nil {
			return fmt.Errorf("%d leaderships or requests are left: %w", left, err)
		}
	}
}
