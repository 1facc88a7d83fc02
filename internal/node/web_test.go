// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/eventually"
)

func get(t *testing.T, n *Node, path string) string {
	t.Helper()
	r, err := http.Get("http://" + n.HTTPAddr().String() + path)
	return webPage(t, path, r, err)
}

// orderBySocket sends a request as the owner of the data directory.
func orderBySocket(t *testing.T, n *Node, path string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.opts.Data, AdminSocket))
		}}}
	r, err := client.Post("http://localhost"+path, "", nil)
	return webPage(t, path, r, err)
}

// webPage reads a response and fails the test unless its status is 200.
func webPage(t *testing.T, path string, r *http.Response, err error) string {
	t.Helper()
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

// TestHTTPByRole checks that a node with users shows its status to authorized roles and accepts their requests.
// Permissions on management beans must take effect immediately. The health page must be public, and the owner of the
// data directory must need no password.
func TestHTTPByRole(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := startNode(t, Options{HTTP: "127.0.0.1:0", Data: filepath.Join(t.TempDir(), "data"),
		Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}, AnonymousEndpoints: []string{"metrics"}}})
	boss := newClientAs(t, n, "boss")
	ask := func(method, page, user, password string) int {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+n.HTTPAddr().String()+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for _, step := range []struct {
		statement, method, page, user, password string
		want                                    int
	}{
		{"", "GET", "/healthz", "", "", 200},
		{"", "GET", "/metrics", "", "", 200},
		{"", "GET", "/status", "", "", 401},
		{"", "GET", "/status", "boss", "wrong", 401},
		{"", "GET", "/status", "boss", "b", 200},
		{"", "POST", "/compact", "", "", 401},
		{"", "POST", "/compact", "boss", "b", 200},
		{"CREATE ROLE low WITH PASSWORD = 'l' AND LOGIN = true", "GET", "/status", "low", "l", 403},
		{"GRANT SELECT ON ALL MBEANS TO low", "GET", "/status", "low", "l", 200},
		{"", "POST", "/compact", "low", "l", 403},
		{"GRANT EXECUTE ON ALL MBEANS TO low", "POST", "/compact", "low", "l", 200},
		{"ALTER ROLE low WITH LOGIN = false", "GET", "/status", "low", "l", 401},
	} {
		if step.statement != "" {
			boss.query(step.statement)
		}
		if got := ask(step.method, step.page, step.user, step.password); got != step.want {
			t.Errorf("%s %s %s as %q: %d, want %d", step.statement, step.method, step.page, step.user, got, step.want)
		}
	}
	orderBySocket(t, n, "/compact")
	for _, path := range []string{n.opts.Data, filepath.Join(n.opts.Data, AdminSocket)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

// TestMetrics checks that the metrics follow the naming rules of Prometheus and that their values change.
// docs/metrics.md must explain each metric.
func TestMetrics(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	n := clusterNode(t, nil, Options{HTTP: "127.0.0.1:0", InitialPartitions: 16})
	other := clusterNode(t, n, Options{})
	eventually.True(t, "the second node reports", func() bool {
		_, heard := n.cluster.peers.Report(other.cluster.self)
		return heard
	})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY) WITH throughput = 100000")
	c.query("INSERT INTO ks.t (k) VALUES (1)")
	c.query("SELECT * FROM ks.t WHERE k = 1")

	reg := prometheus.NewRegistry()
	reg.MustRegister(n.collectors()...)
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
	page, err := os.ReadFile("../../docs/metrics.md")
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
		// This test has no protocol clients, no certificates, and no encryption.
		if !found && string(name[1]) != "ilion_cql_requests_total" &&
			!bytes.HasPrefix(name[1], []byte("ilion_encryption_")) &&
			string(name[1]) != "ilion_certificate_expiry_timestamp_seconds" {
			t.Errorf("%s is documented but does not exist", name[1])
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

// TestStatus checks that /status shows the tables with their physical partitions and the number of writes.
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

// TestCheckpoint checks that a checkpoint of a running node is an independent data directory. Its content must be the
// node's content at the time of the checkpoint.
func TestCheckpoint(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	dir := filepath.Join(t.TempDir(), "data")
	n := startNode(t, Options{HTTP: "127.0.0.1:0", Data: dir})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY)")
	c.query("INSERT INTO ks.t (k) VALUES (1)")
	answer := orderBySocket(t, n, "/checkpoint")
	c.query("INSERT INTO ks.t (k) VALUES (2)")
	restored := newClient(t, startNode(t, Options{Data: strings.TrimSpace(answer)}))
	if rows := restored.query("SELECT * FROM ks.t").RowCount; rows != 1 {
		t.Errorf("the checkpoint has %d rows, want 1", rows)
	}
	restored.query("INSERT INTO ks.t (k) VALUES (3)")
	if rows := c.query("SELECT * FROM ks.t").RowCount; rows != 2 {
		t.Errorf("the original has %d rows, want 2", rows)
	}
	if _, err := startNode(t, Options{}).maintenance.Checkpoint(); err == nil {
		t.Error("a checkpoint of an in-memory node succeeded")
	}
}

// TestLatencyViews checks that the latency views of system_views count a table's requests by kind. The views must not
// contain dropped tables.
func TestLatencyViews(t *testing.T) {
	n := startNode(t, Options{Data: t.TempDir()})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	for range 3 {
		c.query("INSERT INTO ks.t (k, v) VALUES (1, 1)")
	}
	for range 2 {
		c.query("SELECT v FROM ks.t WHERE k = 1")
	}
	c.query("SELECT v FROM ks.t")
	for view, want := range map[string]uint64{"coordinator_write_latency": 3, "coordinator_read_latency": 2,
		"coordinator_scan_latency": 1} {
		of := "SELECT count FROM system_views." + view + " WHERE keyspace_name = 'ks' AND table_name = 't'"
		r := c.query(of)
		if r.RowCount != 1 || binary.BigEndian.Uint64(r.Cells[4:]) != want {
			t.Errorf("%s: %d rows, %x, want a count of %d", view, r.RowCount, r.Cells, want)
		}
	}
	c.query("DROP TABLE ks.t")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	if r := c.query("SELECT * FROM system_views.coordinator_read_latency"); r.RowCount != 0 {
		t.Errorf("%d tables are listed after the drop, want 0", r.RowCount)
	}
}
