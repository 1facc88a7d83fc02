// SPDX-License-Identifier: Apache-2.0

//go:build integration

package crash

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/process"
)

const (
	ddlClients    = 16
	ddlPartitions = 4 // number of partitions of a table
	ddlRows       = 3
)

// stage is the stage that a table has reached.
type stage int

const (
	missing stage = iota
	created
	filled  // has ddlRows rows
	widened // has an additional column w
	indexed // has an index on v
	stages
)

// ddlClient creates and drops its tables, one table at a time.
type ddlClient struct {
	id, n int
	// sure is the last acknowledged stage of table n. next is the stage that was requested after sure.
	sure, next stage
	done       int
}

func (d *ddlClient) table() string { return fmt.Sprintf("crash.t%d_%d", d.id, d.n) }

// statements returns the statements that lead to the next stage.
func (d *ddlClient) statements() []string {
	t := d.table()
	switch d.next {
	case created:
		return []string{"CREATE TABLE " + t + " (k int PRIMARY KEY, v int)"}
	case filled:
		var out []string
		for k := range ddlRows {
			out = append(out, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d)", t, k, k%2))
		}
		return out
	case widened:
		return []string{"ALTER TABLE " + t + " ADD w int", "UPDATE " + t + " SET w = 7 WHERE k = 0"}
	case indexed:
		return []string{"CREATE INDEX ON " + t + " (v)"}
	}
	return []string{"DROP TABLE " + t}
}

func (d *ddlClient) run(c *rawclient.Conn) {
	defer c.Close()
	for {
		d.next = (d.sure + 1) % stages
		for _, q := range d.statements() {
			if _, err := c.Query(q); err != nil {
				return
			}
		}
		d.done++
		if d.sure = d.next; d.sure == missing {
			d.n++
		}
	}
}

// resolve determines the stage of the table and checks that the content matches. The stage must be the last
// acknowledged stage or the next stage. resolve reports whether the table exists.
func (d *ddlClient) resolve(t *testing.T, c *rawclient.Conn) bool {
	t.Helper()
	query := func(q string) ([]int, error) {
		r, err := process.Query(c, dberr.One, q)
		if err != nil {
			return nil, err
		}
		return column(t, r), nil
	}
	rows, err := query("SELECT k FROM " + d.table())
	_, wide := query("SELECT w FROM " + d.table())
	_, index := query("SELECT k FROM " + d.table() + " WHERE v = 1")
	found := missing
	switch {
	case err != nil:
	case index == nil:
		found = indexed
	case wide == nil:
		found = widened
	case len(rows) == ddlRows:
		found = filled
	default:
		found = created
	}
	whole := found == missing || found == created && (d.sure == created || d.next == created) || len(rows) == ddlRows
	if !whole || found != d.sure && found != d.next {
		t.Errorf("%s: acknowledged stage %d, requested stage %d, actual stage %d with rows %v (%v, %v, %v)", d.table(),
			d.sure, d.next, found, rows, err, wide, index)
	}
	if found == indexed {
		if ones, err := query("SELECT k FROM " + d.table() + " WHERE v = 1"); err != nil || len(ones) != 1 ||
			ones[0] != 1 {
			t.Errorf("%s: the index finds %v (%v)", d.table(), ones, err)
		}
	}
	if d.sure = found; d.sure == missing {
		d.n++
	}
	if found == created { // some of the new rows may exist
		process.Do(t, c, "TRUNCATE "+d.table())
	}
	return found != missing
}

var partitionsMetric = regexp.MustCompile(`(?m)^ilion_physical_partitions (\d+)$`)

// partitions returns the number of physical partitions on the node.
func partitions(t *testing.T, s *process.Server) int {
	t.Helper()
	r, err := http.Get("http://" + s.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	m := partitionsMetric.FindSubmatch(b)
	if err != nil || m == nil {
		t.Fatal("no metrics: ", err)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKillSchema checks that a kill during schema changes leaves a consistent schema, partition map, and set of
// partitions. An acknowledged change must exist. Any other change must exist completely or not at all, and no
// partition may remain without a table.
func TestKillSchema(t *testing.T) {
	t.Parallel()
	dir, config := filepath.Join(t.TempDir(), "data"),
		configuration(t, fmt.Sprint("initial_partitions: ", ddlPartitions))
	s := process.Start(t, dir, config)
	own := partitions(t, s)
	c := s.Dial(t)
	process.Do(t, c, "CREATE KEYSPACE crash WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.Close()
	clients := make([]ddlClient, ddlClients)
	for i := range clients {
		clients[i].id = i
	}
	rng := rand.New(rand.NewPCG(uint64(*rounds), 13))
	for round := range *rounds {
		var wg sync.WaitGroup
		for i := range clients {
			conn := s.Dial(t)
			wg.Go(func() { clients[i].run(conn) })
		}
		time.Sleep(time.Duration(20+rng.IntN(400)) * time.Millisecond) // the kill may hit any phase
		s.Kill()
		wg.Wait()
		s = process.Start(t, dir, config)
		c := s.Dial(t)
		tables := 0
		for i := range clients {
			if clients[i].resolve(t, c) {
				tables++
			}
		}
		if got, want := partitions(t, s), own+tables*ddlPartitions; got != want {
			t.Errorf("%d partitions for %d tables, want %d", got, tables, want)
		}
		c.Close()
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	total := 0
	for i := range clients {
		total += clients[i].done
	}
	if total < 10 {
		t.Errorf("only %d stages: the test checks nothing", total)
	}
	t.Logf("%d stages acknowledged", total)
}
