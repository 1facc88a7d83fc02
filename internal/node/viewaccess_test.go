// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestViewsAreGuardedByTheirBase checks that a role can read a view if and only if it can read the base table. The
// same must apply to the role that created the view. As in Cassandra 5.0.5, reading values that are masked in the base
// requires UNMASK on the view.
func TestViewsAreGuardedByTheirBase(t *testing.T) {
	t.Parallel()
	masking := true
	n := startTestNode(t, Options{Masking: &masking,
		Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}, Roles: true}})
	boss := newClientAs(t, n, "boss")
	for _, stmt := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int, w text MASKED WITH DEFAULT)",
		"CREATE ROLE maker WITH LOGIN = true AND PASSWORD = 'm'", "GRANT ALTER ON ks.t TO maker",
		"INSERT INTO ks.t (k, v, w) VALUES (1, 2, 'secret')",
	} {
		boss.query(stmt)
	}
	maker := newClientAs(t, n, "maker")
	maker.query("CREATE MATERIALIZED VIEW ks.m AS SELECT k, v, w FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL " +
		"PRIMARY KEY (v, k)")
	eventually.True(t, "the view is built", func() bool { return boss.query("SELECT v FROM ks.m").RowCount == 1 })
	_, err := maker.tryQuery("SELECT w FROM ks.m")
	if err == nil || !strings.Contains(err.Error(), "SELECT permission on <table ks.t>") {
		t.Errorf("without SELECT on the base: %v", err)
	}
	boss.query("GRANT SELECT ON ks.t TO maker")
	read := func() string {
		r := maker.query("SELECT w FROM ks.m WHERE v = 2")
		if r.RowCount != 1 {
			t.Errorf("%d rows, want 1", r.RowCount)
		}
		return string(r.Cells)
	}
	if got := read(); strings.Contains(got, "secret") {
		t.Errorf("a mask of the base table does not apply to the view: %q", got)
	}
	boss.query("GRANT UNMASK ON ks.t TO maker")
	if got := read(); strings.Contains(got, "secret") {
		t.Errorf("UNMASK on the base table applies to the view: %q", got)
	}
	boss.query("GRANT UNMASK ON ks.m TO maker")
	if got := read(); !strings.Contains(got, "secret") {
		t.Errorf("UNMASK on the view has no effect: %q", got)
	}
}
