// SPDX-License-Identifier: Apache-2.0

package partition

import (
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

// errSnapshot refuses a snapshot that does not fit what this node has.
var errSnapshot = errors.New("snapshot does not fit")

// snapshots is raftgroup's SnapshotStore.
type snapshots struct {
	*raft
	store snapshotStore
	// coming are the snapshots that were received and are not installed or thrown away yet. Invariant: none of them
	// overlaps a replica of another partition, nor a snapshot of one; mu guards them.
	mu     sync.Mutex
	coming []*coming
}

// coming is a snapshot that holds its span until it is closed: a partition as it was before a split and the child of
// that split may both be on their way.
type coming struct {
	raftgroup.SnapshotData
	s    *snapshots
	meta keys.Meta
	span topology.Span
}

// Close implements raftgroup.SnapshotData.
func (c *coming) Close() error {
	c.s.mu.Lock()
	c.s.coming = slices.DeleteFunc(c.s.coming, func(other *coming) bool { return other == c })
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

// Receive implements raftgroup.SnapshotStore. What could not be installed is refused here, for later the node would
// have to stop.
func (s *snapshots) Receive(group uint64, r io.Reader) (raftgroup.SnapshotData, error) {
	data, err := s.store.ReceiveSnapshot(s.ctx, r)
	if err != nil {
		return nil, err
	}
	c := &coming{SnapshotData: data, s: s, meta: data.Meta()}
	if err := s.expect(group, c); err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return c, nil
}

// expect lets a snapshot come that fits what is here and what comes.
func (s *snapshots) expect(group uint64, c *coming) (err error) {
	if c.span, err = topology.SpanOf(c.meta.Span); err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.coming {
		if o.meta.Partition != group && o.meta.Span.Table == c.meta.Span.Table && o.span.Overlaps(c.span) {
			return fmt.Errorf("%w: %s overlaps that of partition %d, %s", errSnapshot, c.span, o.meta.Partition, o.span)
		}
	}
	if err = s.fits(group, &c.meta); err == nil {
		s.coming = append(s.coming, c)
	}
	return err
}

// fits checks that a snapshot is of the group and overlaps no other replica of the node.
func (s *snapshots) fits(group uint64, meta *keys.Meta) error {
	if meta.Partition != group {
		return fmt.Errorf("%w: it is of partition %d, not %d", errSnapshot, meta.Partition, group)
	}
	span, err := topology.SpanOf(meta.Span)
	if err != nil {
		return fmt.Errorf("%w: %w", errSnapshot, err)
	}
	for id, r := range *s.host.replicas.Load() {
		if o := r.state.Load(); id != topology.PartitionID(group) && o.keys.Table == meta.Span.Table &&
			o.span.Overlaps(span) {
			return fmt.Errorf("%w: %s overlaps partition %d, %s", errSnapshot, span, id, o.span)
		}
	}
	return nil
}

// Install implements raftgroup.SnapshotStore. Reads of a follower that were under way find out that it happened.
func (s *snapshots) Install(group uint64, metadata *pb.SnapshotMetadata, data raftgroup.SnapshotData) error {
	m := s.of(group)
	if m == nil {
		return fmt.Errorf("partition %d has no replica here", group)
	}
	m.installs.Add(1)
	defer m.installs.Add(1)
	var meta keys.Meta
	check := func(k *keys.Meta) error {
		if k.Applied != metadata.GetIndex() || k.Term != metadata.GetTerm() {
			return fmt.Errorf("%w: it is at %d, its state at %d", errSnapshot, metadata.GetIndex(), k.Applied)
		}
		meta = *k
		return s.fits(group, k)
	}
	own := m.replica.state.Load().keys
	if err := s.store.InstallSnapshot(s.ctx, own, io.NewSectionReader(data, 0, data.Size()), check); err != nil {
		return err
	}
	return m.replica.refresh(&meta)
}
