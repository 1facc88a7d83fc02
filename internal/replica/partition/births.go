// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// leavingMax bounds how long a new replica waits until the log of an earlier one is destroyed.
const leavingMax = 10 * time.Second

// never is where nothing comes from.
var never chan struct{}

// born is a replica that is about to be opened: the record of it, and the meta of one that is born with its partition.
type born struct {
	record keys.Replica
	meta   *keys.Meta
	leads  bool
}

// create is Host.Create in a cluster: the replicas whose voters in the map are on this node. All replicas of a partition are born alike,
// on their nodes, so they agree without having talked. The one that is listed first asks for votes at once.
func (c *cluster) create(ps []*topology.Partition) error {
	var list []born
	for _, p := range ps {
		if c.host.Replica(p.ID) != nil || len(p.Sets) == 0 {
			continue
		}
		for i, r := range p.Sets[0].Replicas {
			if r.Node == c.opts.Node && r.State == topology.Voter {
				meta := birth(p)
				list = append(list, born{keys.Replica{Partition: uint64(p.ID), Replica: uint64(r.ID)}, &meta, i == 0})
			}
		}
	}
	return c.add(list)
}

// Join makes an empty replica of a partition that waits for its first snapshot: the leader sends one when it adds the replica to its
// configuration. One that is here already is left alone. Durable when it returns.
func (h *Host) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	if h.cluster == nil {
		return errAlone
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.Replica(id); {
	case h.closed:
		return ErrClosed
	case r == nil:
		return h.cluster.add([]born{{record: keys.Replica{Partition: uint64(id), Replica: uint64(replica)}}})
	case r.member.id != replica:
		return fmt.Errorf("join partition %d as replica %d: replica %d is here", id, replica, r.member.id)
	}
	return nil
}

// add stores new replicas, durably, and opens them. The caller holds Host.mu.
func (c *cluster) add(list []born) error {
	if len(list) == 0 {
		return nil
	}
	replicas := c.host.copyReplicas(len(list))
	tables := map[uint32]bool{}
	configs := make([]raftgroup.GroupConfig, 0, len(list))
	b := c.machine.store.NewBatch()
	defer b.Close()
	for i := range list {
		n := &list[i]
		n.record.Created = c.host.opts.Now().Unix()
		r, err := c.newMember(topology.PartitionID(n.record.Partition), topology.ReplicaID(n.record.Replica), n.meta)
		if err != nil {
			return fmt.Errorf("create partition %d: %w", n.record.Partition, err)
		}
		replicas[r.id] = r
		b.PutReplica(&n.record)
		meta := n.meta
		if meta != nil {
			tables[meta.Span.Table] = true
			b.PutMeta(meta)
		} else {
			meta = &keys.Meta{Partition: n.record.Partition}
		}
		configs = append(configs, configOf(n.record.Replica, meta, n.meta != nil))
	}
	if err := checkSpans(ofTables(replicas, tables)); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	if err := errors.Join(b.Commit(), c.machine.store.Sync()); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	before := c.host.replicas.Load()
	c.host.replicas.Store(&replicas) // entries are applied as soon as a group is open
	if err := c.open(configs); err != nil {
		c.host.replicas.Store(before)
		return fmt.Errorf("create partitions: %w", err)
	}
	c.runner.Call(func(h *raftgroup.Host) {
		for i := range list {
			if list[i].leads {
				h.Campaign(list[i].record.Partition)
			}
		}
	})
	return nil
}

// open opens groups, when the logs of earlier replicas are gone.
func (c *cluster) open(configs []raftgroup.GroupConfig) error {
	const pause = 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += pause {
		var err error
		closed := c.runner.Do(func(h *raftgroup.Host) {
			var groups []*raftgroup.Group
			if groups, err = h.Open(configs...); err == nil {
				c.setGroups(groups)
			}
		})
		if closed != nil {
			return ErrClosed
		}
		if !errors.Is(err, raftgroup.ErrLeaving) || waited >= leavingMax {
			return err
		}
		if _, err := await(c.opts.Drive, patience{ctx: context.Background(), ends: [2]chan struct{}{c.closed}, max: pause}, never); errors.Is(err, errEnded) {
			return ErrClosed
		}
	}
}

// drop removes replicas: requests end, the groups are closed, then the state goes, durably, and after it the logs. In the other order a
// replica could come back that has forgotten how it voted. The caller holds Host.mu.
func (c *cluster) drop(ids []topology.PartitionID) error {
	stay := c.host.copyReplicas(0)
	var gone []*Replica
	for _, id := range ids {
		if r := stay[id]; r != nil {
			gone = append(gone, r)
			delete(stay, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	groups := make(chan *raftgroup.Group, len(gone))
	for _, r := range gone {
		r.close()
		id := uint64(r.id)
		c.runner.Call(func(h *raftgroup.Host) { h.Close(id, func(g *raftgroup.Group) { groups <- g }) })
	}
	idle := make([]*raftgroup.Group, 0, len(gone))
	for range gone {
		g, err := await(c.opts.Drive, patience{ctx: context.Background(), ends: [2]chan struct{}{c.failed}}, groups)
		if err != nil {
			return ErrClosed // the state stays; so do the replicas, at the next start
		}
		idle = append(idle, g)
	}
	c.host.replicas.Store(&stay)
	if err := c.removeState(gone, stay); err != nil {
		return fmt.Errorf("drop partitions: %w", err)
	}
	return c.runner.Do(func(h *raftgroup.Host) {
		for _, g := range idle {
			h.DestroyLog(g)
		}
	})
}

// removeState removes what replicas hold, with their metas and their records, in one batch.
func (c *cluster) removeState(gone []*Replica, stay map[topology.PartitionID]*Replica) error {
	b := c.machine.store.NewBatch()
	defer b.Close()
	for _, span := range spansOf(gone, stay) {
		if err := b.Truncate(span, nil); err != nil {
			return err
		}
	}
	for _, r := range gone {
		b.DeleteMeta(uint64(r.id))
		b.DeleteReplica(uint64(r.id))
	}
	return errors.Join(b.CommitLogged(), c.machine.store.Sync())
}
