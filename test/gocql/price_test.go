// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/test/testnode"
)

// connectTo connects to one node only.
func connectTo(t *testing.T, addr string) *gocql.Session {
	t.Helper()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cluster := gocql.NewCluster(addr)
	cluster.ProtoVersion = 5
	cluster.Timeout = 30 * time.Second
	cluster.HostFilter = gocql.WhiteListHostFilter(host)
	s, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestPricesOnCluster checks on all four nodes, including the leader, that EXPLAIN reports the actual cost of a
// statement. If the charge limit is below the cost, the statement must be rejected and have no effect. A charge limit
// equal to the cost must allow the statement.
func TestPricesOnCluster(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Nodes: 4, Change: apart(t)})
	first := connectTo(t, c.CQL(0))
	exec(t, first, "CREATE KEYSPACE prices WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	exec(t, first, "CREATE TABLE prices.t (k int, c int, v text, n int, PRIMARY KEY (k, c))")
	exec(t, first, "CREATE TABLE prices.counters (k int PRIMARY KEY, n counter)")
	exec(t, first, "CREATE TABLE prices.lists (k int PRIMARY KEY, l list<text>)")
	for k := range 5 {
		for i := range 20 {
			exec(t, first, "INSERT INTO prices.t (k, c, v, n) VALUES (?, ?, ?, 1)", k, i, strings.Repeat("v", 700))
		}
		exec(t, first, "INSERT INTO prices.lists (k, l) VALUES (?, ?)", k, []string{"a", strings.Repeat("b", 3000)})
		exec(t, first, "UPDATE prices.counters SET n = n + 1 WHERE k = ?", k)
	}
	c.Settle()
	for i := range 4 {
		s := connectTo(t, c.CQL(i))
		for _, stmt := range []string{
			"SELECT v FROM prices.t WHERE k = 1 AND c = 1",
			"SELECT v FROM prices.t WHERE k = 2 AND c > 5",
			"SELECT count(*) FROM prices.t",
			"SELECT k FROM prices.t WHERE n = 2 ALLOW FILTERING",
			"UPDATE prices.t SET n = 1 WHERE k = 1 AND c = 1 IF n = 1",
			"UPDATE prices.t SET n = 2 WHERE k = 1 AND c = 1 IF n = 2",
			"UPDATE prices.counters SET n = n + 1 WHERE k = 3",
			"UPDATE prices.lists SET l[0] = 'x' WHERE k = 4",
			"BEGIN BATCH UPDATE prices.lists SET l[0] = 'y' WHERE k = 1; " +
				"INSERT INTO prices.t (k, c) VALUES (2, 2); APPLY BATCH",
			"BEGIN TRANSACTION LET x = (SELECT n FROM prices.t WHERE k = 1 AND c = 1); SELECT x.n; IF x.n = 1 THEN " +
				"UPDATE prices.t SET n = n + 0 WHERE k = 1 AND c = 1; END IF COMMIT TRANSACTION",
		} {
			row := map[string]any{}
			if err := s.Query("EXPLAIN " + stmt).MapScan(row); err != nil {
				t.Fatal(err)
			}
			want := row["expected_ru"].(float64)
			within := func(most float64) (float64, error) {
				value := binary.BigEndian.AppendUint64(nil, math.Float64bits(most))
				payload := map[string][]byte{"MaxRequestCharge": value, "RequestCharge": {}}
				it := s.Query(stmt).CustomPayload(payload).Iter()
				charge := chargeOf(it.GetCustomPayload())
				return charge, it.Close()
			}
			var refused gocql.RequestError
			if _, err := within(want - 0.001); !errors.As(err, &refused) || refused.Code() != gocql.ErrCodeInvalid {
				t.Errorf("node %d: %s with a charge limit below %v: %v", i, stmt, want, err)
			}
			if ru, err := within(want); err != nil || math.Abs(ru-want) > 1e-9 {
				t.Errorf("node %d: %s costs %v, EXPLAIN reports %v: %v", i, stmt, ru, want, err)
			}
		}
	}
	var n int
	if err := first.Query("SELECT n FROM prices.counters WHERE k = 3").Scan(&n); err != nil || n != 5 {
		t.Errorf("the counter was rejected four times and incremented four times, but is %d: %v", n, err)
	}
}
