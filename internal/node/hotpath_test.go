// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// client is a caller inside the process. Without using a protocol, it does the same work as a protocol server for one
// client.
type client struct {
	t    testing.TB
	s    *session.Session
	call session.Call
	done chan struct{}
}

// Completed makes client a session.Completer.
func (c *client) Completed() { c.done <- struct{}{} }

func newClient(t testing.TB, n *Node) *client { return newClientAs(t, n, "") }

// newClientAs works like newClient for an authenticated role.
func newClientAs(t testing.TB, n *Node, role string) *client {
	c := &client{t: t, s: n.Engine.NewSession(session.Client{Version: 4, User: role}), done: make(chan struct{}, 1)}
	c.call.CompleteTo(c)
	c.call.MayBlock = true
	c.call.Request.Consistency = dberr.LocalOne
	return c
}

// wait waits until the call is complete and returns its result.
func (c *client) wait(status session.Status) *session.Result {
	if status == session.Pending {
		<-c.done
	}
	if status == session.Offload {
		c.t.Fatal("the call was offloaded although it may block")
	}
	return &c.call.Result
}

func (c *client) query(text string) *session.Result {
	c.t.Helper()
	c.call.Result.Reset()
	c.call.Request.Text, c.call.Request.Values = []byte(text), nil
	r := c.wait(c.s.Query(context.Background(), &c.call))
	if r.Err != nil {
		c.t.Fatalf("%s: %v", text, r.Err)
	}
	return r
}

func (c *client) prepare(text string) [16]byte {
	c.t.Helper()
	c.call.Result.Reset()
	c.call.Request.Text = []byte(text)
	r := c.wait(c.s.Prepare(context.Background(), &c.call))
	if r.Err != nil {
		c.t.Fatalf("prepare %s: %v", text, r.Err)
	}
	return r.Prepared.ID
}

func (c *client) execute(id [16]byte, values ...[]byte) *session.Result {
	c.call.Result.Reset()
	c.call.Request.ID, c.call.Request.Values = id, values
	r := c.wait(c.s.Execute(context.Background(), &c.call))
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return r
}

// withTestLimits sets timeouts that are long enough for a busy machine. Tests of timeouts set their own values.
func withTestLimits(o *Options) {
	o.Limits.ReadTimeout = cmp.Or(o.Limits.ReadTimeout, requestTimeout)
	o.Limits.WriteTimeout = cmp.Or(o.Limits.WriteTimeout, requestTimeout)
	o.Testing.SchemaTimeout = cmp.Or(o.Testing.SchemaTimeout, requestTimeout)
	o.Testing.TransactionTime = cmp.Or(o.Testing.TransactionTime, requestTimeout)
}

// requestTimeout is the default timeout of the requests of a test.
const requestTimeout = 30 * time.Second

func startTestNode(t testing.TB, o Options) *Node {
	t.Helper()
	o.CQL, o.HTTP = "127.0.0.1:0", "off"
	withTestLimits(&o)
	n, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// putKey writes i as decimal digits.
func putKey(key []byte, i int) {
	for p := len(key) - 1; p >= 0; p-- {
		key[p], i = byte('0'+i%10), i/10
	}
}

const fiveColumns = "(k text PRIMARY KEY, c0 text, c1 text, c2 text, c3 text, c4 text)"

// TestWritesReadNothing checks with the counters of the store that plain writes do not read. The test covers INSERT,
// UPDATE of one column of five, DELETE, and a write to a table with an index. Conditional writes and counter updates
// read data, which shows that the counters work.
func TestWritesReadNothing(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t " + fiveColumns)
	c.query("CREATE TABLE ks.indexed " + fiveColumns)
	c.query("CREATE INDEX ON ks.indexed (c1)")
	c.query("CREATE TABLE ks.wide (k int, r int, v text, PRIMARY KEY (k, r))")
	reads := func(run func()) uint64 {
		before := n.store.Metrics()
		run()
		after := n.store.Metrics()
		return after.Gets + after.Iterators - before.Gets - before.Iterators
	}
	for _, q := range []string{
		"INSERT INTO ks.t (k, c0, c1, c2, c3, c4) VALUES ('a', '0', '1', '2', '3', '4')",
		"UPDATE ks.t SET c2 = 'two' WHERE k = 'a'",
		"DELETE c1 FROM ks.t WHERE k = 'a'",
		"DELETE FROM ks.t WHERE k = 'a'",
		"INSERT INTO ks.indexed (k, c1) VALUES ('a', '1')",
		"UPDATE ks.indexed SET c1 = 'one' WHERE k = 'a'",
		"INSERT INTO ks.wide (k, r, v) VALUES (1, 1, 'x')",
		"DELETE FROM ks.wide WHERE k = 1 AND r > 0",
		"DELETE FROM ks.wide WHERE k = 1",
	} {
		if got := reads(func() { c.query(q) }); got != 0 {
			t.Errorf("%s: %d reads", q, got)
		}
	}
	if reads(func() { c.query("INSERT INTO ks.t (k) VALUES ('a') IF NOT EXISTS") }) == 0 {
		t.Error("a condition was decided without a read: the counters do not count")
	}
}

// TestHotPathAllocations checks that a prepared point read and a prepared write allocate at most twice in session,
// plan, coordinator, partition, and store. The protocol server has a separate test.
func TestHotPathAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	n := startTestNode(t, Options{Commit: "periodic"})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t " + fiveColumns)
	insert := c.prepare("INSERT INTO ks.t (k, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?)")
	read := c.prepare("SELECT c0, c1, c2, c3, c4 FROM ks.t WHERE k = ?")
	update := c.prepare("UPDATE ks.t SET c2 = ? WHERE k = ?")
	value := make([]byte, 200)
	values := [][]byte{nil, value, value, value, value, value}
	key := func(i int) []byte { return fmt.Appendf(nil, "%016d", i) }
	for i := range 1000 {
		values[0] = key(i)
		c.execute(insert, values...)
	}
	k, i := key(7), 0
	one, two := [][]byte{k}, [][]byte{value, k}
	for _, tc := range []struct {
		name string
		max  float64
		run  func()
	}{
		{"read", 2, func() { c.execute(read, one...) }},
		{"insert", 2, func() { i++; putKey(k, i); values[0] = k; c.execute(insert, values...) }},
		{"update", 2, func() { c.execute(update, two...) }},
	} {
		if got := testing.AllocsPerRun(2000, tc.run); got > tc.max {
			t.Errorf("%s: %.1f allocations, at most %.0f are allowed", tc.name, got, tc.max)
		} else {
			t.Logf("%s: %.1f allocations", tc.name, got)
		}
	}
}

// BenchmarkHotPath measures the processor time of a prepared request in the query engine and the store. It uses no
// sockets and no protocol.
func BenchmarkHotPath(b *testing.B) {
	for _, kind := range []string{"read", "insert", "update"} {
		b.Run(kind, func(b *testing.B) {
			n := startTestNode(b, Options{Commit: "periodic"})
			c := newClient(b, n)
			c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
			c.query("CREATE TABLE ks.t " + fiveColumns)
			stmt := c.prepare("INSERT INTO ks.t (k, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?)")
			v := make([]byte, 200)
			key := []byte("0000000000000000")
			values := [][]byte{key, v, v, v, v, v}
			for i := range 10_000 {
				putKey(key, i)
				c.execute(stmt, values...)
			}
			switch kind {
			case "read":
				stmt, values = c.prepare("SELECT c0, c1, c2, c3, c4 FROM ks.t WHERE k = ?"), [][]byte{key}
			case "update":
				stmt, values = c.prepare("UPDATE ks.t SET c2 = ? WHERE k = ?"), [][]byte{v, key}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % 10_000
				putKey(key, i)
				c.execute(stmt, values...)
			}
		})
	}
}
