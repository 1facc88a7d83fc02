// SPDX-License-Identifier: Apache-2.0

package node

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// What a kill between the steps of a schema change leaves behind is removed at the next start: a partition whose table is not in the
// map, and the entries of an index that is not in the schema.
func TestOrphans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	run := func() {
		t.Helper()
		n, err := Start(t.Context(), Options{Data: dir, CQL: "127.0.0.1:0", HTTP: "off"})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *storage.Store {
		t.Helper()
		s, err := storage.Open(vfs.Default, dir, storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const table, index = keys.FirstTable + 5000, keys.FirstTable + 5001
	run()
	s := open()
	host, err := partition.Open(partition.Stored{Store: s}, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := host.Len()
	if err := host.Create(&topology.Partition{ID: 999, Table: table, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(command.Mutation{Table: table, Key: []byte("k"), Timestamp: 1, Ops: []command.Op{{Kind: command.OpIndex, Index: index, Value: []byte("v")}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	run()
	s = open()
	defer s.Close()
	left, err := s.Indexes()
	if err != nil || len(left) != 0 {
		t.Errorf("indexes with entries: %v (%v)", left, err)
	}
	if host, err = partition.Open(partition.Stored{Store: s}, partition.Options{}); err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if host.Len() != before {
		t.Errorf("%d partitions, want %d", host.Len(), before)
	}
}
