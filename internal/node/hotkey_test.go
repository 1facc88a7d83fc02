// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

// shownOf returns the partitions of ks.t from the status.
func shownOf(n *Node) []admin.PartitionStatus {
	for _, table := range n.reports.Status().Tables {
		if table.Name == "ks.t" {
			return table.Partitions
		}
	}
	return nil
}

// TestHotKeyIsIsolated checks a logical partition that uses all throughput of its table. The status and the rejections
// must name it. Two splits must isolate the logical partition, although ordinary splits would be a minute apart. After
// the splits, requests for its siblings must not be rejected. The partition history must contain the cause.
func TestHotKeyIsIsolated(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH throughput = 1000")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	const hotKey = 7
	var done, named atomic.Bool
	var served, refused [2]atomic.Int64 // requests for the hot key and for its siblings
	var clients sync.WaitGroup
	ask := func(of int, every time.Duration, next func() int) {
		c := newClient(t, n)
		insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
		clients.Go(func() {
			for !done.Load() {
				var busy *dberr.Overloaded
				switch err := c.try(insert, number(next()), number(1)); {
				case err == nil:
					served[of].Add(1)
				case errors.As(err, &busy):
					refused[of].Add(1)
					if strings.Contains(busy.Message, "mostly for ks.t k = 7'") {
						named.Store(true)
					}
				default:
					t.Error(err)
					return
				}
				time.Sleep(every)
			}
		})
	}
	for range 4 {
		ask(0, 200*time.Microsecond, func() int { return hotKey })
	}
	sibling := 100
	ask(1, 40*time.Millisecond, func() int { sibling++; return sibling % 1000 })
	began := time.Now()
	hot := func() string { return n.splitController.Report(partsOf(n)[0].ID).HotKey }
	eventually.True(t, "the key is recognised", func() bool { return hot() != "" })
	recognised := time.Since(began)
	eventually.True(t, "the key is apart", func() bool { return len(partsOf(n)) == 3 })
	isolated := time.Since(began)
	eventually.True(t, "refusals name the key", named.Load)
	eventually.True(t, "the status names it", func() bool {
		p := shownOf(n)[1]
		return p.Hot == "ks.t k = 7" && p.HotShare > 0.5
	})
	begun := served[1].Load()
	eventually.True(t, "requests of before have ended", func() bool { return served[1].Load() > begun+10 })
	s0, r0 := served[1].Load(), refused[1].Load()
	eventually.True(t, "siblings are served", func() bool { return served[1].Load() > s0+50 })
	if after := refused[1].Load() - r0; after > 0 {
		t.Errorf("%d requests of siblings were rejected after the hot key was isolated, %d before", after, r0)
	}
	done.Store(true)
	clients.Wait()
	t.Logf("recognised after %v, isolated after %v; siblings were refused %d of %d requests until then", recognised,
		isolated, r0, r0+s0)
	if r0 == 0 {
		t.Error("no request of a sibling was rejected: the test proves nothing")
	}
	for i, p := range partsOf(n) {
		if i == 1 && p.Span.Limit.Ring != p.Span.Begin.Ring+1 {
			t.Errorf("the partition of the hot key has %s", p.Span)
		}
	}
	for _, e := range n.metadata.State().History {
		if e.Kind == meta.Split && e.Cause != topology.ByKey {
			t.Errorf("a split with the cause %s", e.Cause)
		}
	}
}

// TestLoneKeyIsNotIsolated checks a hot key when clients request no other key. The key must be named and must keep the
// whole throughput.
func TestLoneKeyIsNotIsolated(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int) WITH throughput = 400")
	insert := c.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
	value := make([]byte, 4)
	ask := func(limit time.Duration, until func() bool) {
		for end := time.Now().Add(limit); time.Now().Before(end) && !until(); {
			var busy *dberr.Overloaded
			if err := c.try(insert, []byte{0, 0, 0, 7}, value); err != nil && !errors.As(err, &busy) {
				t.Fatal(err)
			}
		}
	}
	hot := func() bool { return n.splitController.Report(partsOf(n)[0].ID).HotKey != "" }
	if ask(eventually.Limit, hot); !hot() {
		t.Fatal("the hot key is not named")
	}
	ask(3*time.Second, func() bool { return false }) // run three more checks
	if parts := partsOf(n); len(parts) != 1 {
		t.Errorf("%d partitions, want 1", len(parts))
	}
}

// TestHotKeyThroughFollowers checks that a leader recognizes a logical partition that clients read only through
// replicas on other nodes. The leader's own load would not reveal the logical partition.
func TestHotKeyThroughFollowers(t *testing.T) {
	t.Parallel()
	options := func() Options { return Options{Splits: options.Splits{Units: 4000}, InitialPartitions: 1} }
	a := clusterNode(t, nil, options())
	nodes := []*Node{a, clusterNode(t, a, options()), clusterNode(t, a, options())}
	c := newClient(t, a)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("INSERT INTO ks.t (k, v) VALUES (7, 7)")
	eventually.True(t, "three voters", func() bool { return voters(a) == 3 })
	id := partsOf(a)[0].ID
	leader := func() *Node {
		for _, n := range nodes {
			if r := n.host.Replica(id); r != nil && r.Leading() {
				return n
			}
		}
		return nil
	}
	eventually.True(t, "a leader", func() bool { return leader() != nil })
	// After an election, the leadership may move to the topology's preferred node or to a node that serves the reads.
	// In that case, the test tries again and reads from the other nodes.
	eventually.True(t, "the leader names the key", func() bool {
		led := leader()
		return led != nil && readElsewhere(t, nodes, led, id, func() bool { return led == leader() })
	})
}

// readElsewhere reads a key of ks.t through the nodes that do not lead its partition. It stops when the leader has
// named the key. It returns false if the leader loses its leadership.
func readElsewhere(t *testing.T, nodes []*Node, led *Node, id topology.PartitionID, leads func() bool) bool {
	var done atomic.Bool
	var clients sync.WaitGroup
	defer clients.Wait()
	defer done.Store(true)
	before := led.host.Replica(id).Load().Counts().Units
	failed := make(chan error, 2*len(nodes))
	for _, n := range nodes {
		if n == led {
			continue
		}
		for range 2 {
			c := newClient(t, n)
			c.call.Request.Consistency = dberr.One
			read := c.prepare("SELECT v FROM ks.t WHERE k = ?")
			clients.Go(func() {
				for !done.Load() {
					if err := c.try(read, binary.BigEndian.AppendUint32(nil, 7)); err != nil {
						failed <- err
						return
					}
				}
			})
		}
	}
	began, named := time.Now(), false
	eventually.True(t, "the leader names the key, or leads no more", func() bool {
		select {
		case err := <-failed:
			t.Fatalf("the node of a follower rejects a read: %v", err)
		default:
		}
		named = led.splitController.Report(id).HotKey == "ks.t k = 7"
		return named || !leads()
	})
	own := (led.host.Replica(id).Load().Counts().Units - before).Float() / time.Since(began).Seconds()
	if !named || !leads() {
		return false
	}
	t.Logf("after %v, at a load of %.0f", time.Since(began), led.splitController.Report(id).Load)
	if own > 2000 { // a follower forwards reads that it cannot serve yet
		t.Errorf("the leader served %.0f RU/s itself: the test proves nothing", own)
	}
	return true
}
