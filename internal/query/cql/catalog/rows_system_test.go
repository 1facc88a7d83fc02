// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"net/netip"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestClients checks that system_views.clients contains the role, the keyspace, and the STARTUP options of a client.
func TestClients(t *testing.T) {
	s := WithSystemOf(compat.Cassandra50, schema.New())
	table := s.Table("system_views", "clients")
	shown := func(c Client) map[string]string {
		c.Remote = netip.MustParseAddrPort("10.0.0.1:5000")
		info := testInfo()
		info.Release, info.Diagnostics = compat.Cassandra50, testDiagnostics{[]Client{c}}
		out := map[string]string{}
		for _, r := range Rows(context.Background(), table, s, &info, nil) {
			for _, cell := range r.Cells {
				for c := range table.Columns() {
					if c.ID == cell.Column {
						out[c.Name] = c.Type.Text(cell.Value)
					}
				}
			}
		}
		return out
	}
	got := shown(Client{User: "app", Keyspace: "ks", Options: map[string]string{"CQL_VERSION": "3.0.0"}})
	for column, want := range map[string]string{"username": "app", "keyspace_name": "ks",
		"client_options": "{'CQL_VERSION': '3.0.0'}"} {
		if got[column] != want {
			t.Errorf("%s is %q, want %q", column, got[column], want)
		}
	}
	got = shown(Client{})
	if _, has := got["keyspace_name"]; has || got["username"] != "anonymous" {
		t.Errorf("a client that nobody asked for its name is shown as %v", got)
	}
}

// TestScyllaKeyspaces checks that user keyspaces are listed as keyspaces with tablets only in a cluster.
func TestScyllaKeyspaces(t *testing.T) {
	s := WithSystemOf(compat.Cassandra50, testSchema(t))
	table := s.Table("system_schema", "scylla_keyspaces")
	info := testInfo()
	if rows := Rows(context.Background(), table, s, &info, nil); len(rows) > 0 {
		t.Errorf("a single node shows %d keyspaces", len(rows))
	}
	info.EffectiveReplication = 4
	rows := Rows(context.Background(), table, s, &info, nil)
	if len(rows) != 1 || string(rows[0].Key) != "ks" {
		t.Errorf("a cluster shows %v", rows)
	}
}
