// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestThroughputIsShared checks a client that uses all throughput of a table. It must not cause rejections for another
// client with normal priority. The test sends each kind of statement. Only the first client and low-priority requests
// may be rejected. The low priority of a role must apply even if its clients request normal priority.
func TestThroughputIsShared(t *testing.T) {
	n := startTestNode(t, Options{Auth: options.Auth{Users: map[string]string{"hog": hash(t, "h")}}})
	c := newClientAs(t, n, "hog")
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400")
	insert := c.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
	key, large := []byte{0, 0, 0, 1}, make([]byte, 300<<10)
	var busy *dberr.Overloaded
	refused := func(err error) bool {
		if err != nil && !errors.As(err, &busy) {
			t.Fatal(err)
		}
		return err != nil
	}
	// spend makes the first client write until its writes are rejected. The last write leaves a debt of a third of a
	// second.
	spend := func() error {
		c.call.Result.Reset()
		c.call.Request.ID, c.call.Request.Values = insert, [][]byte{key, large}
		return c.wait(c.s.Execute(context.Background(), &c.call)).Err
	}
	statements := []string{"SELECT v FROM k.t WHERE k = 2", "SELECT k FROM k.t",
		"INSERT INTO k.t (k, v) VALUES (2, 'x')", "UPDATE k.t SET v = 'y' WHERE k = 2 IF EXISTS",
		"BEGIN BATCH INSERT INTO k.t (k, v) VALUES (2, 'z'); INSERT INTO k.t (k, v) VALUES (3, 'z'); APPLY BATCH"}
	for i, round, end := 0, 0, time.Now().Add(eventually.Limit); i < len(statements); round++ {
		if time.Now().After(end) {
			t.Fatalf("requests of another client are rejected: %s", statements[i])
		}
		for _, role := range []string{"low", "batch", "other"} {
			c.query(fmt.Sprintf("CREATE ROLE %s%d WITH SUPERUSER = true AND LOGIN = true", role, round))
		}
		c.query(fmt.Sprintf("ALTER ROLE batch%d WITH OPTIONS = {'priority': 'low'}", round))
		for !refused(spend()) {
		}
		for refused(spend()) {
			time.Sleep(busy.RetryAfter) // wait as a client would
		}
		ask := func(role string, payload ...session.Payload) bool {
			other := newClientAs(t, n, fmt.Sprint(role, round))
			other.call.Request.Text, other.call.Request.Payload = []byte(statements[i]), payload
			return refused(other.wait(other.s.Query(context.Background(), &other.call)).Err)
		}
		priority := func(is string) session.Payload {
			return session.Payload{Key: []byte("Priority"), Value: []byte(is)}
		}
		if !refused(spend()) || !ask("low", priority("low")) || !ask("batch", priority("normal")) {
			continue // the response was too late
		}
		if !ask("other") {
			i++
		}
	}
}

// TestThroughputIsWaitedFor checks a node that is configured to wait. The node must reject no request if the table's
// throughput becomes available in time. The goroutine of a connection must not wait.
func TestThroughputIsWaitedFor(t *testing.T) {
	n := startTestNode(t, Options{Limits: options.Limits{ThrottleTimeout: time.Minute}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	began := time.Now()
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400")
	insert := c.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
	read := c.prepare("SELECT v FROM k.t WHERE k = ?")
	// A write costs more than 500 RU. On a slow machine, the next write may be affordable immediately, so the test may
	// need several more writes.
	key, large := []byte{0, 0, 0, 1}, make([]byte, 1<<20)
	writes, offloaded := 0, 0
	for ; writes < 3 || offloaded == 0 && writes < 20; writes++ {
		for _, ask := range []struct {
			id     [16]byte
			values [][]byte
		}{{insert, [][]byte{key, large}}, {read, [][]byte{key}}} {
			run := func(block bool) session.Status {
				c.call.Result.Reset()
				c.call.MayBlock, c.call.Request.ID, c.call.Request.Values = block, ask.id, ask.values
				return c.s.Execute(context.Background(), &c.call)
			}
			status := run(false)
			if status == session.Offload {
				offloaded++
				status = run(true)
			}
			if err := c.wait(status).Err; err != nil {
				t.Fatal(err)
			}
		}
	}
	// The table starts with the throughput of one second, and the last write leaves a debt.
	least := time.Duration(500*(writes-1)-400) * time.Second / 400
	if took := time.Since(began); took < least || offloaded == 0 {
		t.Errorf("%d RU at 400 RU/s took %v, %d requests were offloaded", 500*writes, took, offloaded)
	}
}

// TestIndexOfSmallThroughput checks that an index is built although its entries cost far more than the throughput that
// its table provides immediately. During the build, a client requests all of that throughput.
func TestIndexOfSmallThroughput(t *testing.T) {
	n := startTestNode(t, Options{})
	c, client := newClient(t, n), newClientAs(t, n, "client")
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	insert := c.prepare("INSERT INTO k.t (k, v) VALUES (?, 7)")
	for k := range uint32(1000) {
		c.call.Result.Reset()
		c.call.Request.ID, c.call.Request.Values = insert, [][]byte{binary.BigEndian.AppendUint32(nil, k)}
		if err := c.wait(c.s.Execute(context.Background(), &c.call)).Err; err != nil {
			t.Fatal(err)
		}
	}
	c.query("ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 400")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			client.call.Result.Reset()
			client.call.Request.Text = []byte("SELECT v FROM k.t WHERE k = 1")
			err := client.wait(client.s.Query(context.Background(), &client.call)).Err
			wait := time.Duration(0)
			if busy, ok := errors.AsType[*dberr.Overloaded](err); ok {
				wait = busy.RetryAfter
			}
			select {
			case <-stop:
				return
			case <-time.After(wait): // wait as a client would
			}
		}
	}()
	defer func() { close(stop); <-done }()
	c.query("CREATE INDEX i ON k.t (v)")
	index := n.catalog.Snapshot().Table("k", "t").Indexes["i"]
	eventually.None(t, "an index", eventually.Limit, func() string {
		if n.builder.Building(index) {
			return "it is being built"
		}
		return ""
	})
}
