// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestOrphans checks that a node removes the remains of an interrupted schema change at startup. The remains are a
// partition whose table is not in the partition map, and the entries of an index that is not in the schema.
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
	if err := s.Apply(command.Mutation{Table: table, Key: []byte("k"), Timestamp: 1,
		Ops: []command.Op{{Kind: command.OpIndex, Index: index, Value: []byte("v")}}}); err != nil {
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

// TestBuildOfChangedTable checks that an index build uses the current table after an ALTER TABLE. A build whose index
// or table has been dropped must end without leaving entries.
func TestBuildOfChangedTable(t *testing.T) {
	n, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off", InitialPartitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do := func(statements ...string) {
		t.Helper()
		for _, q := range statements {
			if _, err := c.Query(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	do("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	for i := range 20 {
		do(fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, 1)", i))
	}
	do("CREATE INDEX i ON k.t (v)")
	table := n.catalog.Snapshot().Table("k", "t")
	old := table.Indexes["i"].ID
	entries := func() int {
		t.Helper()
		found, err := n.store.Indexes()
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if entries() != 1 {
		t.Fatal("the index has no entries")
	}
	rebuild := func() {
		t.Helper()
		if err := n.store.DropIndex(old); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { n.builder.Build(t.Context(), old); close(done) }()
		select {
		case <-done:
		case <-time.After(eventually.Limit):
			t.Fatal("the build does not end")
		}
	}
	do("ALTER TABLE k.t ADD x text")
	rebuild()
	if r, err := c.Query("SELECT k FROM k.t WHERE v = 1"); err != nil || r.RowCount != 20 {
		t.Errorf("after ALTER the index finds %v (%v)", r, err)
	}
	do("DROP INDEX k.i")
	rebuild()
	if entries() != 0 {
		t.Error("the build of a dropped index left entries")
	}
	do("DROP TABLE k.t")
	rebuild()
	if entries() != 0 {
		t.Error("the build of a dropped table's index left entries")
	}
}

// TestRestoredRowsHaveEntries checks an index that a client creates after a restore has started. The index must find
// the rows that the restore writes.
func TestRestoredRowsHaveEntries(t *testing.T) {
	n := startTestNode(t, Options{InitialPartitions: 4})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	c.query("CREATE INDEX IF NOT EXISTS i ON k.t (v)")
	table := n.catalog.Snapshot().Table("k", "t")
	eventually.True(t, "the index is built", func() bool { return !n.builder.Building(table.Indexes["i"]) })
	var file archive.Builder
	var places [][]byte
	for i := range 50 {
		key := binary.BigEndian.AppendUint32(nil, uint32(i))
		place := append(keys.AppendPartition(nil, table.ID, table.Token(key), key), keys.Row)
		places = append(places, place[4:]) // a file stores keys without their table ID
	}
	slices.SortFunc(places, bytes.Compare)
	var b row.Builder
	b.Reset(1)
	b.Live(0, row.NoExpiry)
	b.Cell(table.Column("v").ID, nil, []byte{0, 0, 0, 1}, 0, row.NoExpiry)
	operand := b.Append(nil)
	for _, place := range places {
		if err := file.Add(place, operand); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.newRestorer().WriteRows(t.Context(), table.ID, file.Plain()); err != nil {
		t.Fatal(err)
	}
	if rows := c.query("SELECT k FROM k.t WHERE v = 1").RowCount; rows != 50 {
		t.Errorf("the index finds %d of 50 rows", rows)
	}
}

// TestDropIndexDuringRead checks that a read that uses an index fails with ErrStaleSchema if the index is dropped
// during the read. The session must then plan the read again without the index. A read that was planned before the
// drop must fail in the same way.
func TestDropIndexDuringRead(t *testing.T) {
	n, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off", InitialPartitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do := func(statements ...string) {
		t.Helper()
		for _, q := range statements {
			if _, err := c.Query(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	do("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE k.t (k int PRIMARY KEY, v int)", "CREATE INDEX i ON k.t (v)")
	for i := range 100 {
		do(fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, 1)", i))
	}
	table := n.catalog.Snapshot().Table("k", "t")
	read := &command.Read{Table: table.ID, Level: dberr.Quorum, Now: time.Now().Unix(),
		Index: &command.IndexLookup{Index: table.Indexes["i"].ID, Value: []byte{0, 0, 0, 1}}}
	v := &dropping{drop: func() { do("DROP INDEX k.i") }}
	if err := n.coordinator.Read(t.Context(), read, v); !errors.Is(err, coordinator.ErrStaleSchema) {
		t.Errorf("the read ends with %v after %d rows", err, v.rows)
	}
	if err := n.coordinator.Read(t.Context(), read, v); !errors.Is(err, coordinator.ErrStaleSchema) {
		t.Errorf("a read that was planned before the index was dropped ends with %v", err)
	}
}

// dropping is a visitor that drops an index before the first row.
type dropping struct {
	drop func()
	rows int
}

func (d *dropping) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	if d.drop != nil {
		d.drop()
		d.drop = nil
	}
	return command.More, nil
}

func (d *dropping) Row([]byte, *row.Row) (command.Step, error) {
	d.rows++
	return command.More, nil
}

// TestSystemTablesAreSwept checks that the store knows the stored tables that exist in every schema. Otherwise, the
// store would not find and sweep their deleted rows.
func TestSystemTablesAreSwept(t *testing.T) {
	n, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	long := time.Now().AddDate(-1, 0, 0)
	var b row.Builder
	b.Reset(long.UnixMicro())
	b.DeleteRow(long.Unix())
	deleted := command.Mutation{Table: catalog.BatchesID, Key: []byte("0123456789abcdef"), Timestamp: long.UnixMicro(),
		Ops: []command.Op{{Operand: b.Bytes()}}}
	var g storage.Garbage
	for range 10 { // The node also sweeps, and may do so before the test. After a sweep, it pauses for seconds.
		if err := n.store.Apply(deleted); err != nil {
			t.Fatal(err)
		}
		span := keys.Span{Table: catalog.BatchesID}
		g, err = n.store.FindGarbage(t.Context(), span, nil, time.Now().Unix(), 3600, 100)
		if err != nil || len(g.Sweeps) > 0 {
			break
		}
	}
	if err != nil || len(g.Sweeps) == 0 {
		t.Errorf("%+v, %v", g, err)
	}
}
