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

// born is a replica that is about to be opened.
type born struct {
	id      topology.PartitionID
	replica topology.ReplicaID
	// meta is nil for a replica that waits for its first snapshot.
	meta *keys.Meta
	// leads asks for votes at once; listed says that the node's registry lists the replica.
	leads, listed bool
}

// birth is the first meta of a partition. Its feature level is what the map says, the same at every replica, or that of
// the directory where the map has none: on a node that stands alone.
func birth(p *topology.Partition, alone feature.Level) keys.Meta {
	m := keys.NewMeta(uint64(p.ID), p.Span.Keys(p.Table))
	m.Epoch, m.Feature = p.Epoch, p.Level
	if p.Level == 0 {
		m.Feature = alone
	}
	if len(p.Sets) > 0 {
		m.Region = p.Sets[0].Region
		for _, r := range p.Sets[0].Replicas {
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

// Create gives birth to the replicas of new partitions that the map has on this node, durably and all at once. Those
// that are here already are left alone, so it can be repeated after a crash. voters of the stored meta are the
// partition's members in its first region.
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
	return h.add(h.seqs.bear(missing))
}

// Join makes an empty replica of a partition that waits for its first snapshot: the leader sends one when it adds the
// replica to its configuration. One that is here already is left alone. Durable when it returns.
func (h *Host) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	if _, err := h.replicaSets(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.Replica(id); {
	case h.closed:
		return ErrClosed
	case r == nil:
		return h.add([]born{{id: id, replica: replica, listed: true}})
	case r.member != replica:
		return fmt.Errorf("join partition %d as replica %d: replica %d is here", id, replica, r.member)
	}
	return nil
}

// add stores new replicas, durably, and opens them. The caller holds mu.
func (h *Host) add(list []born) error {
	if len(list) == 0 {
		return nil
	}
	if err := h.seqs.failed(); err != nil {
		return err
	}
	if err := h.bring(list); err != nil {
		return fmt.Errorf("create partitions: %w", err)
	}
	if err := h.seqs.open(list); err != nil {
		h.forget(list)
		return fmt.Errorf("create partitions: %w", err)
	}
	return nil
}

// bring stores new replicas and shows them: entries are applied as soon as a sequencer is open.
func (h *Host) bring(list []born) error {
	h.listing.Lock()
	defer h.listing.Unlock()
	replicas := h.copyReplicas(len(list))
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
			return fmt.Errorf("partition %d is here", n.id)
		}
		replicas[r.id] = r
		if n.listed {
			b.PutReplica(&keys.Replica{Partition: uint64(n.id), Replica: uint64(n.replica),
				Created: h.opts.Now().Unix()})
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
		replicas[list[i].id].found()
	}
	return nil
}

// forget takes replicas whose sequencers did not open out of the map.
func (h *Host) forget(list []born) {
	h.listing.Lock()
	defer h.listing.Unlock()
	stay := h.copyReplicas(0)
	for i := range list {
		delete(stay, list[i].id)
	}
	h.replicas.Store(&stay)
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

func (h *Host) copyReplicas(more int) map[topology.PartitionID]*Replica {
	old := *h.replicas.Load()
	out := make(map[topology.PartitionID]*Replica, len(old)+more)
	for id, r := range old {
		out[id] = r
	}
	return out
}

// Drop removes replicas with all they hold, but for index entries: the indexes of a table are dropped with it. Requests
// under way end first; later ones get ErrClosed. The state goes durably.
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
		r.close()
	}
	finish, err := h.seqs.withdraw(gone)
	if err != nil {
		return err
	}
	h.listing.Lock()
	// The rows of one that is dead are another's now. What split off from one of them until now stays.
	gone = slices.DeleteFunc(gone, func(r *Replica) bool { return r.dead.Load() })
	stay := h.copyReplicas(0)
	for _, r := range gone {
		delete(stay, r.id)
	}
	h.replicas.Store(&stay)
	h.listing.Unlock()
	if err := h.removeState(gone, stay); err != nil {
		return fmt.Errorf("drop partitions: %w", err)
	}
	return finish()
}

// removeState removes what replicas hold, with their metas and their records, in one batch.
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

// spansOf are the spans to remove with replicas. A table of which no replica stays goes as a whole, in one stroke; but
// not while a replica waits for its first snapshot: it may be of any table, and its rows may come in this moment,
// before it says so.
func spansOf(gone []*Replica, stay map[topology.PartitionID]*Replica) []keys.Span {
	kept, whole := map[uint32]bool{}, map[uint32]bool{}
	for _, r := range stay {
		kept[r.Table()] = true
	}
	waiting := kept[0]
	var out []keys.Span
	for _, r := range gone {
		switch table := r.Table(); {
		case table == 0: // it never had a state
		case kept[table], waiting:
			out = append(out, r.state.Load().keys)
		case !whole[table]:
			whole[table] = true
			out = append(out, keys.Span{Table: table})
		}
	}
	return out
}
