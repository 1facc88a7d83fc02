// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// TestBuildTooEarly proves that an index is not taken for dropped, and so for built, by a look between the moment when the records have it and the
// moment when the catalog does.
func TestBuildTooEarly(t *testing.T) {
	n := startNode(t, Options{})
	c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do := func(text string) {
		t.Helper()
		if _, err := c.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	do("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	do("INSERT INTO ks.t (k, v) VALUES (1, 1)")
	before := n.catalog.Snapshot()
	n.builder.close() // the builder of this test is another one
	do("CREATE INDEX ON ks.t (v)")
	b := newIndexBuilder(n.records, n.coordinator, n.catalog.Snapshot, n.log)
	defer b.close()
	b.require = n.require
	if len(n.records.State().Building) != 1 {
		t.Fatalf("%d indexes are to be built", len(n.records.State().Building))
	}
	for id := range n.records.State().Building {
		b.schema = func() *schema.Schema { return before }
		b.build(id)
		if !n.records.State().Building[id] {
			t.Error("an index that was not built counts as built")
		}
		b.schema = n.catalog.Snapshot
		b.build(id)
		if n.records.State().Building[id] {
			t.Error("the index was not built")
		}
	}
	r, err := c.Query("SELECT k FROM ks.t WHERE v = 1")
	if err != nil || r.RowCount != 1 {
		t.Errorf("the index finds %v, %v", r, err)
	}
}
