// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/control/recovery"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/wan"
)

// inRegion creates a node in a region without starting it.
func (f *fleet) inRegion(region string) *member {
	m := f.add()
	m.args = append(m.args, "--region", region)
	return m
}

// settleRegions waits until the first nodes, which are in the home region, hold all replicas, and until all running
// nodes are up.
func (f *fleet) settleRegions(home int) {
	f.t.Helper()
	f.until("settle", f.settleTimeout, func() string {
		alive := f.alive()
		for _, m := range alive {
			s, err := m.status()
			if err != nil {
				return err.Error()
			}
			up := 0
			for _, n := range s.Nodes {
				if n.State == "up" {
					up++
				}
			}
			if up != len(alive) {
				return fmt.Sprintf("%s: %d nodes are up", m.name(), up)
			}
			s.Nodes = slices.DeleteFunc(s.Nodes, func(n admin.NodeStatus) bool { return n.Region != "us" })
			if text := unsettled(s, home); text != "" {
				return m.name() + ": " + text
			}
		}
		return unacquainted(alive)
	})
}

// hosts counts the responses to a driver by address.
type hosts struct{ of sync.Map }

// ObserveQuery implements gocql.QueryObserver.
func (h *hosts) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	if q.Host != nil {
		n, _ := h.of.LoadOrStore(q.Host.ConnectAddress().String(), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
}

// regionSession connects the Go driver to the nodes of one data center. The contact points are nodes of the home
// region, because the driver learns the data centers from system.peers.
func regionSession(f *fleet, dc string, o gocql.QueryObserver, contacts ...*member) *gocql.Session {
	f.t.Helper()
	var at []string
	for _, m := range contacts {
		at = append(at, m.cql())
	}
	cluster := gocql.NewCluster(at...)
	cluster.ProtoVersion = 4
	cluster.Timeout = 20 * time.Second
	cluster.ConnectTimeout = 20 * time.Second
	cluster.Consistency = gocql.LocalQuorum
	cluster.QueryObserver = o
	cluster.DefaultIdempotence = true
	cluster.ReconnectInterval = time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy(dc))
	s, err := cluster.CreateSession()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.Close)
	return s
}

// TestGatewayRegion checks a cluster with three nodes in one region and one node in another region, which forwards the
// requests of its clients. A client that prefers the second region must reach only that node, and must read what it
// has written. This must hold while the leader of the data fails and after the node was killed. The node must hold no
// rows and must not vote. The region can be removed when its node has left.
func TestGatewayRegion(t *testing.T) {
	f := newFleet(t, "")
	for range 3 {
		f.inRegion("us").start()
	}
	far := f.inRegion("eu")
	if err := far.tryStart(); err == nil || !strings.Contains(err.Error(), "ilion region add eu") {
		t.Fatalf("a node of a region that does not exist: %v", err)
	}
	far.wipe()
	us := f.nodes[:3]
	add := f.must("region", "add", "eu", "--data", us[1].dir)
	if !strings.Contains(add, `region "eu" was added`) {
		t.Error(add)
	}
	f.refuses(`region "eu" already exists`, "region", "add", "eu", "--data", us[0].dir)
	far.start()
	f.settleRegions(3)
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'us': 3}")
	far.do("CREATE TABLE ks.t (k bigint PRIMARY KEY, v bigint, s text)",
		"CREATE TABLE ks.c (k int PRIMARY KEY, n counter)", "CREATE INDEX ON ks.t (s)")
	f.settleRegions(3)

	var seen hosts
	s := regionSession(f, "eu", &seen, us[0])
	g := &gatewayLoad{f: f, s: s}
	for k := range int64(200) {
		g.write(k, 1)
	}
	g.readAll(200)
	applied, err := s.Query("INSERT INTO ks.t (k, v) VALUES (1, 9) IF NOT EXISTS").MapScanCAS(map[string]any{})
	if applied || err != nil {
		t.Errorf("a conditional write to an existing row: %v, %v", applied, err)
	}
	for range 10 {
		if err := s.Query("UPDATE ks.c SET n = n + 1 WHERE k = 1").Idempotent(false).Exec(); err != nil {
			t.Error(err)
		}
	}
	var n int64
	if err := s.Query("SELECT n FROM ks.c WHERE k = 1").Scan(&n); err != nil || n != 10 {
		t.Errorf("the counter is %d, %v", n, err)
	}
	b := s.Batch(gocql.LoggedBatch)
	for k := range 20 {
		b.Query("INSERT INTO ks.t (k, v, s) VALUES (?, 7, 'batch')", 1000+k)
	}
	if err := b.Exec(); err != nil {
		t.Error(err)
	}
	if rows := s.Query("SELECT k FROM ks.t WHERE s = 'batch'").PageSize(3).Iter().NumRows(); rows == 0 {
		t.Error("no row was found by the index")
	}
	seen.of.Range(func(at, n any) bool {
		if at != far.ip {
			t.Errorf("%d requests went to %s", n.(*atomic.Int64).Load(), at)
		}
		return true
	})
	g.checkStatus(far)

	// The leader of the table fails while the node forwards.
	leader := f.leader("ks.t")
	stop := g.background()
	leader.kill()
	g.more(100)
	leader.start()
	f.settleRegions(3)
	// The node itself is killed, and its clients wait until it is back.
	stop()
	far.kill()
	f.refuses(`cannot remove region "eu": it has 1 node`, "region", "remove", "eu", "--yes", "--data", us[0].dir)
	if text := f.must("region", "list", "--data", us[0].dir); !strings.Contains(text, "eu") {
		t.Error(text)
	}
	g.onlyMetadata(far, us)
	far.start()
	f.settleRegions(3)
	f.until("the driver is connected again", eventually.Limit, func() string {
		if err := s.Query("SELECT v FROM ks.t WHERE k = 1").Exec(); err != nil {
			return err.Error()
		}
		return ""
	})
	g.readAll(200)

	// The region of a directory does not change.
	far.stop()
	region := far.args
	far.args = append(region[:len(region)-1:len(region)-1], "us")
	if err := far.tryStart(); err == nil || !strings.Contains(err.Error(), `are in region "eu"`) {
		t.Errorf("started in another region: %v", err)
	}
	far.args = region
	far.start()
	f.settleRegions(3)
	us[0].order("decommission", far.id())
	select {
	case <-far.ended:
	case <-time.After(settleTime):
		t.Fatal("the decommissioned node still runs")
	}
	f.until("the node has left", settleTime, func() string {
		switch s, err := us[0].status(); {
		case err != nil:
			return err.Error()
		case len(s.Nodes) != 3:
			return fmt.Sprintf("%d nodes", len(s.Nodes))
		}
		return ""
	})
	f.must("region", "remove", "eu", "--yes", "--data", us[0].dir)
	if text := f.must("region", "list", "--data", us[0].dir); strings.Contains(text, "eu") {
		t.Error(text)
	}
	f.must("region", "add", "eu", "--data", us[0].dir)
	if text := f.must("region", "list", "--json", "--data", us[0].dir); !strings.Contains(text, `"number": 2`) {
		t.Errorf("a number was used again: %s", text)
	}
}

// gatewayLoad writes and reads through the node of another region.
type gatewayLoad struct {
	f *fleet
	s *gocql.Session
	// last is the last acknowledged value of the key of background.
	last atomic.Int64
}

func (g *gatewayLoad) write(k, v int64) {
	g.f.t.Helper()
	if err := g.s.Query("INSERT INTO ks.t (k, v) VALUES (?, ?)", k, v).Exec(); err != nil {
		g.f.t.Fatal(err)
	}
}

// readAll reads the rows of the first n keys, one by one and by a scan.
func (g *gatewayLoad) readAll(n int64) {
	g.f.t.Helper()
	for k := range n {
		var v int64
		if err := g.s.Query("SELECT v FROM ks.t WHERE k = ?", k).Scan(&v); err != nil || v != 1 {
			g.f.t.Fatalf("row %d: %d, %v", k, v, err)
		}
	}
	rows, it := int64(0), g.s.Query("SELECT k, v FROM ks.t").PageSize(50).Iter()
	var k, v int64
	for it.Scan(&k, &v) {
		if k >= 0 && k < n {
			rows++
		}
	}
	if err := it.Close(); err != nil || rows != n {
		g.f.t.Errorf("a scan returns %d of %d rows, %v", rows, n, err)
	}
}

// background writes increasing values and reads each of them until stop is called. No request may fail, and no read may
// return an older value.
func (g *gatewayLoad) background() (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for v := int64(1); !done.Load(); v++ {
			if err := g.s.Query("INSERT INTO ks.t (k, v) VALUES (-1, ?)", v).Exec(); err != nil {
				g.f.t.Errorf("write %d: %v", v, err)
				return
			}
			var got int64
			if err := g.s.Query("SELECT v FROM ks.t WHERE k = -1").Scan(&got); err != nil || got != v {
				g.f.t.Errorf("wrote %d, read %d: %v", v, got, err)
				return
			}
			g.last.Store(v)
		}
	})
	end := sync.OnceFunc(func() { done.Store(true); wg.Wait() })
	g.f.t.Cleanup(end)
	return end
}

// more waits until background has made n more round trips.
func (g *gatewayLoad) more(n int64) {
	g.f.t.Helper()
	want := g.last.Load() + n
	g.f.until("requests go on", settleTime, func() string {
		if g.f.t.Failed() || g.last.Load() >= want {
			return ""
		}
		return fmt.Sprintf("%d of %d", g.last.Load(), want)
	})
}

// checkStatus checks that the status shows the region of each node and no replica on the distant node.
func (g *gatewayLoad) checkStatus(far *member) {
	g.f.t.Helper()
	s, err := far.status()
	if err != nil {
		g.f.t.Fatal(err)
	}
	regions := map[string]int{}
	for _, n := range s.Nodes {
		regions[n.Region]++
	}
	if regions["us"] != 3 || regions["eu"] != 1 || len(regions) != 2 {
		g.f.t.Errorf("nodes by region: %v", regions)
	}
	for _, table := range s.Tables {
		for _, p := range table.Partitions {
			for _, r := range p.Replicas {
				if r.Node == s.Node {
					g.f.t.Errorf("%s has a replica on the node of another region", table.Name)
				}
			}
		}
	}
}

// onlyMetadata checks that the data directory of a stopped node contains only a learner of the meta partition. It also
// checks that the voters are on other nodes.
func (g *gatewayLoad) onlyMetadata(far *member, home []*member) {
	g.f.t.Helper()
	s, err := recovery.Inspect(far.dir, encryption.KeySource{}, time.Now())
	if err != nil {
		g.f.t.Fatal(err)
	}
	if len(s.Replicas) != 1 || s.Replicas[0].Partition != keys.MetaPartition {
		g.f.t.Fatalf("the node holds %d replicas", len(s.Replicas))
	}
	m, err := keys.DecodeMeta(s.Replicas[0].Meta)
	if err != nil {
		g.f.t.Fatal(err)
	}
	voters := map[[16]byte]bool{}
	for _, v := range m.Voters {
		voters[v.Node] = true
	}
	if len(voters) != len(home) || voters[s.Node] {
		g.f.t.Errorf("the metadata has the voters %v", m.Voters)
	}
}

// wanDelay is the latency between the regions of TestGatewayLatency in each direction.
const wanDelay = 40 * time.Millisecond

// TestGatewayLatency measures requests through the node of another region before and after a change of the leader. The
// node does not know the new leader, but must not send a request twice. The test also checks that the home region
// works while the connection is cut. When the connection is back, the distant node must work.
func TestGatewayLatency(t *testing.T) {
	f := newFleet(t, "")
	f.wan = wan.New(t, 2)
	f.wan.SetDelay(0, 1, wanDelay)
	inRegion := func(space, number int, region string) *member {
		m := f.inRegion(region)
		m.ip, m.space = f.wan.Address(space, number), space
		m.args = append(m.args, "--insecure")
		return m
	}
	for i := range 3 {
		inRegion(0, i, "us").start()
	}
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k bigint PRIMARY KEY, v bigint)")
	process.Order(t, f.nodes[0].dir, "/region/add?region=eu")
	far := inRegion(1, 0, "eu")
	far.start()
	f.settleRegions(3)
	c := far.dial()
	measure := func(statement string) time.Duration {
		t.Helper()
		const n = 31
		took := make([]time.Duration, n)
		for i := range n {
			began := time.Now()
			if _, err := process.Query(c, dberr.LocalQuorum, fmt.Sprintf(statement, i)); err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[n/2]
	}
	both := func(when string) {
		t.Helper()
		for _, statement := range []string{"INSERT INTO ks.t (k, v) VALUES (%d, 1)",
			"SELECT v FROM ks.t WHERE k = %d"} {
			took := measure(statement)
			t.Logf("%s, %s: median %s, a round trip takes %s", when, statement, took.Round(100*time.Microsecond),
				2*wanDelay)
			if took < 2*wanDelay {
				t.Errorf("%s takes %s, less than a round trip", statement, took)
			}
		}
	}
	both("the leader is known")
	leader := f.leader("ks.t")
	f.nodes[0].order("drain", leader.id())
	f.until("another node leads", settleTime, func() string {
		if f.leader("ks.t") == leader {
			return leader.name() + " still leads"
		}
		return ""
	})
	before := far.sentAgain()
	both("another node leads")
	if n := far.sentAgain() - before; n > 0 {
		t.Errorf("%d requests were sent to another leader by the node in the other region", n)
	}
	f.wan.Cut(0, 1)
	if _, err := process.Query(f.nodes[1].dial(), dberr.Quorum, "INSERT INTO ks.t (k, v) VALUES (100, 1)"); err != nil {
		t.Errorf("the home region without the other region: %v", err)
	}
	f.wan.Heal(0, 1)
	f.until("the node forwards again", settleTime, func() string {
		c := far.dial()
		defer c.Close()
		r, err := process.Query(c, dberr.Quorum, "SELECT v FROM ks.t WHERE k = 100")
		if err != nil {
			return err.Error()
		}
		if number(r, "v", 0) != 1 {
			return "a row is missing"
		}
		return ""
	})
}

var sentAgain = regexp.MustCompile(`ilion_coordinator_retries_by_reason_total\{reason="not_leader"\} (\d+)`)

// sentAgain returns the number of requests that the node has sent to another node because the first node did not lead.
func (m *member) sentAgain() int {
	m.f.t.Helper()
	resp, err := process.Owner(m.dir).Get("http://localhost/metrics")
	if err != nil {
		m.f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		m.f.t.Fatal(err)
	}
	found := sentAgain.FindSubmatch(b)
	if found == nil {
		m.f.t.Fatalf("no number of retries in %.200s", b)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n
}
