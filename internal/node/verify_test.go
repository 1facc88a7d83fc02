// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// TestVerifyOrders checks that a request to verify a view or index that does not exist is rejected with the reason.
// Requests for views and indexes that are being built must also be rejected. Otherwise, rows that the build has not
// reached would appear as differences.
func TestVerifyOrders(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE vo WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE vo.t (k int PRIMARY KEY, v int)")
	c.query("CREATE INDEX i ON vo.t (v)")
	c.query("CREATE MATERIALIZED VIEW vo.m AS SELECT * FROM vo.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
	for _, r := range []struct{ kind, name, want string }{
		{"view", "m", "invalid view name m: specify the keyspace, as in ks.name"},
		{"view", "nowhere.m", "keyspace nowhere does not exist or is a system keyspace"},
		{"index", "system.i", "keyspace system does not exist or is a system keyspace"},
		{"view", "vo.t", "view vo.t does not exist"},
		{"view", "vo.i", "view vo.i does not exist"},
		{"index", "vo.m", "index vo.m does not exist"},
		{"index", "vo.view/m", "index vo.view/m does not exist"},
	} {
		_, err := n.pageVerifier().Verify(t.Context(), view.VerifyRequest{Kind: r.kind, Name: r.name, Rows: 1})
		if err == nil || err.Error() != r.want {
			t.Errorf("%s %s: %v, want %s", r.kind, r.name, err, r.want)
		}
	}
	building := n.pageVerifier()
	building.Builds = allBuilding{}
	for kind, name := range map[string]string{"view": "vo.m", "index": "vo.i"} {
		o := view.VerifyRequest{Kind: kind, Name: name, Rows: 1}
		if _, err := n.pageVerifier().Verify(t.Context(), o); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := building.Verify(t.Context(), o); err == nil || !strings.Contains(err.Error(), "being built") {
			t.Errorf("%s that is being built: %v", kind, err)
		}
	}
}

// allBuilding reports all indexes as being built.
type allBuilding struct{}

func (allBuilding) Building(*schema.Index) bool { return true }
