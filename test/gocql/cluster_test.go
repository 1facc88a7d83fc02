// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/testnode"
)

// apart gives every node a separate address with the same port, because the driver ignores ports in the nodes'
// metadata.
func apart(t *testing.T) func(i int, o *options.Options) {
	if runtime.GOOS != "linux" {
		t.Skip("needs addresses from 127.0.0.2 on")
	}
	free, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free)
	if err != nil {
		t.Fatal(err)
	}
	return func(i int, o *options.Options) { o.CQL = fmt.Sprintf("127.0.0.%d:%s", i+1, port) }
}

// TestDriverOnCluster repeats the tests of the driver with four and with six nodes. The driver gets the address of one
// node and discovers the other nodes.
func TestDriverOnCluster(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 6} {
		t.Run(fmt.Sprintf("nodes=%d", n), func(t *testing.T) {
			c := testnode.Start(t, testnode.Options{Nodes: n, Change: apart(t)})
			s := connect(t, c.CQL(1), 5)
			const ks = "go"
			exec(t, s, "CREATE KEYSPACE "+ks+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
			exec(t, s, "CREATE TABLE "+ks+
				".wide (p text, c int, v text, tags set<text>, m map<text, int>, l list<int>, PRIMARY KEY (p, c)) "+
				"WITH CLUSTERING ORDER BY (c DESC)")
			t.Run("everybody", func(t *testing.T) { everybody(t, s, n) })
			t.Run("paging", func(t *testing.T) { paging(t, s, ks) })
			t.Run("tokens", func(t *testing.T) { tokens(t, s, ks) })
			t.Run("conditions", func(t *testing.T) { conditions(t, s, ks) })
			t.Run("alter", func(t *testing.T) { alter(t, s, connect(t, c.CQL(n-1), 4), ks) })
			t.Run("errors", func(t *testing.T) { driverErrors(t, s, ks) })
			for i := range n { // connect the control connection to node i
				other := fmt.Sprintf("events%d", i)
				exec(t, s, "CREATE KEYSPACE "+other+
					" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
				t.Run(other, func(t *testing.T) { schemaEvents(t, s, connect(t, c.CQL(i), 5), other) })
			}
		})
	}
}

// everybody checks that every node receives requests from the driver.
func everybody(t *testing.T, s *gocql.Session, n int) {
	seen := map[gocql.UUID]bool{}
	for range 20 * n {
		var id gocql.UUID
		if err := s.Query("SELECT host_id FROM system.local").Scan(&id); err != nil {
			t.Fatal(err)
		}
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("the driver used %d of %d nodes", len(seen), n)
	}
}

// scanPages reads ks.t page by page and returns the number of rows. The rows must be numbered consecutively. If a
// connection of the driver ends, scanPages repeats the page. The number of failed retries of the driver depends on the
// machine. It returns error responses of nodes. scanPages stops between pages when stop returns true.
func scanPages(s *gocql.Session, stop func() bool) (next int, err error) {
	var state []byte
	for {
		iter := s.Query("SELECT c FROM ks.t WHERE p = ?", 0).PageSize(250).PageState(state).Idempotent(true).Iter()
		page, got := next, 0
		for range iter.NumRows() {
			if !iter.Scan(&got) {
				break
			}
			if got != page {
				return next, fmt.Errorf("got row %d, want row %d", got, page)
			}
			page = got + 1
		}
		following := iter.PageState()
		err := iter.Close()
		if refusal := gocql.RequestError(nil); errors.As(err, &refusal) {
			return next, err
		}
		if err != nil && stop() {
			return next, nil
		}
		if err != nil {
			continue
		}
		if next, state = page, following; len(state) == 0 {
			return next, nil
		}
	}
}

// TestPagingThroughRestarts checks that paging resumes at the same position while each node in turn is stopped and
// restarted. The restarts also move the leaders. The driver must use the restarted nodes with its existing prepared
// statement.
func TestPagingThroughRestarts(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Dir: t.TempDir(), Change: apart(t)})
	cluster := gocql.NewCluster(c.Addrs()...)
	cluster.Timeout = 10 * time.Second
	cluster.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 5}
	cluster.ReconnectInterval = time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	s, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	const rows = 10_000
	exec(t, s, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	exec(t, s, "CREATE TABLE ks.t (p int, c int, v text, PRIMARY KEY (p, c))")
	for i := 0; i < rows; i += 100 {
		b := s.Batch(gocql.UnloggedBatch)
		for k := i; k < i+100; k++ {
			b.Query("INSERT INTO ks.t (p, c, v) VALUES (0, ?, 'some text')", k)
		}
		if err := b.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Bool
	scans := make(chan int, 1)
	go func() {
		n := 0
		for ; !done.Load(); n++ {
			if next, err := scanPages(s, done.Load); err != nil || next != rows && !done.Load() {
				t.Errorf("got %d rows, want %d: %v", next, rows, err)
				break
			}
		}
		scans <- n
	}()
	t.Cleanup(func() { done.Store(true) })
	for i := range c.Len() {
		c.Stop(i)
		c.Restart(i)
		c.Settle()
	}
	done.Store(true)
	t.Logf("%d scans", <-scans)
	deadline := time.Now().Add(eventually.Limit)
	for seen := map[gocql.UUID]bool{}; len(seen) < c.Len(); {
		var id gocql.UUID
		if err := s.Query("SELECT host_id FROM system.local").Scan(&id); err == nil {
			seen[id] = true
		}
		if time.Now().After(deadline) {
			t.Fatalf("the driver uses %d of %d nodes after the restarts", len(seen), c.Len())
		}
	}
}
