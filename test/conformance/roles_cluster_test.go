// SPDX-License-Identifier: Apache-2.0

//go:build integration

package conformance

import (
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestRolesInACluster checks that changes of roles are effective on every node when their statement has returned. Each
// statement goes to the next node.
func TestRolesInACluster(t *testing.T) {
	t.Parallel()
	users := superusers(t)
	c := testnode.Start(t, testnode.Options{Nodes: 3, Change: func(_ int, o *options.Options) {
		o.Auth.Users = users
	}})
	var conns []*conn
	connect := func(i int, user, password string) *conn {
		t.Helper()
		n, err := dial(c.Addrs()[i])
		if err == nil {
			err = n.login(user, password)
		}
		if err != nil {
			t.Fatalf("%s at node %d: %v", user, i, err)
		}
		t.Cleanup(func() { n.c.Close() })
		return n
	}
	for i := range 3 {
		conns = append(conns, connect(i, superuser, superuser))
	}
	must := func(i int, cql string) {
		t.Helper()
		if a, err := conns[i].query(cql); err != nil || a.Kind == "error" {
			t.Fatalf("%s at node %d: %v, %s", cql, i, err, a.Message)
		}
	}
	must(0, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	must(1, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	must(2, "CREATE ROLE app WITH PASSWORD = 'a' AND LOGIN = true")
	var apps []*conn
	for i := range 3 {
		apps = append(apps, connect(i, "app", "a"))
	}
	read := func(want string) {
		t.Helper()
		for i := range 3 {
			if a, err := apps[i].query("SELECT * FROM ks.t"); err != nil || a.Message != want {
				t.Errorf("node %d: %v, %q, want %q", i, err, a.Message, want)
			}
		}
	}
	const denied = "User app has no SELECT permission on <table ks.t> or any of its parents"
	read(denied)
	for i := range 9 {
		must(i%3, "GRANT SELECT ON ks.t TO app")
		read("")
		must((i+1)%3, "REVOKE SELECT ON ks.t FROM app")
		read(denied)
	}
	must(0, "GRANT SELECT ON ks.t TO app")
	must(1, "DROP TABLE ks.t")
	must(2, "CREATE TABLE ks.t (k int PRIMARY KEY)")
	read(denied)
	must(1, "DROP ROLE app") // ends the connections of the role
	for i := range apps {
		if a, err := apps[i].query("SELECT * FROM ks.t"); err == nil && a.Kind != "error" {
			t.Errorf("node %d serves a dropped role", i)
		}
	}
}
