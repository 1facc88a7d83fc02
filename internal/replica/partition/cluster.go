// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	// RecordsChanged: the local replica of the meta partition has applied a change, or installed a snapshot; its records are at this
	// version or a later one. It must not block.
	RecordsChanged func(version uint64)
	// RecordsPut is told before of each change that was applied here one by one, which led to version from the one before; put is the
	// receiver's to keep. It must not block.
	RecordsPut func(version uint64, put []command.Record)
	// LeaderChanged: the partition follows a leader on this node, the zero NodeID if none is known; here says that the leader is the
	// local replica. It must not block.
	LeaderChanged func(id topology.PartitionID, leader topology.NodeID, here bool)
	// Replaced: a member of the meta partition speaks to another replica of it than the one on this node, one that was given to the node
	// since. The one that is here was removed while the node was away and will not hear of anything any more, that included: drop it,
	// then join as the other. It must not block.
	Replaced func(replica topology.ReplicaID)
	// Drive is for simulations: it runs the steps instead of goroutines. Then Transport is not used.
	Drive *Drive
}

// errAlone answers what only members of a replica set can do.
var errAlone = errors.New("the node stands alone: it has no replica sets")

// cluster is the part of a Host that only a cluster has.
type cluster struct {
	host    *Host
	opts    Cluster
	clock   raftgroup.Clock
	machine *machine
	runner  Runner
	flights sync.Pool // *flight
	answers sync.Pool // outcomes1, empty

	// closed ends what waits, cancel what reads and writes snapshots. failed is closed when the runner stopped by itself.
	closed chan struct{}
	failed chan struct{}
	cancel context.CancelFunc
	tidied sync.WaitGroup
}

// openCluster opens the replicas of the registry and starts their groups.
func (h *Host) openCluster(s Store) error {
	stored, ok := s.(Stored)
	if !ok {
		return fmt.Errorf("a cluster needs partition.Stored, not %T", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{host: h, opts: *h.opts.Cluster, closed: make(chan struct{}), failed: make(chan struct{}), cancel: cancel}
	c.flights.New = func() any { return new(flight) }
	c.answers.New = func() any { return make(outcomes1, 1) }
	if c.clock = c.opts.Clock; c.clock == nil {
		c.clock = raftgroup.BootClock{}
	}
	if c.opts.StalenessMax == 0 {
		c.opts.StalenessMax = 500 * time.Millisecond
	}
	h.cluster, h.latches.drive = c, c.opts.Drive
	c.machine = newMachine(c, stored.Store)
	configs, err := c.load(stored)
	if err == nil {
		err = c.start(ctx, stored, configs)
	}
	if err != nil {
		cancel()
		c.machine.close()
	}
	return err
}

// load makes members of what the registry lists.
func (c *cluster) load(s Stored) ([]raftgroup.GroupConfig, error) {
	registry, err := s.Replicas()
	if err != nil {
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	metas, err := s.Metas()
	if err != nil {
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	byID := make(map[uint64]*keys.Meta, len(metas))
	for i := range metas {
		byID[metas[i].Partition] = &metas[i]
	}
	replicas := make(map[topology.PartitionID]*Replica, len(registry))
	configs := make([]raftgroup.GroupConfig, 0, len(registry))
	for i := range registry {
		record := &registry[i]
		meta := byID[record.Partition]
		delete(byID, record.Partition)
		r, err := c.newMember(topology.PartitionID(record.Partition), topology.ReplicaID(record.Replica), meta)
		if err != nil {
			return nil, fmt.Errorf("open partition %d: %w", record.Partition, err)
		}
		replicas[r.id] = r
		if meta == nil {
			meta = &keys.Meta{Partition: record.Partition}
		}
		configs = append(configs, configOf(record.Replica, meta, false))
	}
	for i := range metas {
		if byID[metas[i].Partition] != nil {
			return nil, fmt.Errorf("open partition %d: it has rows and is not in the node's registry", metas[i].Partition)
		}
	}
	if err := checkSpans(values(replicas)); err != nil {
		return nil, err
	}
	c.host.replicas.Store(&replicas)
	return configs, c.destroyOrphans(replicas)
}

// destroyOrphans removes the logs of replicas whose state was removed before a crash.
func (c *cluster) destroyOrphans(replicas map[topology.PartitionID]*Replica) error {
	groups, err := c.opts.Log.Groups()
	if err != nil {
		return fmt.Errorf("open logs: %w", err)
	}
	b := c.opts.Log.NewBatch()
	orphans := 0
	for _, g := range groups {
		if replicas[topology.PartitionID(g)] == nil {
			orphans++
			if err = b.Destroy(g); err != nil {
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

// start opens the groups and starts the runner.
func (c *cluster) start(ctx context.Context, s Stored, configs []raftgroup.GroupConfig) error {
	o := c.opts.Raft
	o.Node = raftgroup.NodeID(c.opts.Node)
	o.Events.LeaderChanged, o.Events.UnknownGroup, o.Events.Failed = c.leaderChanged, c.unknownGroup, c.runnerFailed
	host := raftgroup.NewHost(c.opts.Log, c.opts.Log.NewBatch(), o)
	groups, err := host.Open(configs...)
	if err != nil {
		return err
	}
	c.setGroups(groups)
	snaps := &snapshots{ctx: ctx, cluster: c, store: s.Store}
	if d := c.opts.Drive; d != nil {
		c.runner = d.Runner(host, c.machine, snaps)
		c.runner.Start()
		return nil
	}
	c.runner = raftgroup.NewRunner(host, raftgroup.NewLogWriter(c.opts.Log.NewBatch()), raftgroup.NewApplier(c.machine), snaps, c.opts.Transport, c.clock)
	c.runner.Start()
	c.tidied.Go(c.tidy)
	return nil
}

func (c *cluster) setGroups(groups []*raftgroup.Group) {
	for _, g := range groups {
		c.member(topology.PartitionID(g.ID())).group.Store(g)
	}
}

// newMember makes a replica of a meta; nil makes one that waits for its first snapshot.
func (c *cluster) newMember(id topology.PartitionID, replica topology.ReplicaID, meta *keys.Meta) (*Replica, error) {
	if meta == nil {
		meta = &keys.Meta{Partition: uint64(id)}
	}
	r, err := newReplica(c.host, meta)
	if err != nil {
		return nil, err
	}
	m := &member{cluster: c, replica: r, id: replica}
	r.member = m
	if meta.Span.Table == 0 {
		m.recent.reset(c.clock.Now())
		return r, nil
	}
	if m.isMeta() {
		version, err := recordsVersion(c.machine.store)
		if err != nil {
			return nil, err
		}
		m.applied.shown = version // who opens a host reads the records then
	}
	return r, m.refresh(meta)
}

// member returns the member of a partition, nil if it is not here.
func (c *cluster) member(id topology.PartitionID) *member {
	if r := c.host.Replica(id); r != nil {
		return r.member
	}
	return nil
}

func (c *cluster) leaderChanged(group uint64, leader raftgroup.Member, term uint64) {
	if f := c.opts.Raft.Events.LeaderChanged; f != nil {
		f(group, leader, term)
	}
	if f := c.opts.LeaderChanged; f != nil {
		m := c.member(topology.PartitionID(group))
		f(topology.PartitionID(group), topology.NodeID(leader.Node), m != nil && leader.Replica != 0 && leader.Replica == uint64(m.id))
	}
}

func (c *cluster) unknownGroup(group, replica uint64, from raftgroup.NodeID) {
	if f := c.opts.Raft.Events.UnknownGroup; f != nil {
		f(group, replica, from)
	}
	if f := c.opts.Replaced; f != nil && topology.PartitionID(group) == topology.MetaPartition && c.member(topology.MetaPartition) != nil {
		f(topology.ReplicaID(replica))
	}
}

func (c *cluster) runnerFailed(err error) {
	close(c.failed)
	if f := c.opts.Raft.Events.Failed; f != nil {
		f(err)
	}
}

// tidy lets go of ids where nothing is written any more.
func (c *cluster) tidy() {
	tick := time.NewTicker(rememberFor)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
		}
		now := c.clock.Now()
		for _, r := range *c.host.replicas.Load() {
			r.member.recent.tidy(now)
		}
	}
}

// close ends the groups. What is under way is told that nobody knows.
func (c *cluster) close() error {
	close(c.closed)
	c.cancel()
	err := c.runner.Close()
	c.tidied.Wait()
	c.machine.close()
	return err
}

// Receive takes a frame of another node and keeps it.
func (h *Host) Receive(from topology.NodeID, frame []byte) error {
	if h.cluster == nil {
		return errAlone
	}
	return h.cluster.runner.Receive(raftgroup.NodeID(from), frame)
}

// ReceiveSnapshot takes a snapshot that another node sends, of size bytes with what stands before it, and returns when it is on this
// node's disk, or why it is not.
func (h *Host) ReceiveSnapshot(from topology.NodeID, r io.Reader, size int64) error {
	if h.cluster == nil {
		return errAlone
	}
	return h.cluster.runner.ReceiveSnapshot(raftgroup.NodeID(from), r)
}

// NodeGone is for the proof that a node's process is gone: its address refused a connection. What it led elects a leader at once.
func (h *Host) NodeGone(node topology.NodeID) {
	if h.cluster != nil {
		h.cluster.runner.Call(func(r *raftgroup.Host) { r.ForgetNode(raftgroup.NodeID(node)) })
	}
}

// Handover gives every leadership of the node to a voter that has all of the log, and waits until what is under way has ended. Call it
// before Close. It ends with its context; what is left then is decided by elections.
func (h *Host) Handover(ctx context.Context) error {
	if h.cluster == nil {
		return nil
	}
	for {
		left := 0
		err := h.cluster.runner.Do(func(r *raftgroup.Host) {
			left = r.Handover()
			for _, g := range r.Groups() {
				if s, ok := r.Status(g.ID()); ok && s.Waiting > 0 {
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
		if _, err := await(h.cluster.opts.Drive, patience{ctx: ctx, max: 20 * time.Millisecond}, never); ctx.Err() != nil {
			return fmt.Errorf("%d leaderships or requests are left: %w", left, err)
		}
	}
}

func values(replicas map[topology.PartitionID]*Replica) []*Replica {
	out := make([]*Replica, 0, len(replicas))
	for _, r := range replicas {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Replica) int { return int(min(max(int64(a.id)-int64(b.id), -1), 1)) })
	return out
}
