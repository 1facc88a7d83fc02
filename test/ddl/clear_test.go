// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ddl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
	"github.com/ilion-db/ilion/test/testnode"
)

// entry is an acknowledged row.
type entry struct {
	k        int
	from, to time.Time
}

// prepared inserts rows with a prepared statement. It prepares the statement again when the server requires it, as a
// driver does.
type prepared struct {
	conn *rawclient.Conn
	text string
	id   []byte
}

func (p *prepared) insert(k int) error {
	for {
		if p.id == nil {
			r, err := p.conn.Prepare(p.text)
			if err != nil {
				return err
			}
			p.id = r.ID
		}
		x := cqlwire.Execute{ID: p.id}
		value := binary.BigEndian.AppendUint32(nil, uint32(k))
		x.Consistency, x.Values = dberr.LocalOne, [][]byte{value, value}
		_, _, err := p.conn.Call(cqlwire.OpExecute, x.Append(nil, cqlwire.V4))
		var e *cqlwire.Error
		if !errors.As(err, &e) || e.Code != cqlwire.CodeUnprepared {
			return err
		}
		p.id = nil
	}
}

// writers insert rows through all nodes until they are stopped. Half of the writers use prepared statements.
type writers struct {
	stop atomic.Bool
	wg   sync.WaitGroup
	rows [][]entry
}

// write starts the writers. refused reports whether a writer may get an error.
func write(t *testing.T, c *testnode.Cluster, table string, refused func(*cqlwire.Error) bool) *writers {
	const lanes = 8
	w := &writers{rows: make([][]entry, lanes)}
	for lane := range lanes {
		conn := c.Dial(lane % c.Len())
		insert := func(k int) error {
			_, err := conn.Query(fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d)", table, k, k))
			return err
		}
		if lane >= lanes/2 {
			insert = (&prepared{conn: conn, text: fmt.Sprintf("INSERT INTO %s (k, v) VALUES (?, ?)", table)}).insert
		}
		w.wg.Go(func() {
			for i := 0; !w.stop.Load(); i++ {
				e := entry{k: i*lanes + lane, from: time.Now()}
				err := insert(e.k)
				e.to = time.Now()
				var answer *cqlwire.Error
				switch {
				case err == nil:
					w.rows[lane] = append(w.rows[lane], e)
				case !errors.As(err, &answer) || !refused(answer):
					t.Errorf("lane %d, row %d: %v", lane, e.k, err)
					return
				}
			}
		})
	}
	t.Cleanup(w.end)
	return w
}

func (w *writers) end() {
	w.stop.Store(true)
	w.wg.Wait()
}

// acknowledged waits until writers have written a number of rows after a given time, so the test has data to check.
func acknowledged(t *testing.T, conn *rawclient.Conn, table string, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); count(t, conn, "SELECT count(*) FROM "+table) < n; {
		if t.Failed() || time.Now().After(deadline) {
			t.Fatalf("fewer than %d rows were written to %s", n, table)
		}
	}
}

// check checks every node and its replica. Rows acknowledged before the table was cleared must be gone, and rows sent
// later must exist.
func check(t *testing.T, c *testnode.Cluster, w *writers, table string, began, over time.Time) {
	t.Helper()
	gone, there := map[int]bool{}, map[int]bool{}
	for _, rows := range w.rows {
		for _, e := range rows {
			switch {
			case e.to.Before(began):
				gone[e.k] = true
			case e.from.After(over):
				there[e.k] = true
			}
		}
	}
	t.Logf("%d rows must be gone, %d must exist", len(gone), len(there))
	if len(gone) == 0 || len(there) == 0 {
		t.Error("the test checks nothing")
	}
	for i := range c.Len() {
		conn := c.Dial(i)
		for _, level := range []dberr.Consistency{dberr.Quorum, dberr.One} {
			r, err := process.Query(conn, level, "SELECT k FROM "+table)
			if err != nil {
				t.Fatal(err)
			}
			found := ints(r)
			for k := range gone {
				if found[k] {
					t.Fatalf("node %d at %v: row %d, written before the table was cleared, exists", i, level,
						k)
				}
			}
			for k := range there { // a read at ONE may miss the writes of the last half second
				if !found[k] && level != dberr.One {
					t.Fatalf("node %d at %v: row %d, written after the table was cleared, is missing", i,
						level, k)
				}
			}
			for k := range found {
				probe := fmt.Sprintf("SELECT k FROM %s WHERE v = %d", table, k)
				if r, err := process.Query(conn, dberr.Quorum, probe); err != nil || !ints(r)[k] {
					t.Fatalf("node %d at %v: the index does not find row %d: %v", i, level, k, err)
				}
				break
			}
		}
		for k := range gone {
			r, err := process.Query(conn, dberr.Quorum, fmt.Sprintf("SELECT k FROM %s WHERE v = %d", table, k))
			if err != nil || len(ints(r)) > 0 {
				t.Fatalf("node %d: the index finds deleted row %d: %v", i, k, err)
			}
			break
		}
	}
}

// TestTruncateWhileWriting checks that TRUNCATE removes all rows that were acknowledged earlier and no rows that are
// written later. Writers must get no errors.
func TestTruncateWhileWriting(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	c.Do(0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v)")
	w := write(t, c, "ks.t", func(*cqlwire.Error) bool { return false })
	var began, over time.Time
	for i := range 4 {
		conn := c.Dial(i)
		acknowledged(t, conn, "ks.t", 200)
		began = time.Now()
		c.Do(i, "TRUNCATE ks.t")
		over = time.Now()
	}
	acknowledged(t, c.Dial(0), "ks.t", 200)
	w.end()
	check(t, c, w, "ks.t", began, over)
}

// TestDropWhileWriting checks a table that was dropped and created again. The table must contain no old rows and all
// rows written after its creation. The only error that writers may get is that the table does not exist.
func TestDropWhileWriting(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	create := []string{"CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v)"}
	c.Do(0, create...)
	w := write(t, c, "ks.t", func(e *cqlwire.Error) bool {
		return e.Code == cqlwire.CodeInvalid && e.Message == "table t does not exist"
	})
	var began, over time.Time
	for i := range 4 {
		acknowledged(t, c.Dial(i), "ks.t", 200)
		began = time.Now()
		c.Do(i, "DROP TABLE ks.t")
		c.Do((i+1)%4, create...)
		over = time.Now()
	}
	acknowledged(t, c.Dial(0), "ks.t", 200)
	w.end()
	check(t, c, w, "ks.t", began, over)
	nothingLeft(t, c)
}

// TestTruncatedEverywhere checks that no node returns an old row when TRUNCATE has returned. It checks all consistency
// levels, with and without an index.
func TestTruncatedEverywhere(t *testing.T) {
	t.Parallel()
	c := start(t, 4)
	c.Do(0, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v)")
	conns := make([]*rawclient.Conn, c.Len())
	for i := range conns {
		conns[i] = c.Dial(i)
	}
	for round := range 20 {
		at := conns[round%len(conns)]
		b := "BEGIN UNLOGGED BATCH\n"
		for k := range 50 {
			b += fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, 1);\n", k)
		}
		process.Do(t, at, b+"APPLY BATCH")
		for _, conn := range conns { // make all replicas active and fresh
			if n := count(t, conn, "SELECT count(*) FROM ks.t"); n != 50 {
				t.Fatalf("got %d rows, want 50", n)
			}
		}
		process.Do(t, at, "TRUNCATE ks.t")
		for i, conn := range conns {
			for _, query := range []string{"SELECT k FROM ks.t", "SELECT k FROM ks.t WHERE k = 7",
				"SELECT k FROM ks.t WHERE v = 1"} {
				r, err := process.Query(conn, dberr.LocalOne, query)
				if err != nil {
					t.Fatal(err)
				}
				if r.RowCount > 0 {
					t.Errorf("round %d, node %d: %s finds %d rows", round, i, query, r.RowCount)
				}
			}
		}
	}
}
