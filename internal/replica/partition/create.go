// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// replicaInit describes a replica to open.
type replicaInit struct {
	id      topology.PartitionID
	replica topology.ReplicaID
	// meta is nil if the replica waits for its first snapshot.
	meta *keys.Meta
	// leads makes the replica campaign immediately. listed reports whether the replica is in the node's registry.
	leads, listed bool
}

// initialMeta returns the first meta of a partition. set is the replica set of the partition, or nil. The feature level
// comes from the topology, so all replicas have the same level. If the topology contains no level, the feature level is
// alone.
func initialMeta(p *topology.Partition, set *topology.ReplicaSet, alone feature.Level) keys.Meta {
	m := keys.NewMeta(uint64(p.ID), p.Span.Keys(p.Table))
	m.Epoch, m.Feature = p.Epoch, p.Level
	if p.Level == 0 {
		m.Feature = alone
	}
	if set != nil {
		m.Region = set.Region
		for _, r := range set.Replicas {
			member := keys.Member{Replica: uint64(r.ID), Node: r.Node}
			if r.State == topology.Joining {
				m.Learners = append(m.Learners, member)
			} else {
				m.Voters = append(m.Voters, member)
			}
		}
	}
	return m
}

// Create durably creates, in one step, the replicas of new partitions that the topology places on this node. It does
// not change existing replicas, so the caller can repeat it after a crash. The voters in the stored meta are the
// partition's members in the region of this node.
func (h *Host) Create(ps ...*topology.Partition) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	missing := make([]*topology.Partition, 0, len(ps))
	for _, p := range ps {
		if h.Replica(p.ID) == nil {
			missing = append(missing, p)
		}
	}
	return h.createReplicas(h.seqs.initialReplicas(missing))
}

// Join durably creates an empty replica that waits for its first snapshot. The leader sends the snapshot when it adds
// the replica to its configuration. Join does not change an existing replica.
func (h *Host) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	if h.ReplicaSets() == nil {
		return errNoReplicaSet
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.Replica(id); {
	case h.closed:
		return ErrClosed
	case r == nil:
		return h.createReplicas([]replicaInit{{id: id, replica: replica, listed: true}})
	case r.member != replica:
		return fmt.Errorf("cannot join partition %d as replica %d: this node already has replica %d", id, replica,
			r.member)
	}
	return nil
}

// createReplicas durably stores new replicas and opens them. The caller must hold mu.
func (h *Host) createReplicas(list []replicaInit) error {
	if len(list) == 0 {
		return nil
	}
	if err := h.seqs.failed(); err != nil {
		return err
	}
	if err := h.storeReplicas(list); err != nil {
		return fmt.Errorf("cannot create partitions: %w", err)
	}
	if err := h.seqs.open(list); err != nil {
		h.removeFromMap(list)
		return fmt.Errorf("cannot create partitions: %w", err)
	}
	return nil
}

// storeReplicas stores new replicas and adds them to the map of replicas. The caller must then open their sequencers.
func (h *Host) storeReplicas(list []replicaInit) error {
	h.listing.Lock()
	defer h.listing.Unlock()
	replicas := h.clone()
	tables := map[uint32]bool{}
	b := h.store.NewBatch()
	defer b.Close()
	for i := range list {
		n := &list[i]
		r, err := newReplica(h, n)
		if err != nil {
			return fmt.Errorf("partition %d: %w", n.id, err)
		}
		if replicas[r.id] != nil {
			return fmt.Errorf("this node already has partition %d", n.id)
		}
		replicas[r.id] = r
		if n.listed {
			b.PutReplica(&keys.Replica{Partition: uint64(n.id), Replica: uint64(n.replica),
				Created: h.opts.Clock.Wall().Unix()})
		}
		if n.meta != nil {
			tables[n.meta.Span.Table] = true
			b.PutMeta(n.meta)
		}
	}
	if err := checkSpans(ofTables(replicas, tables)); err != nil {
		return err
	}
	if err := errors.Join(b.Commit(), h.store.Sync()); err != nil {
		return err
	}
	h.replicas.Store(&replicas)
	for i := range list {
		replicas[list[i].id].local.markFound(h.clock.Now())
	}
	return nil
}

func ofTables(replicas map[topology.PartitionID]*Replica, tables map[uint32]bool) []*Replica {
	var out []*Replica
	for _, r := range replicas {
		if tables[r.Table()] {
			out = append(out, r)
		}
	}
	return out
}

// Drop durably removes replicas and their data, except index entries. It waits for requests in progress. Later requests
// get ErrClosed.
func (h *Host) Drop(ids ...topology.PartitionID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	var gone []*Replica
	for _, id := range ids {
		if r := h.Replica(id); r != nil && !slices.Contains(gone, r) {
			gone = append(gone, r)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, r := range gone {
		r.requests.drain(h.sim)
	}
	finish, err := h.seqs.stopSequencers(gone)
	if err != nil {
		return err
	}
	h.listing.Lock()
	// The rows of a dead replica belong to another partition and must remain. The child of a recent split also remains.
	gone = slices.DeleteFunc(gone, func(r *Replica) bool { return r.dead.Load() })
	stay := h.clone()
	for _, r := range gone {
		delete(stay, r.id)
	}
	h.replicas.Store(&stay)
	h.listing.Unlock()
	if err := h.removeState(gone, stay); err != nil {
		return fmt.Errorf("cannot drop partitions: %w", err)
	}
	return finish()
}

// removeState removes the data, the metas, and the registry records of replicas in one batch.
func (h *Host) removeState(gone []*Replica, stay map[topology.PartitionID]*Replica) error {
	b := h.store.NewBatch()
	defer b.Close()
	for _, span := range spansOf(gone, stay) {
		b.Remove(span, nil)
	}
	for _, r := range gone {
		b.DeleteMeta(uint64(r.id))
		b.DeleteReplica(uint64(r.id))
	}
	return errors.Join(b.CommitLogged(), h.store.Sync())
}

// spansOf returns the spans to remove with replicas. If no replica of a table remains, spansOf returns the whole table
// as one span. It does not do this while a replica waits for its first snapshot, because this replica may belong to the
// table.
func spansOf(gone []*Replica, stay map[topology.PartitionID]*Replica) []keys.Span {
	kept, whole := map[uint32]bool{}, map[uint32]bool{}
	for _, r := range stay {
		kept[r.Table()] = true
	}
	waiting := kept[0]
	var out []keys.Span
	for _, r := range gone {
		switch table := r.Table(); {
		case table == 0: // the replica has never had a state
		case kept[table], waiting:
			out = append(out, r.state.Load().keys)
		case !whole[table]:
			whole[table] = true
			out = append(out, keys.Span{Table: table})
		}
	}
	return out
}
