// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/usage"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// aMinute returns a time near the beginning of the current minute. Keys are counted per minute.
func aMinute() time.Time { return time.Now().Truncate(time.Minute).Add(10 * time.Second) }

// TestUsageIsShown checks that the views, the JSON report, the heat map, and the metrics show the usage of a physical
// partition. The reports must name, in readable form, the key that causes the load. A partition that rejects requests
// must be reported as hot.
func TestUsageIsShown(t *testing.T) {
	now := aMinute()
	n := startNode(t, Options{HTTP: "127.0.0.1:0",
		Testing: options.Testing{Clock: fakeclock.Func(func() time.Time { return now })}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (city text, day int, v text, PRIMARY KEY ((city, day))) WITH throughput = 400")
	c.query("INSERT INTO k.t (city, day, v) VALUES ('Bern', 1, 'x')")
	insert := c.prepare("INSERT INTO k.t (city, day, v) VALUES ('Troy', 7, ?)")
	try := func() error {
		c.call.Result.Reset()
		c.call.Request.ID, c.call.Request.Values = insert, [][]byte{bytes.Repeat([]byte("x"), 1<<20)}
		return c.wait(c.s.Execute(t.Context(), &c.call)).Err
	}
	refuse := func() {
		for i := 0; try() == nil; i++ {
			if i > 10_000 {
				t.Fatal("no request is rejected")
			}
		}
	}
	refuse()
	for s := range 8 { // like the host, but without the wait
		n.host.TickUsage(now.Add(time.Duration(s+1) * time.Second))
		refuse()
	}
	const mine = " WHERE keyspace_name = 'k' AND table_name = 't' "
	for query, want := range map[string]string{
		"SELECT key FROM ilion.hot_keys" + mine + "LIMIT 1":    "city = 'Troy' AND day = 7",
		"SELECT hottest_key FROM ilion.partition_usage" + mine: "'Troy'",
		"SELECT top_key FROM ilion.usage_history" + mine:       "'Troy'",
		"SELECT table_name FROM ilion.partition_usage" + mine + "AND throughput = 400 AND throttled > 5 " +
			"AND hot_since > 0 ALLOW FILTERING": "t",
	} {
		if got := string(c.query(query).Cells); !strings.Contains(got, want) {
			t.Errorf("%s: %q", query, got)
		}
	}
	var shown struct{ Tables []admin.TableUsage }
	if err := json.Unmarshal([]byte(get(t, n, "/usage?table=k.t")), &shown); err != nil || len(shown.Tables) != 1 {
		t.Fatalf("%+v, %v", shown, err)
	}
	p := shown.Tables[0].Partitions[0]
	if p.Throughput != 400 || p.Utilisation <= 0 || p.HotSince == "" || len(p.HotKeys) != 2 || p.Share != 1 ||
		p.HotKeys[0].Key != "city = 'Troy' AND day = 7" || p.Kinds["write"] < 2 || p.TotalThrottled < 5 {
		t.Errorf("%+v", p)
	}
	if h := get(t, n, "/usage/history"); !strings.Contains(h, `"top_key": "city = 'Troy' AND day = 7"`) {
		t.Error(h)
	}
	if h := get(t, n, "/ui/heat?table=k.t"); !strings.Contains(h, "<svg") || !strings.Contains(h, ` refused"`) ||
		!strings.Contains(h, "busiest key: city = &#39;Troy&#39; AND day = 7") {
		t.Error(h)
	}
	metrics := get(t, n, "/metrics")
	for _, want := range []string{"ilion_partitions_hot 1", "ilion_hot_partition_events_total 1",
		fmt.Sprintf(`ilion_partition_hot{partition="%d",table="k.t"} 1`, p.ID),
		fmt.Sprintf(`ilion_partition_throttled_total{partition="%d",table="k.t"}`, p.ID)} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// TestUsageOfCluster checks that each node shows the sum of the usage that all nodes have measured. A change of
// leaders must not lose any usage.
func TestUsageOfCluster(t *testing.T) {
	t.Parallel()
	a := clusterNode(t, nil, steady(Options{InitialPartitions: 1}))
	b := clusterNode(t, a, steady(Options{}))
	c := clusterNode(t, a, steady(Options{}))
	nodes := []*Node{a, b, c}
	eventually.True(t, "three voters", func() bool { return voters(a) == 3 })
	ask := newClient(t, a)
	ask.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	ask.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	id := a.catalog.Snapshot().Table("k", "t").ID
	var done uint64 // each unit is a write and a read
	work := func() {
		for i, n := range nodes {
			c := newClient(t, n)
			for j := range 10 {
				c.query(fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, %d)", j%3, i))
				c.query("SELECT v FROM k.t WHERE k = 7")
				done++
			}
		}
	}
	// Each attempt that reaches the leader is counted, and an unplanned change of leaders causes more attempts.
	retries := func() (sum uint64) {
		for _, n := range nodes {
			r := n.coordinator.Stats().RetryReasons
			sum += r.NotLeader + r.Moved + r.Unreachable + r.Busy + r.DedupeUnknown + r.Unconfirmed + r.Unknown
		}
		return sum
	}
	hottest := func(h usage.HeavyPartition) bool { return h.Name == "k = 0" }
	// A remote client may receive its response before the request is counted.
	same := func(when string, named bool) {
		t.Helper()
		for _, n := range nodes {
			eventually.None(t, when, eventually.Limit, func() string {
				list := n.stats.Usage(t.Context(), usage.ReportOptions{Table: id, Keys: 3})
				if len(list) != 1 {
					return fmt.Sprintf("a node shows %+v", list)
				}
				c := list[0].Counts
				writes, reads := c.Requests[usage.Write], c.Requests[usage.Point]
				if more := done + retries(); writes > more || reads > more || c.RequestCount() != writes+reads {
					t.Fatalf("%s: %d writes and reads, but a node shows %+v", when, done, list)
				}
				if writes < done || reads < done || c.Total().Float() != float64(5*writes+reads) {
					return fmt.Sprintf("%d writes and reads, but a node shows %+v", done, list)
				}
				if named && !slices.ContainsFunc(list[0].Top.Keys, hottest) {
					return fmt.Sprintf("the busiest keys are %+v", list[0].Top.Keys)
				}
				return ""
			})
		}
	}
	eventually.True(t, "three voters of the table", func() bool { return voters(b) == 3 })
	work()
	same("before", true)
	leader := a.host.Replica(a.metadata.State().Topology.Partitions(id)[0].ID)
	before, _ := leader.Leader()
	if _, err := a.cluster.operations.SetState(t.Context(), fmt.Sprintf("%x", before), meta.Draining); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "another node leads", func() bool {
		now, ok := leader.Leader()
		return ok && now != before
	})
	same("after a change of leaders", false) // a key without recent requests is not hot
	work()
	same("and after more requests", true)
}

// TestUsageOfSharers checks that the usage reports distinguish the tables that share the throughput of their keyspace.
// A report must show the table's part of the common usage even if the report covers only one table.
func TestUsageOfSharers(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{HTTP: "127.0.0.1:0"})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND throughput = 6000")
	c.query("CREATE TABLE k.a (k int PRIMARY KEY)")
	c.query("CREATE TABLE k.b (k int PRIMARY KEY)")
	c.query("CREATE TABLE k.own (k int PRIMARY KEY) WITH throughput = 400")
	for i := range 4 {
		c.query(fmt.Sprintf("INSERT INTO k.%c (k) VALUES (%d)", "aaab"[i], i))
	}
	c.query("INSERT INTO k.own (k) VALUES (1)")
	n.host.TickUsage(time.Now().Add(time.Second))
	for table, want := range map[string]float64{"k.a": 0.75, "k.b": 0.25, "k.own": 0} {
		list := n.reports.ShowUsage(t.Context(), table, false)
		if len(list) != 1 || list[0].SharedPart != want || (list[0].Shared == 6000) != (want > 0) {
			t.Errorf("%s: %+v", table, list)
		}
	}
}
