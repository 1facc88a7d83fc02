// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// errSnapshot rejects a snapshot that conflicts with the state of this node.
var errSnapshot = errors.New("the snapshot does not match the replica")

// snapshots implements raftgroup.SnapshotStore.
type snapshots struct {
	*ReplicaSets
	store snapshotStore
	// incoming holds the received snapshots that have been neither installed nor discarded. mu guards incoming.
	// Invariant: no incoming snapshot overlaps a replica or a snapshot of another partition.
	mu       sync.Mutex
	incoming []*incomingSnapshot
}

// incomingSnapshot is a received snapshot that reserves its span until it is closed.
type incomingSnapshot struct {
	raftgroup.SnapshotData
	s    *snapshots
	meta keys.Meta
	span topology.Span
}

// Close implements raftgroup.SnapshotData.
func (c *incomingSnapshot) Close() error {
	c.s.mu.Lock()
	c.s.incoming = slices.DeleteFunc(c.s.incoming, func(other *incomingSnapshot) bool { return other == c })
	c.s.mu.Unlock()
	return c.SnapshotData.Close()
}

// Snapshot implements raftgroup.SnapshotStore.
func (s *snapshots) Snapshot(group uint64) (*pb.SnapshotMetadata, raftgroup.SnapshotData, error) {
	data, err := s.store.CaptureSnapshot(s.ctx, group)
	if err != nil {
		return nil, nil, err
	}
	m := data.Meta()
	return &pb.SnapshotMetadata{Index: &m.Applied, Term: &m.Term, ConfState: confOf(&m)}, data, nil
}

// Receive implements raftgroup.SnapshotStore. It rejects a snapshot that this node cannot install, because an error
// during the installation would stop the node.
func (s *snapshots) Receive(group uint64, r io.Reader) (raftgroup.SnapshotData, error) {
	data, err := s.store.ReceiveSnapshot(s.ctx, r)
	if err != nil {
		return nil, err
	}
	c := &incomingSnapshot{SnapshotData: data, s: s, meta: data.Meta()}
	if err := s.expect(group, c); err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return c, nil
}

// expect accepts a snapshot if it does not conflict with local replicas and other incoming snapshots.
func (s *snapshots) expect(group uint64, c *incomingSnapshot) (err error) {
	if c.span, err = topology.SpanOf(c.meta.Span); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.incoming {
		if o.meta.Partition != group && o.meta.Span.Table == c.meta.Span.Table && o.span.Overlaps(c.span) {
			return fmt.Errorf("%w: %s overlaps that of partition %d, %s", errSnapshot, c.span, o.meta.Partition, o.span)
		}
	}
	if err = s.fits(group, &c.meta); err == nil {
		s.incoming = append(s.incoming, c)
	}
	return err
}

// fits checks that a snapshot belongs to the group, overlaps no other replica on the node, and replaces a contiguous
// span.
func (s *snapshots) fits(group uint64, meta *keys.Meta) error {
	if meta.Partition != group {
		return fmt.Errorf("%w: it belongs to partition %d, not %d", errSnapshot, meta.Partition, group)
	}
	span, err := topology.SpanOf(meta.Span)
	if err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	for id, r := range *s.host.replicas.Load() {
		if o := r.state.Load(); id != topology.PartitionID(group) && o.keys.Table == meta.Span.Table &&
			o.span.Overlaps(span) && !isAbsorbed(meta, id) {
			return fmt.Errorf("%w: %s overlaps partition %d, %s", errSnapshot, span, id, o.span)
		}
	}
	if r := s.host.Replica(topology.PartitionID(group)); r != nil {
		_, _, err = s.replaced(r, meta)
	}
	return err
}

func isAbsorbed(meta *keys.Meta, id topology.PartitionID) bool {
	return slices.ContainsFunc(meta.Absorbed, func(a keys.Absorbed) bool { return a.Partition == uint64(id) })
}

// replaced returns the contiguous span that a snapshot replaces on this node. It consists of the span of the replica
// and the spans of the replicas in dead, which the snapshot's partition has absorbed.
func (s *snapshots) replaced(r *Replica, meta *keys.Meta) (own keys.Span, dead []*Replica, err error) {
	for id, o := range *s.host.replicas.Load() {
		if isAbsorbed(meta, id) && o.state.Load().keys.Table != 0 {
			dead = append(dead, o)
		}
	}
	begins := func(r *Replica) []byte { return r.state.Load().keys.Begin }
	slices.SortFunc(dead, func(a, b *Replica) int { return bytes.Compare(begins(a), begins(b)) })
	own = r.state.Load().keys
	for _, o := range dead {
		switch span := o.state.Load().keys; {
		case own.Table == 0:
			own = span
		case span.Table != own.Table || len(own.End) == 0 || !bytes.Equal(own.End, span.Begin):
			return own, nil, fmt.Errorf("%w: partition %d, which it has merged, still exists on this node", errSnapshot,
				o.id)
		default:
			own.End = span.End
		}
	}
	return own, dead, nil
}

// Install implements raftgroup.SnapshotStore.
func (s *snapshots) Install(group uint64, metadata *pb.SnapshotMetadata, data raftgroup.SnapshotData) error {
	m := s.of(group)
	if m == nil && s.host.retiredReplica(topology.PartitionID(group)) != nil {
		return nil
	}
	if m == nil {
		return fmt.Errorf("this node has no replica of partition %d", group)
	}
	m.installs.Add(1)
	defer m.installs.Add(1)
	var meta keys.Meta
	check := func(k *keys.Meta) error {
		if k.Applied != metadata.GetIndex() || k.Term != metadata.GetTerm() {
			return fmt.Errorf("%w: its index is %d, but its state is at %d", errSnapshot, metadata.GetIndex(),
				k.Applied)
		}
		meta = *k
		return nil // the store rejects overlaps
	}
	r := m.replica
	r.installing.Lock()
	defer r.installing.Unlock()
	if r.dead.Load() {
		return nil // another replica has taken over the span
	}
	own, dead, err := r.state.Load().keys, []*Replica(nil), error(nil)
	if c, ok := data.(*incomingSnapshot); ok {
		if own, dead, err = s.replaced(r, &c.meta); err != nil {
			return err
		}
	}
	ids := make([]uint64, 0, len(dead))
	for _, o := range dead {
		o.installing.Lock()
		defer o.installing.Unlock()
		ids = append(ids, uint64(o.id))
	}
	if len(dead) > 0 {
		s.host.listing.Lock()
		s.host.retire(dead...)
		s.host.listing.Unlock()
	}
	from := io.NewSectionReader(data, 0, data.Size())
	if err := s.store.InstallSnapshot(s.ctx, own, from, check, ids...); err != nil {
		return err
	}
	if len(dead) > 0 { // dropAbsorbed does this after a crash
		if err := s.host.removeRecords(ids); err != nil {
			return err
		}
	}
	for _, o := range dead {
		s.host.seqs.discard(o)
	}
	return r.refresh(&meta)
}
