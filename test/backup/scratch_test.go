// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// TestVerifyByRestoring fills tables with every kind of data and makes a backup while batches are written. The test
// checks that the tool restores the backup to a temporary node and compares the data. No files of the temporary node
// may remain.
func TestVerifyByRestoring(t *testing.T) {
	t.Parallel()
	c := start(t, 1, 3)
	c.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE ks.place (x int, y int)",
		"CREATE TABLE ks.t (p int, k int, s text STATIC, v text, at frozen<place>, l list<int>, m map<text, int>, "+
			"PRIMARY KEY (p, k))",
		"CREATE INDEX by_v ON ks.t (v)",
		"CREATE MATERIALIZED VIEW ks.seen AS SELECT p, k, v FROM ks.t WHERE v IS NOT NULL AND p IS NOT NULL AND "+
			"k IS NOT NULL PRIMARY KEY (v, p, k)",
		"CREATE TABLE ks.counted (p int PRIMARY KEY, n counter)",
		"CREATE TABLE ks.empty (p int PRIMARY KEY)",
		"CREATE TABLE ks.compact (p int, a int, b int, v int, PRIMARY KEY (p, a, b)) WITH COMPACT STORAGE AND "+
			"CLUSTERING ORDER BY (a ASC, b DESC)",
		"INSERT INTO ks.compact (p, a, v) VALUES (1, 1, 1)", "INSERT INTO ks.compact (p, a, b, v) VALUES (1, 1, 1, 2)",
		"CREATE TABLE ks.other (p int PRIMARY KEY, v text, gone int)", "INSERT INTO ks.other (p, gone) VALUES (-1, 1)",
		"ALTER TABLE ks.other DROP gone")
	for i := range 300 {
		c.do(fmt.Sprintf("INSERT INTO ks.t (p, k, s, v, at, l, m) VALUES (%d, %d, 'static %d', 'v%d', {x: 1, y: %d}, "+
			"[1, 2, 3], {'a': 1}) USING TTL %d", i%20, i, i, i%7, i, i%2*100000))
	}
	c.do("UPDATE ks.t SET l = l + [4], m['b'] = 2 WHERE p = 1 AND k = 1", "DELETE FROM ks.t WHERE p = 2",
		"DELETE FROM ks.t WHERE p = 3 AND k > 50 AND k < 200", "DELETE FROM ks.t WHERE p = 3 AND k > 100 AND k < 250",
		"DELETE l[0], v FROM ks.t WHERE p = 1 AND k = 1", "DELETE FROM ks.t WHERE p = 4 AND k = 4",
		"DELETE s FROM ks.t WHERE p = 5", "INSERT INTO ks.t (p, k) VALUES (2, 1000)",
		"INSERT INTO ks.t (p, k, v) VALUES (6, 6, 'short') USING TTL 1",
		"UPDATE ks.counted SET n = n + 41 WHERE p = 1", "UPDATE ks.counted SET n = n - 1 WHERE p = 1")
	to := filepath.Join(c.base, "backups")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			b := c.cql.Batch(gocql.LoggedBatch)
			b.Query("INSERT INTO ks.t (p, k, v) VALUES (?, ?, 'of a batch')", i%20, i)
			b.Query("INSERT INTO ks.other (p, v) VALUES (?, 'of a batch')", i)
			b.Query("DELETE FROM ks.t WHERE p = ? AND k = ?", (i+1)%20, i-1)
			if err := b.Exec(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	c.must(0, "backup", "--to", to, "--rate", "0")
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := c.say("backup", "verify", to, "--restore", "--scratch", dir)
	if !strings.Contains(out, "5 tables") || !strings.Contains(out, "1 views and 1 indexes match") {
		t.Errorf("the output does not list the restored tables: %s", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files of the scratch node remain: %v: %v", left, err)
	}
	if out, err := c.tool(t.Context(), "backup", "verify", to, "--scratch", dir); err == nil {
		t.Errorf("--scratch without --restore was accepted: %s", out)
	}
}
