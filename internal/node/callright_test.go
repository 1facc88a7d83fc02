// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestCallPermission checks that CALL requires EXECUTE on the procedure or on the functions of the keyspace. CALL must
// require no permission on the container. A permission on one procedure must not apply to another procedure.
// Permissions must be listed, and dropping a procedure must remove its permissions.
func TestCallPermission(t *testing.T) {
	n := startNode(t, Options{Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}}})
	newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	for _, id := range []string{"p", "Other", "OTHER"} {
		newProcedure(t, n, "c", id, echo)
	}
	boss := driver(t, n, "boss", "b")
	do := func(s *gocql.Session, text string) error { return s.Query(text).Exec() }
	// A keyspace and a table can still be named procedure.
	for _, text := range []string{"CREATE ROLE low WITH PASSWORD = 'l' AND LOGIN = true",
		"GRANT MODIFY ON KEYSPACE d TO low", "CREATE TABLE d.procedure (k int PRIMARY KEY)",
		"GRANT SELECT ON d.procedure TO low", "CREATE KEYSPACE procedure WITH replication = {'class': 'SimpleStrategy', " +
			"'replication_factor': 1}", "CREATE TABLE procedure.t (k int PRIMARY KEY)",
		"GRANT SELECT ON procedure.t TO low"} {
		if err := boss.Query(text).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	low := driver(t, n, "low", "l")
	refused := func(text, on string) {
		t.Helper()
		err := do(low, text)
		unauthorized, _ := errors.AsType[gocql.RequestError](err)
		if unauthorized == nil || unauthorized.Code() != gocql.ErrCodeUnauthorized ||
			!strings.Contains(err.Error(), "User low has no EXECUTE permission on <procedure "+on+"> or any") {
			t.Errorf("%s: %v", text, err)
		}
	}
	must := func(s *gocql.Session, text string) {
		t.Helper()
		if err := do(s, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, on := range []string{"PROCEDURE d.c.p", "ALL FUNCTIONS IN KEYSPACE d"} {
		refused("CALL d.c.p('x')", "d.c.p")
		must(boss, "GRANT EXECUTE ON "+on+" TO low")
		must(low, "CALL d.c.p('x')")
		must(low, "CALL d.p('x')")
		if strings.HasPrefix(on, "PROCEDURE") {
			refused(`CALL d.c."Other"('x')`, "d.c.Other")
		} else {
			must(low, `CALL d.c."Other"('x')`)
		}
		must(boss, "REVOKE EXECUTE ON "+on+" FROM low")
	}
	refused("CALL d.c.p('x')", "d.c.p")

	must(boss, `GRANT EXECUTE, AUTHORIZE ON PROCEDURE d.c."Other" TO low`)
	var resource, permission string
	listed := boss.Query(`LIST EXECUTE ON PROCEDURE d.c."Other" OF low`)
	if err := listed.Scan(nil, nil, &resource, &permission); err != nil ||
		resource != "<procedure d.c.Other>" || permission != "EXECUTE" {
		t.Errorf("listed: %s %s %v", resource, permission, err)
	}
	for text, want := range map[string]string{
		"GRANT EXECUTE ON PROCEDURE d.c.other TO low":     `has the procedures OTHER, Other: specify the exact name in double quotes`,
		"GRANT EXECUTE ON PROCEDURE d.c.none TO low":      "container d.c has no procedure none",
		"GRANT EXECUTE ON PROCEDURE d.none.p TO low":      "container d.none does not exist",
		"GRANT EXECUTE ON PROCEDURE d.procedure.p TO low": "container d.procedure does not exist",
		"GRANT EXECUTE ON PROCEDURE d.p TO low":           "expecting '.'",
		"GRANT SELECT ON PROCEDURE d.c.p TO low":          "not support any of the requested permissions",
	} {
		if err := do(boss, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c := itemsOf(t, n).c
	old, err := c.Script(container.StoredProcedure, "Other")
	if err == nil {
		err = n.Containers.DeleteScript(t.Context(), c, old, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	newProcedure(t, n, "c", "Other", echo)
	refused(`CALL d.c."Other"('x')`, "d.c.Other")
	must(boss, `GRANT EXECUTE ON PROCEDURE d.c."Other" TO low`)
	must(boss, "DROP TABLE d.c")
	newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	newProcedure(t, n, "c", "Other", echo)
	refused(`CALL d.c."Other"('x')`, "d.c.Other")
}

// steps holds the session IDs of traces.
type steps []string

// Trace implements gocql.Tracer.
func (s *steps) Trace(id []byte) { *s = append(*s, fmt.Sprintf("%x", id)) }

// TestCallBeside checks that a procedure without effect has a charge and that a trace records the call. Batches and
// transactions must reject CALL.
func TestCallBeside(t *testing.T) {
	n := startNode(t, Options{Auth: options.Auth{Users: map[string]string{"boss": hash(t, "b")}}})
	newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	newProcedure(t, n, "c", "nothing", `function () {}`)
	s := driver(t, n, "boss", "b")
	var result *string
	it := s.Query(`CALL d.c.nothing('p')`).CustomPayload(map[string][]byte{"RequestCharge": {1}}).Iter()
	it.Scan(&result)
	charge := math.Float64frombits(binary.BigEndian.Uint64(append(it.GetCustomPayload()["RequestCharge"],
		make([]byte, 8)...)))
	if err := it.Close(); err != nil || result != nil || charge != 1 {
		t.Errorf("a procedure that does nothing returns %v for %v RU, %v", result, charge, err)
	}

	var ids steps
	if err := s.Query(`CALL d.c.nothing('p')`).Trace(&ids).Exec(); err != nil || len(ids) != 1 {
		t.Fatalf("traced: %v %v", ids, err)
	}
	eventually.True(t, "the trace has the call", func() bool {
		var all []string
		it := s.Query(fmt.Sprintf("SELECT activity FROM system_traces.events WHERE session_id = %s-%s-%s-%s-%s", ids[0][:8],
			ids[0][8:12], ids[0][12:16], ids[0][16:20], ids[0][20:])).Iter()
		for activity := ""; it.Scan(&activity); {
			all = append(all, activity)
		}
		return it.Close() == nil && strings.Contains(strings.Join(all, "\n"), "Calling procedure c.nothing at")
	})

	batch := s.Batch(gocql.LoggedBatch)
	batch.Query(`CALL d.c.nothing('p')`)
	const inBatch = "only UPDATE, INSERT and DELETE statements are allowed"
	if err := batch.Exec(); err == nil || !strings.Contains(err.Error(), inBatch) {
		t.Errorf("in a batch: %v", err)
	}
	for text, want := range map[string]string{
		`BEGIN BATCH CALL d.c.nothing('p'); APPLY BATCH`:              "CALL",
		`BEGIN TRANSACTION CALL d.c.nothing('p'); COMMIT TRANSACTION`: "CALL",
		`CALL d.c.nothing('p') USING TTL 5`:                           "USING",
		`CALL d.c.nothing(?)`:                                         "Invalid amount of bind variables",
	} {
		if err := s.Query(text).Exec(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCallInCluster checks that a procedure runs at the leader exactly once per call. Any of the four nodes may
// receive the call. During the calls, the partitions split and change their leaders.
func TestCallInCluster(t *testing.T) {
	t.Parallel()
	nodes := []*Node{clusterNode(t, nil, Options{InitialPartitions: 2})}
	for range 3 {
		nodes = append(nodes, clusterNode(t, nodes[0], Options{}))
	}
	eventually.True(t, "four voters", func() bool { return voters(nodes[0]) == 4 })
	s := newContainer(t, nodes[0], `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}`)
	newProcedure(t, nodes[0], "c", "increase", `function (by) {
		__.readDocument(__.getAltLink() + '/docs/n', function (err, d) {
			if (err) throw err;
			d.n++;
			__.replaceDocument(d._self, d, {etag: d._etag});
			__.createDocument(__.getAltLink(), {id: by, k: d.k}, function (err) { if (err) throw err; });
		});
	}`)
	const keys, lanes, each = 5, 8, 20
	for i := range keys {
		s.want(201, nil, create(fmt.Sprintf(`{"id":"n","k":"%d","n":0}`, i)))
	}
	var clients sync.WaitGroup
	var answered atomic.Int64
	for lane := range lanes {
		at := nodes[lane%len(nodes)]
		c := newClient(t, at)
		eventually.True(t, "the node knows the procedure", func() bool {
			c, err := at.Containers.ContainerByName("d", "c")
			return err == nil && len(c.Scripts(container.StoredProcedure)) == 1
		})
		clients.Go(func() {
			for i := range each {
				for attempt := 0; ; attempt++ {
					c.call.Result.Reset()
					c.call.Request.Text = fmt.Appendf(nil, "CALL d.c.increase('%d', 'by-%d-%d')", (lane+i)%keys,
						lane, i)
					err := c.wait(c.s.Query(t.Context(), &c.call)).Err
					if err == nil {
						answered.Add(1)
						break
					}
					if strings.Contains(err.Error(), "already exists") {
						break // an earlier attempt with an unknown outcome succeeded
					}
					if strings.Contains(err.Error(), "failed: ") || attempt == 1000 {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	table := nodes[0].catalog.Snapshot().Table("d", "c").ID
	for _, p := range nodes[0].metadata.State().Topology.Partitions(table) {
		_, err := nodes[0].partitions.Split(t.Context(), operations.Split{Table: "d.c", Partition: uint64(p.ID),
			Wait: true,
			Now:  true, At: fmt.Sprint(int64(p.Span.Begin.Ring^1<<63) + 1<<60)})
		if err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	sum := 0
	for i := range keys {
		got, err := s.query(container.QueryRequest{Text: "SELECT VALUE c.n FROM c WHERE c.id = 'n'",
			Scope: container.Scope{Key: key(fmt.Sprint(i))}})
		n := 0
		if err == nil && len(got) == 1 {
			_, err = fmt.Sscan(got[0], &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != lanes*each {
		t.Errorf("%d calls, %d increments, %d responses", lanes*each, sum, answered.Load())
	}
}
