// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// hookedStore calls reads before each read. It calls installed when the rows of a snapshot have replaced other rows,
// before any other component is notified.
type hookedStore struct {
	Store
	reads, installed atomic.Pointer[func()]
}

func (s *hookedStore) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	if hook := s.reads.Swap(nil); hook != nil {
		(*hook)()
	}
	return s.Store.Read(ctx, c, v)
}

func (s *hookedStore) InstallSnapshot(ctx context.Context, own keys.Span, r io.Reader, change func(*keys.Meta) error,
	absorbed ...uint64) error {
	err := s.Store.InstallSnapshot(ctx, own, r, change, absorbed...)
	if hook := s.installed.Swap(nil); hook != nil {
		(*hook)()
	}
	return err
}

// TestInstallationSpoilsReads checks reads of a follower during the installation of a snapshot that follows a split.
// The installation removes the rows of the right half before the replica has its narrower span. Reads that began before
// or during the installation must be rejected, because they would not find acknowledged values.
func TestInstallationSpoilsReads(t *testing.T) {
	w := newTestCluster(t, 3)
	const away = 2
	store := &hookedStore{}
	w.stop(away)
	w.nodes[away].staleness = time.Hour // do not reject reads because of the elapsed time
	w.nodes[away].around = func(s Store) Store {
		store.Store = s
		return store
	}
	w.start(away)
	p := w.newTable(0, 1, away)
	w.lead(p.ID, 0)
	key := rightKey()
	if err := w.write(p.ID, key, 1); err != nil {
		t.Fatal(err)
	}
	r := w.replica(away, p.ID)
	has := func(level dberr.Consistency) (int64, error) {
		v, _, err := getBy(t.Context(), r.ReadHere, key, level)
		return v, err
	}
	for _, level := range []dberr.Consistency{dberr.One, dberr.Quorum} {
		w.until("the follower serves reads", func() bool { v, err := has(level); return err == nil && v == 1 })
	}

	refused := func(when string, level dberr.Consistency, v int64, err error) {
		var moved *NotLeader
		if !errors.As(err, &moved) {
			t.Errorf("a read at %v %s the installation: %d (%v)", level, when, v, err)
		}
	}
	admitted, overtaken, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	hook := func() { close(admitted); <-overtaken }
	store.reads.Store(&hook)
	go func() {
		defer close(done)
		v, err := has(dberr.Quorum)
		refused("before", dberr.Quorum, v, err)
	}()
	<-admitted
	w.isolate(away, true)
	w.split(p.ID, splitAt(halfway, childID, 0, 1, away))
	for n := range 300 { // the log is truncated after the split
		if err := w.write(p.ID, leftKey(), int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	amid := make(chan struct{})
	hook2 := func() {
		defer close(amid)
		close(overtaken)
		<-done
		v, err := has(dberr.One)
		refused("amid", dberr.One, v, err)
	}
	store.installed.Store(&hook2)
	w.isolate(away, false)
	<-amid
	w.same(p.ID, 0, 1, away)
}

// TestSnapshotOverOthers checks that a snapshot is rejected if it would remove rows of another partition, or if it
// lacks rows that its partition must have. The check must also be made when an accepted snapshot is installed.
func TestSnapshotOverOthers(t *testing.T) {
	w := newTestCluster(t, 2)
	ps := w.table(3, 0).Partitions(testTable)
	sender, receiver := w.nodes[0].host.Load(), w.nodes[1].host.Load()
	// here also creates a replica of a partition on the other node, as if that node had not received the first change.
	here := func(p *topology.Partition) {
		t.Helper()
		other := *p
		other.Sets = []topology.ReplicaSet{{Region: "here", Replicas: []topology.Replica{{ID: 7, Node: nodeID(1)}}}}
		if err := receiver.Create(&other); err != nil {
			t.Fatal(err)
		}
	}
	of := func(h *Host, i int) *snapshots {
		return &snapshots{ReplicaSets: h.ReplicaSets(), store: w.nodes[i].store}
	}
	from, to := of(sender, 0), of(receiver, 1)
	receive := func(id topology.PartitionID) (*pb.SnapshotMetadata, raftgroup.SnapshotData, error) {
		t.Helper()
		about, data, err := from.Snapshot(uint64(id))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = data.Close() }()
		in, err := to.Receive(uint64(id), io.NewSectionReader(data, 0, data.Size()))
		return about, in, err
	}
	refused := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := sender.Create(ps...); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		w.leader(p.ID)
	}
	r := w.replica(0, ps[0].ID)

	// After a split, the other node has the first partition in its state before the split.
	half := []byte{0x20, 0, 0, 0, 0, 0, 0, 0}
	if err := r.Control().Split(t.Context(), keys.InitialEpoch, splitAt(half, childID, 0)); err != nil {
		t.Fatal(err)
	}
	about, data, err := receive(childID)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Join(childID, 100); err != nil {
		t.Fatal(err)
	}
	here(ps[0])
	refused("installed over its parent", to.Install(uint64(childID), about, data), storage.ErrOverlap)
	if err := data.Close(); err != nil {
		t.Error(err)
	}
	_, _, err = receive(childID)
	refused("received beside its parent", err, errSnapshot)

	// After a merge, the other node has the first and the last of three partitions that have been merged.
	here(ps[2])
	w.leader(childID)
	for n, right := range []topology.PartitionID{childID, ps[1].ID, ps[2].ID} {
		other := w.replica(0, right)
		_, epoch := other.Span()
		if err := other.Control().Freeze(t.Context(), epoch); err != nil {
			t.Fatal(err)
		}
		if err := r.Control().Merge(t.Context(), keys.InitialEpoch+1+uint64(n), &command.Merge{Right: uint64(right),
			Frozen: other.Frozen(), RightEpoch: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = receive(ps[0].ID)
	refused("received with a part missing", err, errSnapshot)
}

// leftKey and rightKey are keys in the left and right halves of the ring.
func leftKey() string  { return keyIn(0) }
func rightKey() string { return keyIn(1) }

func keyIn(half uint64) string {
	for n := 0; ; n++ {
		if key := fmt.Sprint("key ", n); token.Hash([]byte(key)).Position()>>63 == half {
			return key
		}
	}
}
