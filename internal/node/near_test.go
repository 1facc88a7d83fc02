// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/operations"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// nearItems is a table of vectors with its expected content.
type nearItems struct {
	t    *testing.T
	n    *Node
	c    *client
	rnd  *rand.Rand
	dim  int
	rows map[int]*nearItem
	of   vector.Similarity
}

type nearItem struct {
	v []float32
	x int
}

func nearNumber(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

func newNearItems(t *testing.T, n *Node, dim int, of vector.Similarity, keyspace string) *nearItems {
	s := &nearItems{t: t, n: n, c: newClient(t, n), rnd: rand.New(rand.NewPCG(11, uint64(of))), dim: dim,
		rows: map[int]*nearItem{}, of: of}
	s.c.query("CREATE KEYSPACE " + keyspace +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	s.c.query("USE " + keyspace)
	s.c.query(fmt.Sprintf("CREATE TABLE t (k int PRIMARY KEY, v vector<float, %d>, x int)", dim))
	return s
}

func (s *nearItems) index() {
	s.c.query(fmt.Sprintf("CREATE INDEX near ON t (v) USING 'sai' WITH OPTIONS = {'similarity_function': '%s'}", s.of))
	s.c.query("CREATE INDEX other ON t (x) USING 'sai'")
}

// draw draws a vector near one of 60 random centers.
func (s *nearItems) draw() []float32 {
	v := make([]float32, s.dim)
	middle := rand.New(rand.NewPCG(uint64(s.rnd.IntN(60)), 5))
	for i := range v {
		v[i] = float32(middle.NormFloat64() + 0.5*s.rnd.NormFloat64())
	}
	return v
}

func (s *nearItems) insert(k int) {
	it := &nearItem{s.draw(), s.rnd.IntN(10)}
	s.rows[k] = it
	s.c.execute(s.c.prepare("INSERT INTO t (k, v, x) VALUES (?, ?, ?)"), nearNumber(k),
		vector.AppendVector(nil, it.v), nearNumber(it.x))
}

// ask compares a search with an exact search. It returns the number of found rows that are among the nearest rows, and
// the number of rows that the search should find. If x is not negative, the search is restricted to rows with that x.
func (s *nearItems) ask(target []float32, limit, x int) (hits, want int) {
	s.t.Helper()
	where := ""
	if x >= 0 {
		where = fmt.Sprintf("WHERE x = %d", x)
	}
	r := s.c.execute(s.c.prepare(fmt.Sprintf("SELECT k FROM t %s ORDER BY v ANN OF ? LIMIT %d", where, limit)),
		vector.AppendVector(nil, target))
	var exact []float32
	for _, it := range s.rows {
		if it.v != nil && (x < 0 || it.x == x) {
			exact = append(exact, s.of.Of(target, it.v))
		}
	}
	slices.SortFunc(exact, func(a, b float32) int { return cmp.Compare(b, a) })
	want = min(limit, len(exact))
	if r.RowCount != want {
		s.t.Fatalf("%d rows, want %d", r.RowCount, want)
	}
	seen := map[int]bool{}
	last := float32(2e9)
	for i := range r.RowCount {
		k := int(binary.BigEndian.Uint32(r.Cells[8*i+4:]))
		it := s.rows[k]
		if it == nil || it.v == nil || x >= 0 && it.x != x || seen[k] {
			s.t.Fatalf("found %d: %+v", k, it)
		}
		seen[k] = true
		is := s.of.Of(target, it.v)
		if is > last {
			s.t.Fatalf("row %d is nearer than the previous row", i)
		}
		if last = is; is >= exact[want-1] {
			hits++
		}
	}
	return hits, want
}

// exact fails the test if a search does not find the nearest rows.
func (s *nearItems) exact(limit, x int) {
	s.t.Helper()
	if hits, want := s.ask(s.draw(), limit, x); hits != want {
		s.t.Fatalf("found %d of the %d nearest rows", hits, want)
	}
}

func (s *nearItems) descriptor() (*schema.Table, *schema.Index) {
	for _, ks := range s.n.catalog.Snapshot().Keyspaces {
		if t := ks.Tables["t"]; t != nil && t.Indexes["near"] != nil {
			return t, t.Indexes["near"]
		}
	}
	return nil, nil
}

// change makes a random change of a row.
func (s *nearItems) change(keys int) {
	k := s.rnd.IntN(keys)
	it := s.rows[k]
	switch i := s.rnd.IntN(8); {
	case i == 0:
		s.c.query(fmt.Sprintf("DELETE FROM t WHERE k = %d", k))
		delete(s.rows, k)
	case i == 1 && it != nil:
		s.c.query(fmt.Sprintf("DELETE v FROM t WHERE k = %d", k))
		it.v = nil
	case i == 2 && it != nil && it.v != nil: // a write with an older timestamp has no effect
		s.c.execute(s.c.prepare("INSERT INTO t (k, v) VALUES (?, ?) USING TIMESTAMP 5"), nearNumber(k),
			vector.AppendVector(nil, s.draw()))
	default:
		s.insert(k)
	}
}

// nearModes lists the modes in which a search of a vector index is exact. The search examines the rows themselves, the
// entries of one list, or the entries of as many lists as every search examines.
var nearModes = []struct {
	name              string
	rows, keys, lists int
}{{"rows", 1 << 20, 150, 0}, {"one list", 1, 150, 1}, {"several lists", 1, 1000, 2}}

// TestNearExact checks that searches that examine all vectors find exactly the nearest rows. The test covers each mode
// and each similarity, with and without a restriction. Between the searches, rows are inserted, updated, and deleted.
// Some changes have older timestamps. Several physical partitions are split while the lists are built. A row must
// expire. After a restart, the searches must be exact.
func TestNearExact(t *testing.T) {
	t.Parallel()
	for _, mode := range nearModes {
		for of := range vector.Euclidean + 1 {
			t.Run(mode.name+"/"+of.String(), func(t *testing.T) {
				t.Parallel()
				nearExact(t, of, mode.rows, mode.keys, mode.lists)
			})
		}
	}
}

func nearExact(t *testing.T, of vector.Similarity, listed, keys, lists int) {
	o := Options{Data: t.TempDir(), InitialPartitions: 2, Commit: "periodic",
		Testing: options.Testing{VectorListsRows: int64(listed), VectorListsPause: 50 * time.Millisecond}}
	n := startNode(t, o)
	s := newNearItems(t, n, 6, of, "ks")
	for k := range keys {
		s.insert(k)
	}
	s.index()
	eventually.True(t, "the index is built", func() bool { _, ix := s.descriptor(); return ix != nil && !s.building() })
	for i := range 300 {
		s.change(keys)
		s.exact(1+s.rnd.IntN(12), s.rnd.IntN(14)-4)
		if i != 150 {
			continue
		}
		eventually.True(t, "the index has its lists", func() bool { return s.lists() >= lists })
		table, _ := s.descriptor()
		for _, p := range n.metadata.State().Topology.Partitions(table.ID) {
			o := operations.Split{Table: "ks.t", Partition: uint64(p.ID), Now: true}
			if _, err := n.partitions.Split(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	target := s.draw()
	if of == vector.DotProduct { // the longest vector is the nearest
		for i := range target {
			target[i] *= 9
		}
	}
	s.c.execute(s.c.prepare("INSERT INTO t (k, v) VALUES (?, ?) USING TTL 1"), nearNumber(keys),
		vector.AppendVector(nil, target))
	eventually.True(t, "a row has expired", func() bool {
		r := s.c.execute(s.c.prepare("SELECT k FROM t ORDER BY v ANN OF ? LIMIT 1"), vector.AppendVector(nil, target))
		return r.RowCount == 1 && binary.BigEndian.Uint32(r.Cells[4:]) != uint32(keys)
	})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	s.n = startNode(t, o)
	s.c = newClient(t, s.n)
	s.c.query("USE ks")
	for range 30 {
		s.exact(1+s.rnd.IntN(12), s.rnd.IntN(14)-4)
	}
	if got := s.lists(); got < lists || lists == 0 && got > 0 || lists == 1 && got > 1 {
		t.Errorf("%d lists", got)
	}
}

// TestNearElsewhere checks searches on a node that stores no rows of the table. They must find the nearest rows across
// several physical partitions, with and without lists. Their cost must equal the cost on a node that stores the rows.
func TestNearElsewhere(t *testing.T) {
	t.Parallel()
	o := Options{InitialPartitions: 3,
		Testing: options.Testing{VectorListsRows: 400, VectorListsPause: 50 * time.Millisecond}}
	a := clusterNode(t, nil, o)
	s := newNearItems(t, a, 6, vector.Cosine, "ks")
	s.index()
	b := clusterNode(t, a, o)
	s.c = newClient(t, b)
	eventually.True(t, "the other node knows the table", func() bool {
		return b.catalog.Snapshot().Keyspaces["ks"].Tables["t"].Indexes["near"] != nil
	})
	s.c.query("USE ks")
	for k := range 300 {
		s.insert(k)
	}
	for range 20 {
		s.exact(1+s.rnd.IntN(12), s.rnd.IntN(14)-4)
	}
	for k := range 700 {
		s.insert(300 + k)
	}
	eventually.True(t, "the index has its lists", func() bool { return s.lists() > 1 })
	for range 100 {
		s.change(1000)
		s.exact(1+s.rnd.IntN(12), s.rnd.IntN(14)-4)
	}
	s.n = b
	s.price()
}

// price waits until a search costs as much as EXPLAIN estimates. A sweep of entries may run between the search and
// EXPLAIN.
func (s *nearItems) price() {
	search := "SELECT k FROM ks.t ORDER BY v ANN OF [" + strings.Repeat("1, ", s.dim-1) + "1] LIMIT 10"
	session := driver(s.t, s.n, "cassandra", "cassandra")
	eventually.True(s.t, "a search costs what EXPLAIN says", func() bool {
		said := map[string]any{}
		if err := session.Query("EXPLAIN " + search).MapScan(said); err != nil {
			s.t.Fatal(err)
		}
		it := session.Query(search).CustomPayload(map[string][]byte{"RequestCharge": {1}}).Iter()
		cost := math.Float64frombits(binary.BigEndian.Uint64(append(it.GetCustomPayload()["RequestCharge"],
			make([]byte, 8)...)))
		if err := it.Close(); err != nil || cost < 6 {
			s.t.Fatalf("a search costs %v RU, EXPLAIN says %v; %v", cost, said, err)
		}
		return cost == said["expected_ru"]
	})
}

// building reports whether the index is being built. lists returns the number of lists that searches use, or 0 if the
// index has no lists.
func (s *nearItems) building() bool { _, ix := s.descriptor(); return s.n.builder.Building(ix) }

func (s *nearItems) lists() int {
	_, ix := s.descriptor()
	if len(ix.Lists) == 0 || s.building() {
		return 0
	}
	return ix.Lists[0].Len()
}

// TestNearLists checks that an index gets lists around centers when the index has grown. The index must serve searches
// while the lists are built. Searches that use lists must find nearly all of the nearest rows. They must also find
// later rows, and must support restrictions. Searches are exact if few rows match the restriction. The lists must
// exist after a restart.
func TestNearLists(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Data: dir, InitialPartitions: 2, Commit: "periodic",
		Testing: options.Testing{VectorListsRows: 3000, VectorListsPause: 50 * time.Millisecond}}
	n := startNode(t, o)
	s := newNearItems(t, n, 16, vector.Cosine, "ks")
	s.index()
	for k := range 6000 {
		s.insert(k)
	}
	eventually.True(t, "the index has lists", func() bool {
		s.ask(s.draw(), 10, -1)
		return s.lists() > 1
	})
	recall := func(x int) {
		t.Helper()
		hits, want := 0, 0
		for range 40 {
			h, w := s.ask(s.draw(), 10, x)
			hits, want = hits+h, want+w
		}
		if t.Logf("recall of %d lists: %d of %d", s.lists(), hits, want); 100*hits < 95*want {
			t.Errorf("found %d of the %d nearest rows", hits, want)
		}
	}
	recall(-1)
	for k := range 2000 {
		s.insert(k + 5000)
	}
	recall(-1)
	recall(3)
	for range 20 {
		s.exact(10, 3) // few rows match, so the search examines all of them
	}
	s.price()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, o)
	s.n, s.c = n, newClient(t, n)
	s.c.query("USE ks")
	recall(-1)
}

func (s *nearItems) column() *schema.Column {
	t, ix := s.descriptor()
	return t.ByName[ix.Column]
}

// TestSearchSeesWrites checks that a vector search with a consistency level above ONE finds acknowledged writes at
// every node of a cluster. The coordinator must keep the consistency level of the request.
func TestSearchSeesWrites(t *testing.T) {
	t.Parallel()
	a := clusterNode(t, nil, Options{InitialPartitions: 2})
	nodes := []*Node{a, clusterNode(t, a, Options{}), clusterNode(t, a, Options{})}
	eventually.True(t, "three voters", func() bool { return voters(a) == 3 })
	clients := make([]*client, len(nodes))
	for i, n := range nodes {
		clients[i] = newClient(t, n)
		clients[i].call.Request.Consistency = dberr.Quorum
	}
	c := clients[0]
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v vector<float, 3>)")
	c.query("CREATE INDEX ON ks.t (v) USING 'sai' WITH OPTIONS = {'similarity_function': 'euclidean'}")
	eventually.True(t, "three voters of the table", func() bool { return voters(a) == 3 && voters(nodes[2]) == 3 })
	for i := range 100 {
		vector := fmt.Sprintf("[%d, 0, 1]", i)
		c.query(fmt.Sprintf("INSERT INTO ks.t (k, v) VALUES (%d, %s)", i, vector))
		r := clients[i%len(clients)].query("SELECT k FROM ks.t ORDER BY v ANN OF " + vector + " LIMIT 1")
		if want := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 4}, uint32(i)); !bytes.Equal(r.Cells, want) {
			t.Fatalf("write %d is not found at node %d: %x", i, i%len(clients), r.Cells)
		}
		if len(r.Warnings) > 0 {
			t.Fatalf("%q", r.Warnings)
		}
	}
}
