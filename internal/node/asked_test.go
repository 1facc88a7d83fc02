// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// asked sends a request for path to the HTTP interface of n and decodes the JSON response.
func asked[T any](t *testing.T, n *Node, path string) (out T) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, n, path)), &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

// post sends a POST request to n and returns the status code of the response.
func post(t *testing.T, n *Node, path, body string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post("http://"+n.HTTPAddr().String()+path, "", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

// greet opens a CQL connection to n and sends a STARTUP message with driver as the driver name.
func greet(t *testing.T, n *Node, driver string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", n.CQLAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	pairs := []string{"CQL_VERSION", "3.0.0", "DRIVER_NAME", driver, "DRIVER_VERSION", "1\x1b[2J"}
	body := []byte{0, byte(len(pairs) / 2)}
	for _, s := range pairs {
		body = append(append(body, byte(len(s)>>8), byte(len(s))), s...)
	}
	if _, err := nc.Write(rawclient.AppendFrame(nil, 0, cqlwire.OpStartup, body)); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return nc
}

// TestAskedOfACluster checks that every node reports on the whole cluster over HTTP and in keyspace ilion. The reports
// cover sessions, slow requests, the ring, the location of a logical partition, and one table. Any node must be able
// to cancel a session on another node. Reports must name a node that does not respond.
func TestAskedOfACluster(t *testing.T) {
	o := Options{HTTP: "127.0.0.1:0", SlowQueryLogTimeout: new(time.Microsecond), InitialPartitions: 3}
	o.Data = t.TempDir()
	a := clusterNode(t, nil, o)
	o.Data = t.TempDir()
	b := clusterNode(t, a, o)
	o.Data = t.TempDir()
	third := clusterNode(t, a, o)
	nodes := []*Node{a, b, third}
	eventually.True(t, "three nodes know each other", func() bool {
		return !slices.ContainsFunc(nodes, func(n *Node) bool { return len(n.queries.LiveNodes()) < 2 })
	})
	ca, cb := newClient(t, a), newClient(t, b)
	ca.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	ca.query("CREATE TABLE k.t (id int, name text, c int, v text, PRIMARY KEY ((id, name), c))")
	for i := range 20 {
		ca.query(fmt.Sprintf("INSERT INTO k.t (id, name, c, v) VALUES (%d, 'n', 1, 'secret')", i))
		cb.query(fmt.Sprintf("SELECT v FROM k.t WHERE id = %d AND name = 'n'", i))
	}
	ca.query("DELETE FROM k.t WHERE id = 1 AND name = 'n' AND c = 1")

	// This part checks the sessions.
	conn := greet(t, b, "evil\x1b]0;x\x07")
	var found catalog.Session
	eventually.True(t, "the session is shown at another node", func() bool {
		all := asked[catalog.Sessions](t, a, "/sessions")
		for _, s := range all.Sessions {
			if s.Driver == "evil\x1b]0;x\x07" {
				found = s
			}
		}
		return found.ID != "" && found.State == "ready" && all.Connections > 0 && len(all.Silent) == 0
	})
	if found.Node != fmt.Sprintf("%x", b.cluster.self) || found.Protocol != 4 || found.Address !=
		conn.LocalAddr().String() {
		t.Errorf("%+v", found)
	}
	if r := ca.query("SELECT id, driver_name FROM ilion.sessions"); !strings.Contains(string(r.Cells), found.ID) {
		t.Errorf("ilion.sessions has no %s", found.ID)
	}
	if code := post(t, a, "/sessions/cancel?id="+found.ID, ""); code != http.StatusForbidden {
		t.Errorf("canceled without permission: status %d", code)
	}
	if text := orderBySocket(t, third, "/sessions/cancel?id="+found.ID); !strings.Contains(text, "is closed") {
		t.Errorf("canceled: %s", text)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if _, err := third.diagnostics.CancelSession(t.Context(), found.ID); err == nil ||
		!strings.Contains(err.Error(), "the session does not exist") {
		t.Errorf("second cancellation: %v", err)
	}

	// This part checks slow requests.
	told := asked[slowlog.Report](t, third, "/slow")
	by := map[string]int{}
	for _, r := range told.Requests {
		by[r.Node]++
		if strings.Contains(r.Statement, "secret") || r.At.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	if by[fmt.Sprintf("%x", a.cluster.self)] < 20 || by[fmt.Sprintf("%x", b.cluster.self)] < 20 {
		t.Errorf("slow requests by node: %v", by)
	}
	if r := ca.query("SELECT count(*) FROM ilion.slow_queries"); r.RowCount != 1 {
		t.Error("no slow queries in keyspace ilion")
	}
	r := cb.query("SELECT statement FROM ilion.slow_statements WHERE keyspace_name = 'k' AND table_name = 't'")
	if !strings.Contains(string(r.Cells), "INSERT INTO k.t (id, name, c, v) VALUES (?, ?, ?, ?)") {
		t.Errorf("ilion.slow_statements: %q", r.Cells)
	}
	if page := get(t, third, "/ui/slow"); !strings.Contains(page, "INSERT INTO k.t") {
		t.Errorf("the page has no slow request:\n%s", page)
	}

	// This part checks the ring and the location of a key.
	var share float64
	for _, n := range asked[[]catalog.RingNode](t, b, "/ring") {
		share += n.Share
		if len(n.Tokens) != 1 || n.Address == "" || n.State != "up" {
			t.Errorf("%+v", n)
		}
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("the shares of the ring add up to %v", share)
	}
	if r := ca.query(`SELECT "token" FROM ilion.ring`); r.RowCount != 3 {
		t.Errorf("ilion.ring has %d tokens", r.RowCount)
	}
	places(t, nodes)

	eventually.True(t, "the table is told of", func() bool {
		r := asked[admin.TableReport](t, third, "/table?table=k.t")
		return r.Sampled && r.Rows == 19 && r.Tombstones >= 1 && r.Write.Count == 21 && r.Read.Count == 20 &&
			r.PhysicalPartitions == 3 && r.Write.P99 > 0 && r.TotalUnits > 0 && len(r.LargeKeys) > 0 &&
			len(r.Silent) == 0
	})
	if r := cb.query("SELECT rows, write_count FROM ilion.tables WHERE keyspace_name = 'k'"); r.RowCount != 1 {
		t.Errorf("%d rows of ilion.tables", r.RowCount)
	}

	// This part checks the reports that are returned while a node is down.
	name := a.queries.Name(third.cluster.self)
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, silent := range map[string][]string{"sessions": a.diagnostics.ListSessions(ctx, 10).Silent,
		"slow":  a.diagnostics.SlowQueries(ctx).Unreachable,
		"table": asked[admin.TableReport](t, a, "/table?table=k.t").Silent} {
		if !slices.Equal(silent, []string{name}) {
			t.Errorf("%s: silent nodes: %v, want %s", what, silent, name)
		}
	}
}

// places checks that all nodes return the same location for a key. It uses quoted and unquoted keys. It also checks
// that the error for an invalid key names the mistake.
func places(t *testing.T, nodes []*Node) {
	want := token.Hash(token.AppendKey(nil, []byte{0, 0, 0, 7}, []byte("it's")))
	for _, n := range nodes {
		for _, key := range [][]string{{"7", "it's"}, {"7", "'it''s'"}} {
			var e catalog.Endpoints
			eventually.True(t, "the partition has a leader", func() bool {
				q := url.Values{"keyspace": {"k"}, "table": {"t"}, "key": key}
				e = asked[catalog.Endpoints](t, n, "/endpoints?"+q.Encode())
				return e.Leader != ""
			})
			p := n.metadata.State().Topology.Partition(topology.PartitionID(e.Partition))
			if e.Token != int64(want) || e.BeginToken > e.Token || e.EndToken < e.Token || p == nil ||
				len(e.Replicas) != len(p.Sets[0].Replicas) || !e.Replicas[0].Up || e.Replicas[0].Address == "" {
				t.Errorf("%q: %+v, want token %d", key, e, want)
			}
		}
	}
	for _, c := range []struct {
		table string
		key   []string
		want  string
	}{{"k.t", []string{"7"}, "give 2 values, not 1"}, {"k.t", []string{"x", "y"}, "id is of type int"},
		{"k.none", []string{"7"}, "table k.none does not exist"}, {"system.local", []string{"x"}, "is a system table"},
		{"k.t", []string{"7", strings.Repeat("x", 65_535+1)}, "the limit is 65535"},
		{"k.t", []string{"7", strings.Repeat("x", 10*65_535)}, "the limit is 65535"},
		{"k.t", []string{"null", "x"}, "id is of type int"}, {"k.t", []string{"?", "x"}, "id is of type int"}} {
		_, err := nodes[0].diagnostics.Endpoints(t.Context(), c.table, c.key)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: %v, want %q", c.table, c.key, err, c.want)
		}
	}
	long := url.Values{"keyspace": {"k"}, "table": {"t"}, "key": {"7", strings.Repeat("\xff\x00é", 10_000)}}
	if code := post(t, nodes[0], "/endpoints", long.Encode()); code != http.StatusNotFound {
		t.Errorf("a key that is not valid UTF-8: status %d", code)
	}
}
