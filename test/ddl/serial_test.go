// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ddl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/testnode"
)

// draw returns a random change of a few objects that all clients change.
func draw(r *rand.Rand) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	ks := pick("a", "a", "b")
	table, typ, col := ks+"."+pick("t", "u"), ks+"."+pick("p", "q"), pick("v", "w", "x")
	absent, exists := pick("", "IF NOT EXISTS "), pick("", "IF EXISTS ")
	switch n := r.IntN(60); {
	case n < 1:
		return "DROP KEYSPACE " + exists + ks
	case n < 5:
		return "CREATE KEYSPACE " + absent + ks +
			" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}"
	case n < 8:
		return "ALTER KEYSPACE " + ks + " WITH durable_writes = " + pick("true", "false")
	case n < 16:
		return fmt.Sprintf("CREATE TABLE %s%s (k int PRIMARY KEY, v int, f frozen<%s>)", absent, table,
			pick("p", "q", "list<int>", "list<int>"))
	case n < 20:
		return "DROP TABLE " + exists + table
	case n < 27:
		return fmt.Sprintf("ALTER TABLE %s ADD %s %s", table, col, pick("int", "int", "text"))
	case n < 31:
		return "ALTER TABLE " + table + " DROP " + col
	case n < 37:
		return "ALTER TABLE " + table + " WITH comment = '" + pick("one", "two", "three") + "'"
	case n < 42:
		return "CREATE TYPE " + absent + typ + " (n int)"
	case n < 48:
		return "ALTER TYPE " + typ + pick(" ADD n int", " ADD m int", " RENAME n TO m", " RENAME m TO n")
	case n < 50:
		return "DROP TYPE " + exists + typ
	case n < 56:
		return fmt.Sprintf("CREATE INDEX %s%s ON %s (%s)", absent, pick("i", "j"), table, col)
	}
	return "DROP INDEX " + exists + ks + "." + pick("i", "j")
}

// lane sends statements to a node, or to the next node if the node is down.
type lane struct {
	t     *testing.T
	addrs []string
	at    int
	conn  *rawclient.Conn
}

func (l *lane) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// do sends a statement and returns it with its result.
func (l *lane) do(text string) *op {
	for tries := 0; l.conn == nil; tries++ {
		var err error
		if l.conn, err = rawclient.Dial(l.t.Context(), l.addrs[l.at], rawclient.Options{}); err != nil {
			if l.at = (l.at + 1) % len(l.addrs); tries > 2*len(l.addrs) {
				l.t.Errorf("no node is reachable: %v", err)
				return nil
			}
		}
	}
	o := &op{text: text, from: time.Now()}
	r, err := l.conn.Query(text)
	o.to = time.Now()
	var e *cqlwire.Error
	switch {
	case errors.As(err, &e):
		o.answer = e.Message
		o.open = strings.HasPrefix(e.Message, "It is not known")
		if o.open || e.Code == 0 {
			l.t.Logf("%s: %s", text, e.Message)
		}
	case err != nil:
		o.answer, o.open = err.Error(), true
		l.close()
	case r.Kind == cqlwire.ResultSchemaChange:
		o.answer = fmt.Sprint(schema.Event{Change: r.Change.Change, Target: r.Change.Target,
			Keyspace: r.Change.Keyspace, Name: r.Change.Name})
	default:
		o.answer = "nothing"
	}
	return o
}

// TestSerial checks that concurrent statements that change the same objects through all nodes have the results of a
// serial execution. At the end, all nodes, including a node that was offline, must have the schema of that order. No
// data of dropped objects may remain.
func TestSerial(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			const lanes, statements, away = 4, 200, 3
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			o := testnode.Options{}
			if restart {
				o.Dir = t.TempDir()
			}
			c := testnode.Start(t, o)
			addrs := c.Addrs()
			var sent atomic.Int64
			first := (&lane{t: t,
				addrs: addrs}).do("CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
			var wg sync.WaitGroup
			all := make([][]*op, lanes)
			for i := range lanes {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() {
					l := &lane{t: t, addrs: addrs, at: i}
					defer l.close()
					for sent.Add(1) <= statements {
						if o := l.do(draw(r)); o != nil {
							all[i] = append(all[i], o)
						}
					}
				})
			}
			if restart {
				for sent.Load() < statements/3 {
					time.Sleep(time.Millisecond)
				}
				c.Stop(away)
				for sent.Load() < statements*2/3 {
					time.Sleep(time.Millisecond)
				}
				c.Restart(away)
			}
			wg.Wait()
			c.Settle()
			ops := append(slices.Concat(all...), first)
			slices.SortFunc(ops, func(a, b *op) int { return a.from.Compare(b.from) })
			report(t, ops)
			serial(t, ops, alike(t, c))
			nothingLeft(t, c)
		})
	}
}

// report logs the number of statements that changed something.
func report(t *testing.T, ops []*op) {
	var changed, nothing, open int
	for _, o := range ops {
		switch {
		case o.open:
			open++
		case o.answer == "nothing":
			nothing++
		case o.changed():
			changed++
		}
	}
	t.Logf("%d statements: %d made a change, %d made no change, %d have an unknown outcome, the rest failed", len(ops),
		changed, nothing, open)
}

// alike checks that all nodes have the same schema and returns the schema as text.
func alike(t *testing.T, c *testnode.Cluster) string {
	t.Helper()
	first := map[string]string{}
	var texts string
	for i := range c.Len() {
		conn := c.Dial(i)
		for _, query := range []string{
			"DESCRIBE SCHEMA WITH INTERNALS", "SELECT schema_version FROM system.local",
			"SELECT * FROM system_schema.keyspaces", "SELECT * FROM system_schema.tables",
			"SELECT * FROM system_schema.columns", "SELECT * FROM system_schema.dropped_columns",
			"SELECT * FROM system_schema.types", "SELECT * FROM system_schema.indexes",
		} {
			r, err := process.Query(conn, dberr.One, query)
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			if i == 0 {
				first[query] = string(r.Cells)
			} else if first[query] != string(r.Cells) {
				t.Errorf("%s: nodes 0 and %d returned\n%q\n%q", query, i, first[query], r.Cells)
			}
		}
		agreed(t, conn, first["SELECT schema_version FROM system.local"][4:])
		if i == 0 {
			r, err := process.Query(conn, dberr.One, "DESCRIBE SCHEMA")
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for cell := range cells(r) {
				if n++; n%len(r.Columns) == 0 {
					texts += string(cell) + "\n"
				}
			}
		}
	}
	return texts
}

// agreed checks that a node soon reports a schema version for all other nodes.
func agreed(t *testing.T, conn *rawclient.Conn, version string) {
	t.Helper()
	eventually.True(t, "the node reports the schema for all other nodes", func() bool {
		r, err := process.Query(conn, dberr.One, "SELECT schema_version FROM system.peers_v2")
		if err != nil {
			t.Fatal(err)
		}
		for cell := range cells(r) {
			if string(cell) != version {
				return false
			}
		}
		return true
	})
}

// cells iterates over the cells of a result.
func cells(r *cqlwire.Result) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for b := r.Cells; len(b) >= 4; {
			n := max(int(int32(binary.BigEndian.Uint32(b))), 0)
			if !yield(b[4 : 4+n]) {
				return
			}
			b = b[4+n:]
		}
	}
}

// nothingLeft waits until every node runs all of its replicas of existing tables, and no other replicas.
func nothingLeft(t *testing.T, c *testnode.Cluster) {
	t.Helper()
	for i := range c.Len() {
		eventually.None(t, fmt.Sprintf("as node %d sees it", i), eventually.Limit, func() (why string) {
			s := c.Status(i)
			want := map[string]int{}
			for _, table := range s.Tables {
				if len(table.Partitions) == 0 {
					t.Fatalf("node %d: table %s has no partition", i, table.Name)
				}
				for _, p := range table.Partitions {
					for _, r := range p.Replicas {
						want[r.Node]++
					}
				}
			}
			for _, n := range s.Nodes {
				if n.Replicas != want[n.ID]+1 { // add the replica of the meta partition
					why += fmt.Sprintf("node %s has %d replicas instead of %d; ", n.ID, n.Replicas, want[n.ID]+1)
				}
			}
			return why
		})
	}
}
