// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// TestAdvice checks that a node gives the same advice in the virtual table and over HTTP. The advice is based on rows
// sampled in all physical partitions. Tables without rows have no findings.
func TestAdvice(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := startNode(t, Options{InitialPartitions: 3, HTTP: "127.0.0.1:0"})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.foods (food_group text, id int, name text, PRIMARY KEY (food_group, id))")
	c.query("CREATE TABLE ks.server_logs (log_hour timestamp PRIMARY KEY, log_level text, message text, server text)")
	if reports, err := n.stats.Advise(t.Context(), ""); err != nil || len(reports) != 2 ||
		len(reports[0].Findings)+len(reports[1].Findings) > 0 {
		t.Errorf("without rows: %+v, %v", reports, err)
	}
	insert := c.prepare("INSERT INTO ks.foods (food_group, id, name) VALUES (?, ?, ?)")
	number := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	for i := range 250 {
		c.execute(insert, fmt.Append(nil, "group ", i%25), number(i/25), []byte("food"))
	}
	c.query("ALTER TABLE ks.foods WITH cosmosdb_provisioned_throughput = 18000")
	log := c.prepare("INSERT INTO ks.server_logs (log_hour, log_level, message, server) VALUES (?, 'INFO', 'm', 's')")
	for i := range 240 {
		hour := time.Date(2026, 11, 2, i%12, 0, 0, 0, time.UTC).UnixMilli()
		c.execute(log, binary.BigEndian.AppendUint64(nil, uint64(hour)))
	}
	var reports []advise.Report
	body := get(t, n, "/advise?table=ks.foods")
	if err := json.Unmarshal([]byte(body), &reports); err != nil || len(reports) != 1 {
		t.Fatalf("%s, %v", body, err)
	}
	f := reports[0].Figures
	if f.Surveyed != 3 || !f.Complete || f.LogicalPartitions != 25 || f.Rows != 250 {
		t.Errorf("figures of foods: %+v", f)
	}
	if got := reports[0].Findings; len(got) != 1 || got[0].Kind != advise.FewKeys {
		t.Errorf("foods: %+v", got)
	}
	shown := c.query("SELECT kind, headline FROM ilion.advice WHERE keyspace_name = 'ks'")
	cells := string(shown.Cells)
	if shown.RowCount != 2 || !strings.Contains(cells, reports[0].Findings[0].Headline) ||
		!strings.Contains(cells, "single-row") || !strings.Contains(cells, "228 of 240 writes") {
		t.Errorf("%d rows: %q", shown.RowCount, cells)
	}
	for range 3 {
		c.query("SELECT * FROM ks.server_logs WHERE server = 's' ALLOW FILTERING")
	}
	c.query("SELECT * FROM ks.server_logs WHERE log_hour = '2026-11-02 05:00Z'")
	reports, err := n.stats.Advise(t.Context(), "ks.server_logs")
	if err != nil || len(reports[0].Findings) != 2 {
		t.Fatalf("%+v, %v", reports, err)
	}
	scans := reports[0].Findings[1]
	const price = 3*2.5 + 12*0.02 + 12*35/11264.
	if scans.Kind != advise.FanOut || scans.Evidence[0].Value != 3 || math.Abs(scans.Evidence[1].Value-price) > 1e-9 ||
		!strings.Contains(scans.Proposal.DDL, "PRIMARY KEY (server, log_hour)") {
		t.Errorf("scans: %+v", scans)
	}
	c.query("CREATE TABLE ks.orders (customer int, at int, state text, items text, PRIMARY KEY (customer, at, state))")
	for i := range 400 {
		state := "sent"
		if i%100 == 0 {
			state = "open"
		}
		c.query(fmt.Sprintf("INSERT INTO ks.orders (customer, at, state, items) VALUES (1, %d, '%s', 'some items')", i,
			state))
	}
	c.query("SELECT * FROM ks.orders WHERE customer = 1 AND at = 5") // this query examines only rows that it returns
	c.query("SELECT * FROM ks.orders WHERE customer = 1 AND state = 'open' ALLOW FILTERING")
	if reports, err = n.stats.Advise(t.Context(), "ks.orders"); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(reports[0].Findings, func(f advise.Finding) bool { return f.Kind == advise.Filtering })
	if i < 0 || reports[0].Findings[i].Evidence[0].Value != 1 || reports[0].Findings[i].Evidence[2].Value != 4 ||
		!strings.Contains(reports[0].Findings[i].Proposal.DDL, "PRIMARY KEY (customer, state, at)") {
		t.Errorf("a read that filters: %+v", reports[0].Findings)
	}
	for table, want := range map[string]string{
		"ks.none": "does not exist", "foods": "keyspace", "system.local": "is a system table",
	} {
		if _, err := n.stats.Advise(t.Context(), table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", table, err)
		}
	}
}

// TestAdviceOfAllNodes checks that every node of a cluster gives the same advice on a table. The advice must include
// partitions that other nodes lead. It must also include reads that clients sent to other nodes.
func TestAdviceOfAllNodes(t *testing.T) {
	a := clusterNode(t, nil, Options{InitialPartitions: 4})
	b := clusterNode(t, a, Options{InitialPartitions: 4})
	eventually.True(t, "two nodes know each other", func() bool {
		return len(a.metadata.State().Nodes) == 2 && len(b.metadata.State().Nodes) == 2
	})
	c := newClient(t, a)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
	for i := range 60 {
		c.query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, 'v')", i))
	}
	eventually.True(t, "the other node has the table", func() bool {
		return b.catalog.Snapshot().Table("ks", "t") != nil
	})
	for _, n := range []*Node{a, b} {
		newClient(t, n).query("SELECT * FROM ks.t")
	}
	for _, n := range []*Node{a, b} {
		reports, err := n.stats.Advise(t.Context(), "ks.t")
		if err != nil {
			t.Fatal(err)
		}
		r := reports[0]
		if f := r.Figures; f.Surveyed != 4 || f.LogicalPartitions != 60 || !f.Complete {
			t.Errorf("figures: %+v", f)
		}
		if len(r.Findings) != 1 || r.Findings[0].Kind != advise.FanOut || r.Findings[0].Evidence[0].Value != 2 {
			t.Errorf("findings: %+v", r.Findings)
		}
	}
}

// TestAdviceOnTraffic checks that the advice names the key that causes most of a table's cost, even if its logical
// partition is small.
func TestAdviceOnTraffic(t *testing.T) {
	t.Parallel()
	now := aMinute()
	n := startNode(t, Options{HTTP: "127.0.0.1:0",
		Testing: options.Testing{Clock: fakeclock.Func(func() time.Time { return now })}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
	for k := range 100 {
		c.query(fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, 1, 'x')", k))
	}
	for range 1200 { // these reads cost 6,000 request units
		c.query("UPDATE ks.t SET v = 'y' WHERE k = 7 AND c = 1")
	}
	n.host.TickUsage(now.Add(time.Second))
	reports, err := n.stats.Advise(t.Context(), "ks.t")
	if err != nil || len(reports) != 1 || len(reports[0].Findings) != 1 ||
		!strings.HasPrefix(reports[0].Findings[0].Headline, "load is uneven: k = 7 uses 92") {
		t.Errorf("%+v, %v", reports, err)
	}
}
