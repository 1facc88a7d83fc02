// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

var schemaKills = flag.Int("schema-kills", 6, "number of kills of TestSchemaThroughKills")

// designer changes a separate set of objects through any node, one statement at a time. designer keeps the expected
// schema. It repeats a failed statement on another node until the statement succeeds. An abandoned attempt must not
// take effect after the success.
type designer struct {
	f    *fleet
	lane int
	rng  *rand.Rand
	conn *rawclient.Conn
	// tables holds the tables by name.
	tables map[string]*design
	made   int
	// log holds the statements for the analysis of a failure.
	log []string
}

// design is the expected state of a table.
type design struct {
	columns map[string]bool // the columns of ALTER TABLE
	indexed bool
	rows    map[int]int // k -> v
	last    int
}

// do runs a statement until it succeeds. If the change has already been made, the error of a repeated attempt contains
// done.
func (d *designer) do(text, done string) {
	for attempt := 0; ; attempt++ {
		if d.conn == nil {
			m := d.f.nodes[d.rng.IntN(len(d.f.nodes))]
			c, err := rawclient.Dial(d.f.t.Context(), m.cql(), rawclient.Options{Timeout: 15 * time.Second})
			if err != nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			d.conn = c
		}
		_, err := process.Query(d.conn, dberr.Quorum, text)
		d.log = append(d.log, fmt.Sprintf("%s %d: %s => %v", time.Now().Format("05.000"), d.lane, text, err))
		if err == nil {
			return
		}
		refusal := (*cqlwire.Error)(nil)
		if errors.As(err, &refusal) {
			switch refusal.Code {
			case cqlwire.CodeInvalid, cqlwire.CodeAlreadyExists, cqlwire.CodeConfig, cqlwire.CodeSyntax:
				if attempt > 0 && done != "" && strings.Contains(refusal.Message, done) {
					return
				}
				d.f.t.Errorf("%s: %v", text, err)
				return
			}
		}
		if d.f.t.Context().Err() != nil {
			return
		}
		d.conn.Close()
		d.conn = nil
	}
}

// step makes one change.
func (d *designer) step() {
	names := slices.Sorted(maps.Keys(d.tables))
	if len(names) < 3 {
		name := fmt.Sprintf("t%d_%d", d.lane, d.made)
		d.made++
		d.do("CREATE TABLE IF NOT EXISTS ks."+name+" (k int PRIMARY KEY, v int)", "")
		d.tables[name] = &design{columns: map[string]bool{}, rows: map[int]int{}}
		return
	}
	name := names[d.rng.IntN(len(names))]
	t := d.tables[name]
	switch d.rng.IntN(12) {
	case 0:
		d.do("DROP TABLE IF EXISTS ks."+name, "")
		delete(d.tables, name)
	case 1:
		d.do("TRUNCATE ks."+name, "")
		clear(t.rows)
	case 2, 3:
		column := fmt.Sprint("c", len(t.columns))
		for t.columns[column] {
			column += "x"
		}
		d.do("ALTER TABLE ks."+name+" ADD "+column+" int", "already exists")
		t.columns[column] = true
	case 4:
		for _, column := range slices.Sorted(maps.Keys(t.columns)) {
			d.do("ALTER TABLE ks."+name+" DROP "+column, "not found")
			delete(t.columns, column)
			break
		}
	case 5, 6:
		if t.indexed {
			d.do("DROP INDEX IF EXISTS ks."+name+"_v", "")
		} else {
			d.do("CREATE INDEX IF NOT EXISTS "+name+"_v ON ks."+name+" (v)", "")
		}
		t.indexed = !t.indexed
	default:
		for range 20 {
			k := t.last
			t.last++
			d.do(fmt.Sprintf("INSERT INTO ks.%s (k, v) VALUES (%d, %d)", name, k, k%3), "")
			t.rows[k] = k % 3
		}
	}
}

// check compares the schema of a node with the expected schema.
func (d *designer) check(c *rawclient.Conn, where string) {
	t := d.f.t
	for _, name := range slices.Sorted(maps.Keys(d.tables)) {
		want := d.tables[name]
		r, err := process.Query(
			c,
			dberr.One,
			"SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = '"+name+"'",
		)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.RowCount != 2+len(want.columns) {
			t.Errorf("%s: %s has %d columns, want %d", where, name, r.RowCount, 2+len(want.columns))
		}
		r, err = process.Query(
			c,
			dberr.One,
			"SELECT index_name FROM system_schema.indexes WHERE keyspace_name = 'ks' AND table_name = '"+name+"'",
		)
		if err != nil || r.RowCount != map[bool]int{true: 1}[want.indexed] {
			t.Errorf("%s: %s has indexes: %v, want %v (%v)", where, name, r, want.indexed, err)
		}
		d.rows(c, where, name, "", want.rows)
		if !want.indexed {
			continue
		}
		for v := range 3 {
			some := maps.Clone(want.rows)
			maps.DeleteFunc(some, func(_, other int) bool { return other != v })
			d.rows(c, where, name, fmt.Sprintf(" WHERE v = %d", v), some)
		}
	}
}

// rows compares the result of a query with want. rows waits for an index that has not been built yet.
func (d *designer) rows(c *rawclient.Conn, where, name, condition string, want map[int]int) {
	var r *cqlwire.Result
	d.f.until("rows of "+name+condition, settleTime, func() (missing string) {
		var err error
		if r, err = process.Query(c, dberr.Quorum, "SELECT k FROM ks."+name+condition); err != nil {
			return err.Error()
		}
		return ""
	})
	got := map[int]bool{}
	for b := r.Cells; len(b) >= 8; b = b[8:] {
		got[int(int32(binary.BigEndian.Uint32(b[4:])))] = true
	}
	for k := range want {
		if !got[k] {
			d.f.t.Errorf("%s: %s%s: row %d of %d is missing", where, name, condition, k, len(want))
		}
		delete(got, k)
	}
	if len(got) > 0 {
		d.f.t.Errorf("%s: %s%s: %d unexpected rows", where, name, condition, len(got))
	}
}

// TestSchemaThroughKills checks that schema changes are made once or not at all. Two changes at a time run through all
// nodes. During the changes, nodes are killed, and other nodes are offline. At the end, all nodes must have the
// requested schema. Every index must be built and must find all rows. Truncated and dropped data must be gone, and no
// node may have a replica that the map does not contain.
func TestSchemaThroughKills(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	const lanes = 3
	designers := make([]*designer, lanes)
	var steps [lanes]atomic.Int32
	var stop atomic.Bool
	var wg sync.WaitGroup
	for lane := range lanes {
		d := &designer{f: f, lane: lane, rng: rand.New(rand.NewPCG(uint64(lane), 7)), tables: map[string]*design{}}
		designers[lane] = d
		wg.Go(func() {
			for !stop.Load() && !t.Failed() {
				d.step()
				steps[lane].Add(1)
			}
		})
	}
	progress := func(n int32) {
		var until [lanes]int32
		for i := range until {
			until[i] = steps[i].Load() + n
		}
		f.until("changes of the schema", settleTime, func() string {
			for i := range until {
				if steps[i].Load() < until[i] && !t.Failed() {
					return fmt.Sprintf("designer %d is at step %d of %d", i, steps[i].Load(), until[i])
				}
			}
			return ""
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range *schemaKills {
		progress(2)
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond) // the kill may hit any phase of a change
		m := f.nodes[rng.IntN(len(f.nodes))]
		m.kill()
		if rng.IntN(2) == 0 {
			progress(5) // the node is offline while many changes are made
		}
		m.start()
	}
	progress(2)
	stop.Store(true)
	wg.Wait()
	f.settle()
	want := 0
	for _, d := range designers {
		want += len(d.tables)
	}
	f.until("all nodes have one schema", settleTime, func() string {
		versions := map[string]bool{}
		for _, m := range f.nodes {
			s, err := m.status()
			if err != nil {
				return err.Error()
			}
			versions[s.Schema] = true
			partitions, here := 1, 1 // the meta partition belongs to no table
			for _, table := range s.Tables {
				partitions += len(table.Partitions)
				for _, p := range table.Partitions {
					for _, r := range p.Replicas {
						if r.Node == s.Node {
							here++
						}
					}
				}
			}
			for _, n := range s.Nodes {
				if n.ID == s.Node && n.Replicas != here {
					return fmt.Sprintf("%s has %d replicas, the map assigns it %d of %d partitions", m.name(), n.Replicas,
						here, partitions)
				}
			}
		}
		if len(versions) > 1 {
			return fmt.Sprintf("there are %d", len(versions))
		}
		return ""
	})
	for _, m := range f.nodes {
		c := m.dial()
		r, err := process.Query(c, dberr.One, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'")
		if err != nil || r.RowCount != want {
			t.Errorf("%s has %v tables, want %d (%v)", m.name(), r, want, err)
		}
		for _, d := range designers {
			d.check(c, m.name())
		}
	}
	total := int32(0)
	for i := range steps {
		total += steps[i].Load()
	}
	t.Logf("%d changes", total)
	if t.Failed() {
		for _, d := range designers {
			t.Logf("last statements of designer %d:\n%s", d.lane, strings.Join(d.log[max(0, len(d.log)-60):], "\n"))
		}
	}
}

// TestSchemaAfterAbsence checks that a node that was offline during schema changes does not reject requests because of
// its old schema. The first requests name objects that were created while the node was offline. Conditional creations
// and drops must be evaluated against the current schema.
func TestSchemaAfterAbsence(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	f.nodes[0].do("CREATE TABLE ks.old (k int PRIMARY KEY)")
	away := f.nodes[3]
	for round := range 3 {
		away.kill()
		f.nodes[0].do("DROP TABLE ks.old")
		for i := range 10 { // these changes make the node take some time to catch up
			f.nodes[0].do(fmt.Sprintf("CREATE TABLE ks.t%d_%d (k int PRIMARY KEY, v int)", round, i))
		}
		away.start()
		away.do(fmt.Sprintf("INSERT INTO ks.t%d_9 (k, v) VALUES (1, 1)", round))
		away.do("CREATE TABLE IF NOT EXISTS ks.old (k int PRIMARY KEY)")
		f.nodes[1].do("INSERT INTO ks.old (k) VALUES (1)")
		away.do(fmt.Sprintf("DROP TABLE IF EXISTS ks.t%d_8", round))
		if _, err := process.Query(f.nodes[1].dial(), dberr.Quorum,
			fmt.Sprintf("SELECT * FROM ks.t%d_8", round)); err == nil {
			t.Errorf("round %d: the dropped table exists", round)
		}
	}
}
