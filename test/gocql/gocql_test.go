// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package gocql runs the Go driver that applications use against a node in this process. The Python and Node.js
// drivers and cqlsh are tested in test/compat.
package gocql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/test/eventually"
)

func TestMain(m *testing.M) {
	eventually.AtOnce(2)
	os.Exit(m.Run())
}

func connect(t *testing.T, addr string, version int) *gocql.Session {
	t.Helper()
	cluster := gocql.NewCluster(addr)
	cluster.ProtoVersion = version
	cluster.Timeout = 30 * time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	s, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func exec(t *testing.T, s *gocql.Session, stmt string, args ...any) {
	t.Helper()
	if err := s.Query(stmt, args...).Exec(); err != nil {
		t.Fatalf("%s: %v", stmt, err)
	}
}

// TestDriver checks the typical operations of an application: schema changes, prepared writes, paging, tokens,
// batches, conditions, types, and errors. It uses both protocol versions of the driver and a table with 16 physical
// partitions.
func TestDriver(t *testing.T) {
	t.Parallel()
	db, err := ilion.Start(t.Context(), ilion.Options{InitialPartitions: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, version := range []int{4, 5} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			s := connect(t, db.CQLAddr().String(), version)
			ks := fmt.Sprintf("go%d", version)
			exec(t, s, "CREATE KEYSPACE "+ks+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
			exec(t, s, "CREATE TABLE "+ks+
				".wide (p text, c int, v text, tags set<text>, m map<text, int>, l list<int>, PRIMARY KEY (p, c)) "+
				"WITH CLUSTERING ORDER BY (c DESC)")
			t.Run("paging", func(t *testing.T) { paging(t, s, ks) })
			t.Run("query of forks", func(t *testing.T) { askedByForks(t, s, ks) })
			t.Run("tokens", func(t *testing.T) { tokens(t, s, ks) })
			t.Run("schema", func(t *testing.T) { schemaEvents(t, s, connect(t, db.CQLAddr().String(), version), ks) })
			t.Run("conditions", func(t *testing.T) { conditions(t, s, ks) })
			t.Run("alter", func(t *testing.T) { alter(t, s, connect(t, db.CQLAddr().String(), version), ks) })
			t.Run("errors", func(t *testing.T) { driverErrors(t, s, ks) })
		})
	}
}

// paging checks that 10,000 rows written with prepared statements are returned in order, page by page. It also checks
// that a scan of all partitions returns every row once.
func paging(t *testing.T, s *gocql.Session, ks string) {
	const rows = 10_000
	insert := "INSERT INTO " + ks + ".wide (p, c, v, tags, m, l) VALUES (?, ?, ?, ?, ?, ?)"
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < rows; i += 8 {
				p := "a"
				if i%2 == 1 {
					p = fmt.Sprint("p", i)
				}
				if err := s.Query(insert, p, i, fmt.Sprint("value ", i), []string{"x", "y"}, map[string]int{"n": i},
					[]int{i, i}).Exec(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	iter := s.Query("SELECT c, v, m FROM "+ks+".wide WHERE p = ?", "a").PageSize(333).Iter()
	var c int
	var v string
	var m map[string]int
	n := 0
	for iter.Scan(&c, &v, &m) {
		if want := rows - 2 - 2*n; c != want || v != fmt.Sprint("value ", c) || m["n"] != c {
			t.Fatalf("row %d: got %d %q %v, want c = %d", n, c, v, m, want)
		}
		n++
	}
	if err := iter.Close(); err != nil || n != rows/2 {
		t.Fatalf("got %d rows (%v), want %d", n, err, rows/2)
	}
	seen := map[int]bool{}
	iter = s.Query("SELECT c FROM " + ks + ".wide").PageSize(777).Iter()
	for iter.Scan(&c) {
		if seen[c] {
			t.Fatalf("the scan returned row %d twice", c)
		}
		seen[c] = true
	}
	if err := iter.Close(); err != nil || len(seen) != rows {
		t.Fatalf("the scan found %d rows (%v), want %d", len(seen), err, rows)
	}
}

// tokens checks that the server's tokens equal the tokens that token-aware drivers compute.
func tokens(t *testing.T, s *gocql.Session, ks string) {
	for _, p := range []string{"theo", "Beef Products", "é", "0123456789abcdefg\u00ff"} {
		exec(t, s, "INSERT INTO "+ks+".wide (p, c) VALUES (?, 1)", p)
		var got int64
		if err := s.Query("SELECT token(p) FROM "+ks+".wide WHERE p = ? LIMIT 1", p).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if want := int64(token.Hash([]byte(p))); got != want {
			t.Errorf("token(%q) = %d, want %d", p, got, want)
		}
	}
}

// askedByForks runs the statement with which ScyllaDB's fork of the driver reads table metadata. It checks that the
// statement succeeds and returns no rows. The fork is not in the module proxy.
func askedByForks(t *testing.T, s *gocql.Session, ks string) {
	iter := s.Query("SELECT * FROM system_schema.scylla_tables WHERE keyspace_name = ? AND table_name = ?", ks,
		"wide").Iter()
	if n := iter.NumRows(); n != 0 {
		t.Errorf("%d rows", n)
	}
	if err := iter.Close(); err != nil {
		t.Error(err)
	}
}

// schemaEvents checks that another session's metadata follows DDL.
func schemaEvents(t *testing.T, s, other *gocql.Session, ks string) {
	if _, err := other.KeyspaceMetadata(ks); err != nil {
		t.Fatal(err)
	}
	exec(t, s, "CREATE TYPE "+ks+".addr (street text, zip int)")
	exec(t, s, "CREATE TABLE "+ks+
		".people (id uuid PRIMARY KEY, home frozen<addr>, d decimal, b boolean, t timestamp, i inet)")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if meta, err := other.KeyspaceMetadata(ks); err == nil && meta.Tables["people"] != nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the other session never saw the new table")
		case <-tick.C:
		}
	}
}

func conditions(t *testing.T, s *gocql.Session, ks string) {
	stmt := "INSERT INTO " + ks + ".wide (p, c, v) VALUES ('lwt', 1, ?) IF NOT EXISTS"
	first, second := map[string]any{}, map[string]any{}
	applied, err := s.Query(stmt, "a").MapScanCAS(first)
	if err != nil || !applied {
		t.Fatalf("first insert: applied %v, %v", applied, err)
	}
	applied, err = s.Query(stmt, "b").MapScanCAS(second)
	if err != nil || applied || second["v"] != "a" {
		t.Fatalf("second insert: applied %v, %v, row %v", applied, err, second)
	}
	b := s.Batch(gocql.LoggedBatch)
	for i := range 3 {
		b.Query("INSERT INTO "+ks+".wide (p, c, v) VALUES (?, ?, ?)", "batch", i, "x")
	}
	if err := b.Exec(); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.Query("SELECT count(*) FROM "+ks+".wide WHERE p = ?", "batch").Scan(&n); err != nil || n != 3 {
		t.Fatalf("batch wrote %d rows, %v", n, err)
	}
	exec(t, s, "CREATE TABLE "+ks+".hits (k text PRIMARY KEY, n counter)")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if err := s.Query("UPDATE "+ks+".hits SET n = n + 1 WHERE k = ?", "x").Exec(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var hits int64
	if err := s.Query("SELECT n FROM "+ks+".hits WHERE k = ?", "x").Scan(&hits); err != nil || hits != 200 {
		t.Fatalf("the counter is %d (%v) after 200 increments", hits, err)
	}
}

// alter checks that all sessions with a prepared SELECT * see new columns after ALTER TABLE. Any of the sessions may
// be the first to prepare the statement again.
func alter(t *testing.T, s, other *gocql.Session, ks string) {
	exec(t, s, "CREATE TABLE "+ks+".grows (k int PRIMARY KEY, m text)")
	exec(t, s, "INSERT INTO "+ks+".grows (k, m) VALUES (1, 'm')")
	query := "SELECT * FROM " + ks + ".grows WHERE k = ?"
	for _, session := range []*gocql.Session{s, other} {
		if err := session.Query(query, 1).MapScan(map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, s, "ALTER TABLE "+ks+".grows ADD a int")
	exec(t, s, "UPDATE "+ks+".grows SET a = 7 WHERE k = 1")
	for _, session := range []*gocql.Session{s, other, s} {
		row := map[string]any{}
		if err := session.Query(query, 1).MapScan(row); err != nil || row["a"] != 7 || row["m"] != "m" {
			t.Errorf("after ALTER TABLE: %v, %v", row, err)
		}
	}
}

func driverErrors(t *testing.T, s *gocql.Session, ks string) {
	err := s.Query("SELECT nosuch FROM " + ks + ".wide").Exec()
	if re := gocql.RequestError(nil); !errors.As(err, &re) || re.Code() != gocql.ErrCodeInvalid {
		t.Errorf("unknown column: %v", err)
	}
	err = s.Query("CREATE TABLE " + ks + ".wide (k int PRIMARY KEY)").Exec()
	if ae := (*gocql.RequestErrAlreadyExists)(nil); !errors.As(err, &ae) || ae.Table != "wide" {
		t.Errorf("existing table: %v", err)
	}
	err = s.Query("SELEC").Exec()
	if re := gocql.RequestError(nil); !errors.As(err, &re) || re.Code() != gocql.ErrCodeSyntax {
		t.Errorf("syntax: %v", err)
	}
}
