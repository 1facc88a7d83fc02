// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestReplicationInACluster checks that a cluster accepts any replication. A client that declares a different
// replication must receive a warning. DESCRIBE must return the declared replication.
func TestReplicationInACluster(t *testing.T) {
	info := catalog.NodeInfo{
		Endpoint: catalog.Endpoint{HostID: schema.UUID{1}, Datacenter: "west",
			RPC: netip.MustParseAddrPort("10.0.0.1:9042"), Tokens: []token.Token{1}},
		Peers: []catalog.Endpoint{{HostID: schema.UUID{2}, Datacenter: "west",
			RPC: netip.MustParseAddrPort("10.0.0.2:9042"), Tokens: []token.Token{2}}},
	}
	c := catalog.New(schema.New(), func() catalog.NodeInfo { return info })
	e := New(c, &memoryStore{catalog: c}, Options{})
	execute := func(text string) (*Rows, []string) {
		t.Helper()
		stmt, _, err := parser.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := stmt.(*parser.Describe); ok {
			rows, err := e.Describe(d, "")
			if err != nil {
				t.Fatal(err)
			}
			return rows, nil
		}
		r, err := e.Execute(context.Background(), stmt, "", Actor{}, nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return nil, r.Warnings
	}
	warning := func(n, quorum string) string {
		return "The replication of keyspace ks is ignored: every table has " + n + " replicas, and " + quorum +
			" must acknowledge a write. DESCRIBE shows the declared replication"
	}
	for _, test := range []struct {
		replication string
		replicas    int
		want        string
	}{
		{"{'class': 'SimpleStrategy', 'replication_factor': '1'}", 4, warning("4", "3")},
		{"{'class': 'SimpleStrategy', 'replication_factor': '3'}", 4, warning("4", "3")},
		{"{'class': 'SimpleStrategy', 'replication_factor': '4'}", 4, ""},
		{"{'class': 'SimpleStrategy', 'replication_factor': '9'}", 4, warning("4", "3")},
		{"{'class': 'NetworkTopologyStrategy', 'west': '4'}", 4, ""},
		{"{'class': 'NetworkTopologyStrategy', 'west': '3'}", 4, warning("4", "3")},
		{"{'class': 'NetworkTopologyStrategy', 'west': '3'}", 3, ""},
		{"{'class': 'SimpleStrategy', 'replication_factor': '4'}", 3, warning("3", "2")},
		{"{'class': 'NetworkTopologyStrategy', 'eu': '2', 'us-east': '3'}", 3,
			warning("3", "2") + "; No node is in eu, us-east: the replication declared for them has no effect"},
		{"{'class': 'NetworkTopologyStrategy', 'east': '2', 'west': '4'}", 4,
			"No node is in east: the replication declared for it has no effect"},
	} {
		info.EffectiveReplication = test.replicas
		for _, verb := range []string{"CREATE", "ALTER"} {
			_, warnings := execute(verb + " KEYSPACE ks WITH replication = " + test.replication +
				" AND durable_writes = " + map[string]string{"CREATE": "true", "ALTER": "false"}[verb])
			if got := strings.Join(warnings, "; "); got != test.want {
				t.Errorf("%s %s with %d replicas: %q, want %q", verb, test.replication, test.replicas, got, test.want)
			}
		}
		if _, warnings := execute("ALTER KEYSPACE ks WITH durable_writes = true"); len(warnings) > 0 {
			t.Errorf("an ALTER of something else: %q", warnings)
		}
		rows, _ := execute("DESCRIBE KEYSPACE ks")
		if got := string(rows.Rows[0][3]); !strings.Contains(got, "replication = "+test.replication) {
			t.Errorf("described as %s, declared as %s", got, test.replication)
		}
		execute("DROP KEYSPACE ks")
	}
}
