// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// withRole starts a node without HTTP on a free port, calls f with a session of a role, and closes both.
func withRole(t *testing.T, o Options, role, password string, f func(s *gocql.Session)) {
	t.Helper()
	o.CQL, o.HTTP = "127.0.0.1:0", "off"
	n, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	s, err := as(n.CQLAddr().String(), role, password)
	if err != nil {
		t.Fatalf("%s: %v", role, err)
	}
	defer s.Close()
	f(s)
}

// as connects as a role and returns the session or the error.
func as(addr, role, password string) (*gocql.Session, error) {
	cluster := gocql.NewCluster(addr)
	cluster.ConnectTimeout, cluster.Timeout = 30*time.Second, 30*time.Second
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: role, Password: password}
	return cluster.CreateSession()
}

// TestRolesSurvive checks that roles, their options, and grants exist after a restart. A table that is dropped and
// created again must have no grants. For users that the configuration lists, the configuration must have precedence.
func TestRolesSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	boss := map[string]string{"boss": hash(t, "b")}
	run := func(o options.Auth, role, password string, f func(s *gocql.Session)) {
		t.Helper()
		withRole(t, Options{Data: dir, Auth: o}, role, password, f)
	}
	must := func(s *gocql.Session, text string) {
		t.Helper()
		if err := s.Query(text).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	refused := func(s *gocql.Session, text, want string) {
		t.Helper()
		if err := s.Query(text).Exec(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	const table = "CREATE TABLE ks.t (k int PRIMARY KEY)"
	run(options.Auth{Users: boss}, "boss", "b", func(s *gocql.Session) {
		must(s, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		must(s, table)
		must(s, "CREATE ROLE app WITH PASSWORD = 'a' AND LOGIN = true")
		must(s, "CREATE ROLE admin WITH PASSWORD = 'x' AND LOGIN = true AND SUPERUSER = true")
		must(s, "CREATE ROLE nightly WITH OPTIONS = {'priority': 'low'}")
		refused(s, "ALTER ROLE nightly WITH OPTIONS = {'priority': 'urgent'}", "'low' or 'normal', not 'urgent'")
		refused(s, "ALTER ROLE nightly WITH OPTIONS = {'priority': 'low', 'x': 'y'}", "doesn't support OPTIONS")
		must(s, "GRANT SELECT ON ks.t TO app")
		refused(s, "ALTER ROLE boss WITH PASSWORD = 'x'", "is defined in the configuration")
		refused(s, "CREATE ROLE boss", "boss already exists")
	})
	run(options.Auth{Users: boss}, "app", "a", func(s *gocql.Session) {
		must(s, "SELECT * FROM ks.t")
		refused(s, "DROP TABLE ks.t", "User app has no DROP permission on <table ks.t> or any of its parents")
	})
	run(options.Auth{Roles: true}, "admin", "x", func(s *gocql.Session) {
		options := func() (out map[string]string) {
			t.Helper()
			found := map[string]any{}
			if err := s.Query("LIST ROLES OF nightly").MapScan(found); err != nil {
				t.Fatal(err)
			}
			return found["options"].(map[string]string)
		}
		if got := options(); len(got) != 1 || got["priority"] != "low" {
			t.Errorf("the options of a role of low priority are %v", got)
		}
		must(s, "ALTER ROLE nightly WITH OPTIONS = {'priority': 'normal'}")
		if got := options(); len(got) != 0 {
			t.Errorf("the options of a role of normal priority are %v", got)
		}
		must(s, "DROP TABLE ks.t")
		must(s, table)
		must(s, "DROP ROLE boss") // the configuration does not list this user
	})
	run(options.Auth{Roles: true}, "app", "a", func(s *gocql.Session) {
		refused(s, "SELECT * FROM ks.t", "User app has no SELECT permission on <table ks.t> or any of its parents")
	})
}

// TestSessionsEndWithTheirRole checks that the node closes the connections of a dropped role. If the configuration
// requires it, a password change must also close the connections of the role. Other connections must stay open.
func TestSessionsEndWithTheirRole(t *testing.T) {
	t.Parallel()
	n, err := Start(t.Context(), Options{CQL: "127.0.0.1:0", HTTP: "off",
		Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}, EndChangedLogins: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	login := func(role, password string) { // this client does not reconnect
		t.Helper()
		c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{User: role, Password: password})
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	connections := func(role string) (count int) {
		for _, c := range n.cql.Clients() {
			if c.Ready && c.User == role {
				count++
			}
		}
		return count
	}
	boss, err := as(n.CQLAddr().String(), "boss", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	must := func(text string) {
		t.Helper()
		if err := boss.Query(text).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	for _, end := range []string{"ALTER ROLE app WITH PASSWORD = 'b'", "DROP ROLE app"} {
		must("CREATE ROLE IF NOT EXISTS app WITH PASSWORD = 'a' AND LOGIN = true")
		must("ALTER ROLE app WITH PASSWORD = 'a'")
		login("app", "a")
		if connections("app") == 0 {
			t.Fatal("the role has no connection")
		}
		must(end)
		eventually.True(t, "the connections are closed", func() bool { return connections("app") == 0 })
	}
	must("LIST ROLES")
}
