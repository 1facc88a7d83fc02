// SPDX-License-Identifier: Apache-2.0

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
	"github.com/ilion-db/ilion/test/nodes"
	"github.com/ilion-db/ilion/test/process"
)

// entry is a row that was written and acknowledged.
type entry struct {
	k        int
	from, to time.Time
}

// prepared inserts with a statement that it prepares, and prepares again when it is told to, as drivers do.
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

// writers insert rows through all nodes, half of them with prepared statements, until they are stopped.
type writers struct {
	stop atomic.Bool
	wg   sync.WaitGroup
	rows [][]entry
}

// write begins; refused reports whether an error is one that a writer may get.
func write(t *testing.T, c *nodes.Cluster, table string, refused func(*cqlwire.Error) bool) *writers {
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

// acknowledged waits until a number of rows were written after a moment, so that there is something to be seen.
func acknowledged(t *testing.T, conn *rawclient.Conn, table string, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); count(t, conn, "SELECT count(*) FROM "+table) < n; {
		if t.Failed() || time.Now().After(deadline) {
			t.Fatalf("no %d rows came into %s", n, table)
		}
	}
}

// judge proves at every node, and at its own replica too, that rows acknowledged before the table was cleared are gone,
// and that those sent after that are there.
func judge(t *testing.T, c *nodes.Cluster, w *writers, table string, began, over time.Time) {
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
	t.Logf("%d rows are to be gone, %d to be there", len(gone), len(there))
	if len(gone) == 0 || len(there) == 0 {
		t.Error("nothing was proved")
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
					t.Fatalf("node %d at %v: row %d is there, which was written before the table was cleared", i, level,
						k)
				}
			}
			for k := range there { // ONE may not see the last half second
				if !found[k] && level != dberr.One {
					t.Fatalf("node %d at %v: row %d is missing, which was written after the table was cleared", i,
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
				t.Fatalf("node %d: the index finds row %d, which is gone: %v", i, k, err)
			}
			break
		}
	}
}

// TestTruncateWhileWriting proves that TRUNCATE removes what was acknowledged before it and nothing that is written
// after it, and that writers do not notice it.
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
	judge(t, c, w, "ks.t", began, over)
}

// TestDropWhileWriting proves that a table which was dropped and made again has no old row, that it has all that was
// written after it was made, and that writers hear of nothing but that there is no such table.
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
	judge(t, c, w, "ks.t", began, over)
	nothingLeft(t, c)
}

// TestTruncatedEverywhere proves that when TRUNCATE has returned no node has a row of before, nor finds one by an
// index, whatever the level.
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
		for _, conn := range conns { // all replicas are awake, and fresh
			if n := count(t, conn, "SELECT count(*) FROM ks.t"); n != 50 {
				t.Fatalf("%d rows of 50 are there", n)
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
