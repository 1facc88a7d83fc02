// SPDX-License-Identifier: Apache-2.0

//go:build integration

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

// TestRecordsBeforeKeeper checks records that arrive after the keeper has read the records and before it receives
// notifications. The keeper must read them again. When a node starts, the replica of the meta partition catches up at
// that point.
func TestRecordsBeforeKeeper(t *testing.T) {
	version := uint64(4)
	k, err := meta.New(func(func(key, value []byte) error) (uint64, error) { return version, nil }, nil, meta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	c := &cluster{n: &Node{}}
	o := c.options().Observer
	version = 5
	o.RecordsPut(5, nil)
	o.RecordsChanged(5)
	c.attachKeeper(k)
	if _, err := k.Wait(t.Context(), 5); err != nil {
		t.Error(err)
	}
}

// TestNoChangeFromNothing checks that a node does not propose a change that it computed without records. The records
// may arrive during the proposal. The expected version 0 would mean that no records exist. The change would then
// replace the partition map of the whole cluster.
func TestNoChangeFromNothing(t *testing.T) {
	a := clusterNode(t, nil, Options{})
	before := a.metadata.State().Version
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := a.cluster.change(ctx,
		command.Records{Put: []command.Record{{Key: []byte("x"), Value: []byte("y")}}}); err == nil {
		t.Error("a change without records was accepted")
	}
	if after := a.metadata.State().Version; after != before {
		t.Errorf("the version changed from %d to %d", before, after)
	}
}

// TestStopBeforeRecords checks a node that joined a cluster and stopped before it received the records. When it starts
// again, it must wait for the records instead of serving an empty database.
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
	o.Cluster.Internal, o.Cluster.Join = "127.0.0.1:0", []string{a.InternalAddr()}
	o.Cluster.JoinSecretFile = a.opts.Cluster.JoinSecretFile
	n, err := Start(ctx, o)
	if err == nil {
		t.Error("the node serves without records", n.Close())
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
