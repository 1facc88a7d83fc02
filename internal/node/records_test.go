// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// TestRecordsBeforeKeeper checks that records which come after the keeper has read them and before it can be told are
// read again: at a start the replica of the meta partition catches up at that moment.
func TestRecordsBeforeKeeper(t *testing.T) {
	version := uint64(4)
	k, err := meta.New(func(func(key, value []byte) error) (uint64, error) { return version, nil }, nil, meta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	c := &cluster{n: &Node{}}
	o := c.options()
	version = 5
	o.RecordsPut(5, nil)
	o.RecordsChanged(5)
	c.attachKeeper(k)
	if _, err := k.Wait(t.Context(), 5); err != nil {
		t.Error(err)
	}
}

// TestNoChangeFromNothing checks that a node proposes nothing that it made of no records at all, also where they come
// while it proposes: to expect version 0 is to expect none, and the map of the whole cluster would be replaced.
func TestNoChangeFromNothing(t *testing.T) {
	a := clusterNode(t, nil, Options{})
	before := a.metadata.State().Version
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := a.cluster.change(ctx,
		command.Records{Put: []command.Record{{Key: []byte("x"), Value: []byte("y")}}}); err == nil {
		t.Error("a change of anything is taken")
	}
	if after := a.metadata.State().Version; after != before {
		t.Errorf("version %d became %d", before, after)
	}
}

// TestStopBeforeRecords checks that a node which was taken into a cluster, and stopped before the records came, waits
// for them when it starts again and shows clients no empty database.
func TestStopBeforeRecords(t *testing.T) {
	a := clusterNode(t, nil, Options{})
	dir := t.TempDir()
	s, err := storage.Open(vfs.Default, dir,
		storage.Options{Identity: storage.Identity{Cluster: a.store.Identity().Cluster, Node: [16]byte{7}}})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	b.PutReplica(&keys.Replica{Partition: uint64(topology.MetaPartition), Replica: 99})
	if err := errors.Join(b.Commit(), s.Sync(), s.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o := Options{Data: dir, CQL: "127.0.0.1:0", HTTP: "off"}
	o.Memory.Budget = 256 << 20
	o.Cluster.Internal, o.Cluster.Join = "127.0.0.1:0", []string{a.internalAddr()}
	o.Cluster.JoinSecretFile = a.opts.Cluster.JoinSecretFile
	n, err := Start(ctx, o)
	if err == nil {
		t.Error("it serves without any records", n.Close())
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
