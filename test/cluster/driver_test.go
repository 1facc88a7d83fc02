// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/model/token"
)

// session connects the Go driver to all nodes in the same way as an application. The driver is token-aware and retries
// idempotent statements.
func session(f *fleet, observer gocql.QueryObserver) *gocql.Session {
	f.t.Helper()
	var hosts []string
	for _, m := range f.nodes {
		hosts = append(hosts, m.cql())
	}
	cluster := gocql.NewCluster(hosts...)
	cluster.ProtoVersion = 4
	cluster.Timeout = 10 * time.Second
	cluster.Consistency = gocql.LocalQuorum
	cluster.QueryObserver = observer
	cluster.DefaultIdempotence = true
	cluster.RetryPolicy = &gocql.ExponentialBackoffRetryPolicy{NumRetries: 5, Min: 50 * time.Millisecond,
		Max: time.Second}
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	s, err := cluster.CreateSession()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.Close)
	return s
}

// TestDriverThroughFaults checks that an application with the Go driver sees no errors and always reads its own
// writes. During the test, nodes are stopped, killed, and started. The application connects to all nodes and retries
// idempotent statements. The test takes a long time because this driver waits ten seconds before it uses a recovered
// node again.
func TestDriverThroughFaults(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}",
		"CREATE TABLE ks.t (k bigint PRIMARY KEY, v bigint)")
	f.settle()
	var seen served
	s := session(f, &seen)
	var stop atomic.Bool
	var done atomic.Int64
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			for v := int64(1); !stop.Load(); v++ {
				k := int64(id)<<32 | rand.Int64N(1000)
				if err := s.Query("INSERT INTO ks.t (k, v) VALUES (?, ?)", k, v).Exec(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				var got int64
				if err := s.Query("SELECT v FROM ks.t WHERE k = ?", k).Scan(&got); err != nil || got != v {
					t.Errorf("wrote %d, read %d: %v", v, got, err)
					return
				}
				done.Add(2)
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	for i, m := range f.nodes {
		if i%2 == 0 {
			m.stop()
		} else {
			m.kill()
		}
		m.start()
		f.settle()
		// The driver learns of the recovered node from an event or from its own reconnection attempts. Without this
		// wait, the next fault would find the driver with one node less.
		from, want := time.Now(), done.Load()+*requests/8
		f.until("requests go on, also at the node that is back", settleTime, func() string {
			if t.Failed() || done.Load() >= want && seen.since(m.ip, from) {
				return ""
			}
			return "they do not"
		})
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d requests without an error", done.Load())
}

// served holds the time of each node's last response to the driver.
type served struct{ nodes sync.Map }

// ObserveQuery implements gocql.QueryObserver.
func (s *served) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	if q.Err == nil && q.Host != nil {
		s.nodes.Store(q.Host.ConnectAddress().String(), q.End)
	}
}

func (s *served) since(ip string, from time.Time) bool {
	at, ok := s.nodes.Load(ip)
	return ok && at.(time.Time).After(from)
}

// contacts counts the requests that the driver sent to a node with a replica.
type contacts struct {
	mu     sync.Mutex
	where  map[int64]string // the address to which the request for a key was sent
	unsure int
}

func (c *contacts) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.Values) == 0 || q.Host == nil {
		c.unsure++
		return
	}
	if k, ok := q.Values[0].(int64); ok {
		c.where[k] = q.Host.ConnectAddress().String()
	}
}

// TestDriverFindsReplicas checks that a token-aware driver sends at least 95% of its requests to a node with a
// replica. The cluster has six nodes and four replicas of each partition.
func TestDriverFindsReplicas(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 6, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}",
		"CREATE TABLE ks.t (k bigint PRIMARY KEY, v bigint)")
	f.still()
	c := &contacts{where: map[int64]string{}}
	s := session(f, c)
	const n = 2000
	for k := range int64(n) {
		if err := s.Query("INSERT INTO ks.t (k, v) VALUES (?, ?)", k, k).Exec(); err != nil {
			t.Fatal(err)
		}
	}
	status, err := f.nodes[0].status()
	if err != nil {
		t.Fatal(err)
	}
	right, pieces := 0, 0
	for _, table := range status.Tables {
		if table.Name != "ks.t" {
			continue
		}
		pieces = len(table.Partitions)
		for k, address := range c.where {
			at := int64(token.Hash(binary.BigEndian.AppendUint64(nil, uint64(k))))
			for _, p := range table.Partitions {
				if !holds(t, p.Span, at) {
					continue
				}
				for _, r := range p.Replicas {
					if m := f.byID(status, r.Node); m != nil && m.ip == address {
						right++
					}
				}
			}
		}
	}
	t.Logf("%d of %d requests reached a replica; the table has %d partitions", right, n, pieces)
	if right < n*95/100 {
		t.Errorf("%d of %d requests reached a node with a replica, want at least 95 %%", right, n)
	}
}

// holds reports whether a token range, in the format of the status, contains a token.
func holds(t *testing.T, span string, at int64) bool {
	t.Helper()
	var first, limit int64
	if _, err := fmt.Sscanf(span, "[%d, %d)", &first, &limit); err == nil {
		return at >= first && at < limit
	}
	if _, err := fmt.Sscanf(span, "[%d, end)", &first); err != nil {
		t.Fatalf("span %s: %v", span, err)
	}
	return at >= first
}
