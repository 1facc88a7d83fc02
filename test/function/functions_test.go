// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package function tests user-defined functions and aggregates on nodes and clusters in this process.
package function

import (
	"errors"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// startCluster starts a cluster of three nodes with the user boss, whose password is b.
func startCluster(t *testing.T) *testnode.Cluster {
	t.Helper()
	users := testnode.User(t, "boss", "b")
	return testnode.Start(t, testnode.Options{Nodes: 3, Change: func(_ int, o *options.Options) {
		o.Auth.Users = users
	}})
}

// TestFunctions checks user-defined functions and aggregates end to end on two nodes of a cluster. Functions of both
// languages are created through one node. Clients call the functions through the other node, with paging and in all
// positions that allow a value. Earlier prepared statements must use a replaced function, and must fail after it has
// been dropped. A hostile body must end only its own statement.
func TestFunctions(t *testing.T) {
	c := startCluster(t)
	one, two := testnode.Driver(t, c.CQL(0), "boss", "b"), testnode.Driver(t, c.CQL(1), "boss", "b")
	exec := func(s *gocql.Session, text string, args ...any) {
		t.Helper()
		if err := s.Query(text, args...).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	one.Query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec()
	for _, text := range []string{
		"CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
		"CREATE FUNCTION ks.twice (x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS 'return x * 2;'",
		"CREATE FUNCTION ks.half (x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE javascript AS 'x / 2'",
		"CREATE FUNCTION ks.plus (s bigint, x int) CALLED ON NULL INPUT RETURNS bigint LANGUAGE java " +
			"AS 'return x == null ? s : s + x;'",
		"CREATE AGGREGATE ks.total (int) SFUNC plus STYPE bigint INITCOND 0",
		"CREATE FUNCTION ks.endless (x int) CALLED ON NULL INPUT RETURNS int LANGUAGE javascript AS 'while (true) { }'",
		"CREATE FUNCTION ks.large (x int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS " +
			"'String s = \"ab\"; while (true) { s += s; }'",
	} {
		exec(one, text)
	}
	for k := range 3 {
		for c := range 10 {
			exec(two, "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ks.twice(?))", k, c, c)
		}
	}
	exec(two, "UPDATE ks.t SET v = ks.half(200) WHERE k = ks.half(4) AND c = 9 IF v = ks.twice(9)")
	exec(two, "BEGIN BATCH UPDATE ks.t SET v = ks.twice(50) WHERE k = 1 AND c = 9 APPLY BATCH")
	var total int64
	if err := two.Query("SELECT ks.total(ks.half(v)) FROM ks.t WHERE k = 0").Scan(&total); err != nil || total != 45 {
		t.Errorf("the total is %d, %v", total, err)
	}
	iter := two.Query("SELECT k, ks.total(v) FROM ks.t GROUP BY k").PageSize(1).Iter()
	var k int
	var sum int64
	for iter.Scan(&k, &total) {
		sum += total
	}
	if err := iter.Close(); err != nil || sum != 3*90+2*82 {
		t.Errorf("the sum of the group totals is %d, %v", sum, err)
	}
	for _, f := range []string{"endless", "large"} {
		err := two.Query("SELECT ks." + f + "(v) FROM ks.t WHERE k = 0").Exec()
		var failure *gocql.RequestErrFunctionFailure
		if !errors.As(err, &failure) || failure.Function != f || failure.Keyspace != "ks" ||
			strings.Join(failure.ArgTypes, ",") != "int" {
			t.Errorf("%s: %v", f, err)
		}
	}
	value := func() (v int) {
		if err := two.Query("SELECT ks.twice(v) FROM ks.t WHERE k = 0 AND c = ?", 1).Scan(&v); err != nil {
			return -1
		}
		return v
	}
	if v := value(); v != 4 {
		t.Errorf("twice 2 is %d", v)
	}
	exec(one, "CREATE OR REPLACE FUNCTION ks.twice (x int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java "+
		"AS 'return x * 2 + 1;'")
	eventually.True(t, "the function is the new one", func() bool { return value() == 5 })
	exec(one, "DROP FUNCTION ks.twice")
	eventually.True(t, "the function is gone", func() bool { return value() == -1 })
}

// TestFunctionsStay checks that functions still exist after a restart, and that a role without EXECUTE permission
// cannot execute them.
func TestFunctionsStay(t *testing.T) {
	o := options.Options{Data: t.TempDir(), UserFunctions: true}
	o.Auth.Users = testnode.User(t, "boss", "b")
	n := testnode.One(t, o)
	s := testnode.Driver(t, n.CQLAddr().String(), "boss", "b")
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE ks.u (a int)",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<u>)",
		"CREATE FUNCTION ks.a (x u) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return x.getInt(\"a\");'",
		"INSERT INTO ks.t (k, v) VALUES (1, {a: 7})",
		"CREATE ROLE guest WITH LOGIN = true AND PASSWORD = 'g'",
		"GRANT SELECT ON ks.t TO guest",
	} {
		if err := s.Query(text).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	s.Close()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = testnode.One(t, o)
	s = testnode.Driver(t, n.CQLAddr().String(), "boss", "b")
	guest := testnode.Driver(t, n.CQLAddr().String(), "guest", "g")
	const query = "SELECT ks.a(v) FROM ks.t"
	var v int
	if err := s.Query(query).Scan(&v); err != nil || v != 7 {
		t.Errorf("after a restart: %d, %v", v, err)
	}
	err := guest.Query(query).Scan(&v)
	if want := "User guest has no EXECUTE permission on <function ks.a(u)> or any of its parents"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a guest without EXECUTE permission: %v", err)
	}
	if err := s.Query("GRANT EXECUTE ON FUNCTION ks.a(u) TO guest").Exec(); err != nil {
		t.Fatal(err)
	}
	if err := guest.Query(query).Scan(&v); err != nil || v != 7 {
		t.Errorf("a guest with EXECUTE permission: %d, %v", v, err)
	}
	s.Close()
	guest.Close()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	o.UserFunctions = false
	n = testnode.One(t, o)
	s = testnode.Driver(t, n.CQLAddr().String(), "boss", "b")
	if err := s.Query(query).Scan(&v); err == nil || !strings.Contains(err.Error(), "user_defined_functions_enabled") {
		t.Errorf("with functions disabled: %v", err)
	}
	s.Close()
}
