// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ilion-db/ilion/internal/server/admin"
)

func get(t *testing.T, n *Node, path string) string {
	t.Helper()
	r, err := http.Get("http://" + n.HTTPAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", path, r.Status, b, err)
	}
	return string(b)
}

// TestMetrics proves that the metrics are named as Prometheus recommends, that they move, and that docs/operations.md
// explains each.
func TestMetrics(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := clusterNode(t, nil, Options{HTTP: "127.0.0.1:0"})
	other := clusterNode(t, n, Options{})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, heard := n.cluster.peers.Report(other.cluster.self); heard {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the second node says nothing")
		}
	}
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	c.query("INSERT INTO ks.t (k) VALUES (1)")
	c.query("SELECT * FROM ks.t WHERE k = 1")

	reg := prometheus.NewRegistry()
	reg.MustRegister(admin.Collector(n.shown()))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "ilion_") || !bytes.Contains(page, []byte("`"+f.GetName()+"`")) {
			t.Errorf("%s is not documented", f.GetName())
		}
	}
	for _, name := range regexp.MustCompile("`(ilion_[a-z_]+)`").FindAllSubmatch(page, -1) {
		found := false
		for _, f := range families {
			found = found || f.GetName() == string(name[1])
		}
		if !found && string(name[1]) != "ilion_cql_requests_total" { // no client has asked anything here
			t.Errorf("%s is documented and does not exist", name[1])
		}
	}
	text := get(t, n, "/metrics")
	for _, want := range []string{`ilion_statement_seconds_count{kind="select"} 1`,
		`ilion_statement_seconds_count{kind="modify"} 1`, "ilion_coordinator_writes_total 1", "go_goroutines "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

// TestStatus proves that /status shows the tables with their physical partitions, and what was done to them.
func TestStatus(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := startNode(t, Options{HTTP: "127.0.0.1:0", InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	for _, k := range []string{"1", "2", "3", "4", "5"} {
		c.query("INSERT INTO ks.t (k) VALUES (" + k + ")")
	}
	var s admin.Status
	if err := json.Unmarshal([]byte(get(t, n, "/status")), &s); err != nil {
		t.Fatal(err)
	}
	for _, table := range s.Tables {
		if table.Name != "ks.t" {
			continue
		}
		writes := uint64(0)
		for _, p := range table.Partitions {
			writes += p.Writes
		}
		if len(table.Partitions) != 3 || writes != 5 {
			t.Errorf("%d physical partitions with %d writes", len(table.Partitions), writes)
		}
		return
	}
	t.Errorf("no table ks.t in %+v", s)
}

// TestCheckpoint proves that a checkpoint of a node at work is a data directory of its own, with what was there when it
// was made.
func TestCheckpoint(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	dir := filepath.Join(t.TempDir(), "data")
	n := startNode(t, Options{HTTP: "127.0.0.1:0", Data: dir})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	c.query("INSERT INTO ks.t (k) VALUES (1)")
	r, err := http.Post("http://"+n.HTTPAddr().String()+"/checkpoint", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s (%v)", r.Status, answer, err)
	}
	c.query("INSERT INTO ks.t (k) VALUES (2)")
	restored := newClient(t, startNode(t, Options{Data: strings.TrimSpace(string(answer))}))
	if rows := restored.query("SELECT * FROM ks.t").RowCount; rows != 1 {
		t.Errorf("the checkpoint has %d rows, want 1", rows)
	}
	restored.query("INSERT INTO ks.t (k) VALUES (3)")
	if rows := c.query("SELECT * FROM ks.t").RowCount; rows != 2 {
		t.Errorf("the original has %d rows, want 2", rows)
	}
	if _, err := startNode(t, Options{}).checkpoint(); err == nil {
		t.Error("a checkpoint of data in memory")
	}
}
