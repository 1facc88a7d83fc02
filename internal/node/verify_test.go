// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// TestVerifyOrders checks that a request to verify a view or index that does not exist is rejected with the reason.
// Views and indexes that are being built are rejected too, because rows that the build has not reached would appear as
// differences.
func TestVerifyOrders(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE vo WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE vo.t (k int PRIMARY KEY, v int)")
	c.query("CREATE INDEX i ON vo.t (v)")
	c.query("CREATE MATERIALIZED VIEW vo.m AS SELECT * FROM vo.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)")
	for _, r := range []struct{ kind, name, want string }{
		{"view", "m", "m names no view: give its keyspace, too, as in ks.name"},
		{"view", "nowhere.m", "there is no keyspace nowhere whose views and indexes can be verified"},
		{"index", "system.i", "there is no keyspace system whose views and indexes can be verified"},
		{"view", "vo.t", "there is no view vo.t"},
		{"view", "vo.i", "there is no view vo.i"},
		{"index", "vo.m", "there is no index vo.m"},
		{"index", "vo.view/m", "there is no index vo.view/m"},
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

// allBuilding reports that all indexes are being built.
type allBuilding struct{}

func (allBuilding) Building(*schema.Index) bool { return true }
