// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/restclient"
)

// numbers returns a JSON array of n numbers.
func numbers(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }

// TestEvaluationIsPaidFor checks that evaluation work is charged to the partition that was read if the price of the
// reads does not cover it. The test covers an item query, a query that a replica aggregates, a SELECT, and an INSERT.
// Tests in package partition check that charges are deducted from the balance.
func TestEvaluationIsPaidFor(t *testing.T) {
	n := startNode(t, Options{UserFunctions: true})
	spent := func(table uint32) (units float64) {
		for _, p := range n.metadata.State().Topology.Partitions(table) {
			c := n.host.Replica(p.ID).Load().Counts()
			units += c.Units.Float()
		}
		return units
	}
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	s.do(key("k"), create(`{"id":"1","k":"k","a":`+numbers(600)+`}`))
	items := n.catalog.Snapshot().Keyspaces["d"].Tables["c"].ID
	for _, q := range []string{
		"SELECT VALUE 1 FROM c JOIN x IN c.a JOIN y IN c.a WHERE x + y = 3",
		"SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a WHERE x + y = 2",
		"SELECT VALUE c.id FROM c JOIN x IN c.a JOIN y IN c.a WHERE x + y = 3 ORDER BY c.id",
		"SELECT VALUE COUNT(1) FROM c WHERE EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.a WHERE x + y = 3)",
	} {
		before := spent(items)
		page, err := n.Containers.Query(t.Context(), s.c, &container.QueryRequest{Text: q, CrossPartition: true})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if cost := page.Charge.Float(); cost < 50 || spent(items)-before < cost*0.99 {
			t.Errorf("%s: costs %.0f RU, the partition was charged %.0f", q, cost, spent(items)-before)
		}
	}
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (p int PRIMARY KEY, v text)")
	c.query("CREATE FUNCTION k.f (v text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS " +
		"$$ int n = 0; for (int i = 0; i < 10000; i++) n += i; return v; $$")
	c.query("INSERT INTO k.t (p, v) VALUES (1, '" + strings.Repeat("x", 100_000) + "')")
	table := n.catalog.Snapshot().Keyspaces["k"].Tables["t"].ID
	for _, statement := range []string{
		"SELECT " + strings.TrimSuffix(strings.Repeat("to_json(to_json(v)),", 100), ",") + " FROM k.t WHERE p = 1",
		"SELECT " + strings.TrimSuffix(strings.Repeat("to_json(to_json(v)),", 100), ",") + " FROM k.t",
		"INSERT INTO k.t (p, v) VALUES (1, " + strings.Repeat("k.f(", 50) + "'x'" + strings.Repeat(")", 50) + ")",
	} {
		before := spent(table)
		cost := c.query(statement).Charge.Float()
		if cost < 50 || spent(table)-before < cost*0.99 {
			t.Errorf("%.60s: costs %.0f RU, the partition was charged %.0f", statement, cost, spent(table)-before)
		}
	}
}

// TestCancelledEvaluations checks that the sessions of a node list the evaluation of a REST query and of a CQL SELECT.
// The evaluation must end when the session is canceled, when the client disconnects, or when the time limit of a
// shutdown expires.
func TestCancelledEvaluations(t *testing.T) {
	n := startNode(t, Options{UserFunctions: true,
		REST: options.REST{Address: "127.0.0.1:0", PrimaryKey: restclient.Key}})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	s.do(key("k"), create(`{"id":"1","k":"k","a":`+numbers(2_000)+`}`))
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (p int PRIMARY KEY, v text)")
	c.query("INSERT INTO k.t (p, v) VALUES (1, 'x')")
	c.query("CREATE FUNCTION k.slow (v text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE javascript AS " +
		"$$var end = Date.now() + 300; while (Date.now() < end); return v;$$")
	overREST := func(ctx context.Context) error {
		client := restclient.New(n.RESTAddr().String(), time.Minute)
		defer client.Close()
		status, _, err := client.Ask(ctx, &restclient.Request{Method: http.MethodPost, Path: "dbs/d/colls/c/docs",
			Key: "k", Headers: map[string]string{"x-ms-documentdb-isquery": "True",
				"Content-Type": "application/query+json"},
			Body: map[string]any{"query": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a"}}, nil)
		if err == nil {
			return fmt.Errorf("the query was answered: %d", status)
		}
		return nil
	}
	overCQL := func(ctx context.Context) error {
		client, err := rawclient.Dial(ctx, n.CQLAddr().String(), rawclient.Options{Timeout: time.Minute})
		if err != nil {
			return err
		}
		defer client.Close()
		stop := context.AfterFunc(ctx, func() { _ = client.Close() })
		defer stop()
		_, err = client.Query("SELECT " + strings.TrimSuffix(strings.Repeat("k.slow(v),", 15), ",") + " FROM k.t")
		if e := (*cqlwire.Error)(nil); err == nil || errors.As(err, &e) {
			return fmt.Errorf("the SELECT was answered: %v", err)
		}
		return nil
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, test := range map[string]struct {
		ask      func(ctx context.Context) error
		want     string
		shutdown func()
	}{
		"REST": {overREST, "query items dbs/d/colls/c", func() { _ = n.account.REST.Shutdown(ended) }},
		"CQL":  {overCQL, "SELECT", func() { n.cql.Shutdown(ended) }},
	} {
		for _, end := range []string{"cancel", "leave", "shutdown"} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- test.ask(ctx) }()
			var found catalog.Session
			find := func() bool {
				found = catalog.Session{}
				for _, s := range n.diagnostics.ListSessions(t.Context(), 100).Sessions {
					if s.ActiveRequests > 0 && strings.HasPrefix(s.Statement, test.want) {
						found = s
					}
				}
				return found.ID != ""
			}
			eventually.True(t, "the request over "+name+" is listed", find)
			switch end {
			case "cancel":
				said, err := n.diagnostics.CancelSession(t.Context(), found.ID)
				if err != nil || !strings.Contains(said, "is closed") {
					t.Errorf("%s: %s %v", name, said, err)
				}
			case "leave":
				cancel()
			default:
				test.shutdown()
			}
			if err := <-done; err != nil {
				t.Errorf("%s, %s: %v", name, end, err)
			}
			eventually.True(t, "the evaluation over "+name+" has ended", func() bool {
				return !find() && n.account.REST.Stats().InFlight.Load() == 0 && n.cql.Stats().Working.Load() == 0
			})
			cancel()
		}
	}
}

// TestLongEvaluationsLeaveTheConnection checks that an INSERT with expensive values is not evaluated on its
// connection's goroutine. This goroutine must be able to detect that the client disconnects. A short INSERT must be
// evaluated on this goroutine.
func TestLongEvaluationsLeaveTheConnection(t *testing.T) {
	n := startNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (p int PRIMARY KEY, v blob)")
	id := c.prepare("INSERT INTO k.t (p, v) VALUES (?, " + strings.Repeat("text_as_blob(blob_as_text(", 10) + "?" +
		strings.Repeat("))", 10) + ")")
	for size, offloaded := range map[int]bool{10: false, 600 << 10: true} {
		c.call.Result.Reset()
		c.call.MayBlock = false
		c.call.Request.ID, c.call.Request.Values = id, [][]byte{{0, 0, 0, 1}, []byte(strings.Repeat("x", size))}
		status := c.s.Execute(t.Context(), &c.call)
		if (status == session.Offload) != offloaded {
			t.Errorf("%d bytes: status %d", size, status)
		}
		if status == session.Offload {
			c.call.MayBlock = true
			status = c.s.Execute(t.Context(), &c.call)
		}
		if err := c.wait(status).Err; err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
