// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
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

// wrongClocks enables TestWrongClock, which recompiles the standard library.
var wrongClocks = flag.Bool("wrong-clocks", false,
	"run the tests with wrong clocks; building their binary takes minutes")

const (
	// clockTables and clockRows are the numbers of tables and rows of each kind in TestWrongClock.
	clockTables, clockRows = 4, 16
	// lifetime is longer than the test and shorter than the offset of any wrong clock.
	lifetime = 30 * time.Minute
	// clockSlack is the maximum by which a timestamp may be later than the clock. It is the tolerated clock difference
	// between nodes plus the timestamp increments of conditional writes.
	clockSlack = 2 * time.Second
)

// TestWrongClock checks a cluster of four nodes while the wall clock of one node is an hour ahead, is an hour behind,
// or jumps. The node must not lead any partition while its clock is wrong. A write through any node must not have a
// timestamp that is too late or too early, because later writes from drivers must be visible. Data with a lifetime
// must not expire early or have another lifetime. An index created during that time must contain all rows. The same
// must apply after the node has been killed while it coordinated batches, and after its clock has been corrected.
func TestWrongClock(t *testing.T) {
	if !*wrongClocks {
		t.Skip("give -wrong-clocks")
	}
	bin := process.WrongClock(t)
	for _, c := range []struct {
		name  string
		first time.Duration // the initial offset of the node
		jumps []time.Duration
	}{
		{"ahead", time.Hour, nil},
		{"behind", -time.Hour, nil},
		{"set ahead", 0, []time.Duration{time.Hour}},
		{"set back", 0, []time.Duration{-time.Hour}},
		{"jumps", 0, []time.Duration{time.Hour, -time.Hour, time.Minute, 0, -time.Minute, 24 * time.Hour,
			5 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) { newSkewed(t, bin, c.first).run(c.jumps) })
	}
}

// skewed is a cluster whose last node may have a wrong clock.
type skewed struct {
	*fleet
	clock *process.Clock
	wrong *member
	id    string
	// rows is the number of rows of each kind and table.
	rows int
}

func newSkewed(t *testing.T, bin string, by time.Duration) *skewed {
	t.Helper()
	s := &skewed{fleet: newFleet(t, ""), clock: process.NewClock(t)}
	for i := range 4 {
		m := s.add()
		if i == 3 {
			s.wrong, m.bin, m.env = m, bin, s.clock.Environ()
			s.clock.Set(by)
		}
		m.start()
	}
	s.settle()
	s.id = s.wrong.id()
	s.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	for i := range clockTables {
		s.nodes[i%3].do(
			fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v int, w int) WITH gc_grace_seconds = 0", i),
			fmt.Sprintf("CREATE TABLE ks.c%d (k int PRIMARY KEY, n counter)", i))
	}
	s.settle()
	return s
}

// settle calls fleet.settle, but accepts the report of a wrong clock.
func (s *skewed) settle() {
	s.t.Helper()
	s.until("settle", s.settleTimeout, func() string {
		for _, m := range s.alive() {
			status, err := m.status()
			if err != nil {
				return err.Error()
			}
			status.Problems = slices.DeleteFunc(status.Problems, func(text string) bool {
				return strings.Contains(text, "the clock of node")
			})
			if text := unsettled(status, len(s.nodes)); text != "" {
				return m.name() + ": " + text
			}
		}
		return ""
	})
}

// leads returns the number of partitions that the wrong node leads, according to another node.
func (s *skewed) leads() (n int) {
	s.t.Helper()
	status, err := s.nodes[0].status()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, table := range status.Tables {
		for _, p := range table.Partitions {
			if p.Leader == s.id {
				n++
			}
		}
	}
	return n
}

// abstains waits until the wrong node leads no partition.
func (s *skewed) abstains() {
	s.t.Helper()
	s.until("a node with a wrong clock leads nothing", settleTime, func() string {
		if n := s.leads(); n > 0 {
			return fmt.Sprintf("it leads %d partitions", n)
		}
		return ""
	})
}

func (s *skewed) run(jumps []time.Duration) {
	began := time.Now()
	var stop atomic.Bool
	var wg sync.WaitGroup
	switch len(jumps) {
	case 0:
		s.abstains()
	case 1:
		s.write() // the node previously led some of these partitions
		s.clock.Set(jumps[0])
		s.abstains()
	default:
		wg.Go(func() {
			for rng := rand.New(rand.NewPCG(1, 2)); !stop.Load(); {
				s.clock.Set(jumps[rng.IntN(len(jumps))])
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond) // duration of the fault
			}
		})
	}
	watch := len(jumps) <= 1
	for range 3 {
		s.write()
		s.sweep()
		if n := s.leads(); watch && n > 0 {
			s.t.Errorf("the node leads %d partitions with a wrong clock", n)
		}
	}
	s.killInBatches()
	s.nodes[1].do("CREATE INDEX ON ks.t0 (v)")
	s.check(began)
	stop.Store(true)
	wg.Wait()
	s.clock.Set(0)
	s.settle()
	s.write()
	s.sweep()
	s.check(began)
}

// write adds rows of every kind through every node.
func (s *skewed) write() {
	s.t.Helper()
	for i, m := range s.nodes {
		conn := m.dial()
		for table := range clockTables {
			for j := range clockRows / 4 {
				k := s.rows + i*clockRows/4 + j
				statements := []string{
					"INSERT INTO ks.t%[1]d (k, v) VALUES (%[2]d, 1)",
					"INSERT INTO ks.t%[1]d (k, w) VALUES (%[2]d, 1) USING TTL %[3]d",
					"UPDATE ks.t%[1]d SET v = 2 WHERE k = %[2]d IF v = 1",
					"UPDATE ks.c%[1]d SET n = n + 1 WHERE k = %[2]d",
				}
				if j == 0 {
					statements = append(statements,
						fmt.Sprintf("BEGIN BATCH INSERT INTO ks.t%%[1]d (k, v) VALUES (%%[2]d, 2); "+
							"INSERT INTO ks.t%d (k, v) VALUES (%%[2]d, 2); APPLY BATCH", (table+1)%clockTables))
				}
				for _, text := range statements {
					s.query(conn, fmt.Sprintf(text, table, k, int(lifetime/time.Second)))
				}
			}
		}
	}
	s.rows += clockRows
}

// query repeats a statement until it succeeds, because requests may time out while leaders change. All writes except
// counter updates are idempotent, and counters are not compared.
func (s *skewed) query(conn *rawclient.Conn, text string) (rows int, cells []byte) {
	s.t.Helper()
	s.until(text, settleTime, func() string {
		r, err := process.Query(conn, dberr.Quorum, text)
		if err != nil {
			return err.Error()
		}
		rows, cells = r.RowCount, r.Cells
		return ""
	})
	return rows, cells
}

// sweep makes every node compact its whole store immediately.
func (s *skewed) sweep() {
	s.t.Helper()
	for _, m := range s.nodes {
		process.Order(s.t, m.dir, "/compact")
	}
}

// killInBatches kills the wrong node while it coordinates LOGGED batches. Other nodes complete the batches, and then
// the node starts again.
func (s *skewed) killInBatches() {
	s.t.Helper()
	var wg sync.WaitGroup
	const clients, enough = 16, 100
	var done atomic.Int64
	var failed atomic.Value
	grown := make(chan struct{})
	for i := range clients {
		conn := s.wrong.dial()
		wg.Go(func() {
			for k := i; ; k += clients {
				_, err := conn.Query(fmt.Sprintf("BEGIN BATCH INSERT INTO ks.t0 (k, v) VALUES (%d, 3); "+
					"INSERT INTO ks.t1 (k, v) VALUES (%d, 3); APPLY BATCH", k%clockRows, k%clockRows))
				switch refusal := (*cqlwire.Error)(nil); {
				case errors.As(err, &refusal): // requests may time out while leaders change
					failed.Store(err)
				case err != nil:
					return // stop because the node is down
				case done.Add(1) == enough:
					close(grown)
				}
			}
		})
	}
	select {
	case <-grown:
	case <-time.After(settleTime):
		s.t.Errorf("%d batches of %d were written in %s; the last error: %v", done.Load(), enough, settleTime,
			failed.Load())
	}
	s.wrong.kill()
	wg.Wait()
	s.until("all batches are finished", settleTime, func() string {
		if n, _ := s.query(s.nodes[0].dial(), "SELECT id FROM system.batches"); n > 0 {
			return fmt.Sprintf("%d are left", n)
		}
		return ""
	})
	s.wrong.start()
}

// check checks all data that was written since began.
func (s *skewed) check(began time.Time) {
	s.t.Helper()
	for i, m := range s.nodes {
		conn := m.dial()
		for table := range clockTables {
			earliest, latest := began.Add(-clockSlack).UnixMicro(), time.Now().Add(clockSlack).UnixMicro()
			n, cells := s.query(conn, fmt.Sprintf("SELECT writetime(v), writetime(w), ttl(w) FROM ks.t%d", table))
			if n != s.rows {
				s.t.Errorf("%s: table %d has %d rows, want %d", m.name(), table, n, s.rows)
			}
			left := int32((lifetime - time.Since(began) - clockSlack) / time.Second)
			for ; len(cells) > 0 && !s.t.Failed(); cells = cells[32:] {
				if len(cells) < 32 || binary.BigEndian.Uint32(cells[12:]) != 8 {
					s.t.Errorf("%s: table %d: a cell with a lifetime expired early", m.name(), table)
					break
				}
				v, w := int64(binary.BigEndian.Uint64(cells[4:])), int64(binary.BigEndian.Uint64(cells[16:]))
				if min(v, w) < earliest || max(v, w) > latest {
					s.t.Errorf("%s: table %d: timestamps %s and %s, current time %s", m.name(), table,
						time.UnixMicro(v).UTC(), time.UnixMicro(w).UTC(), time.Now().UTC())
				}
				if ttl := int32(binary.BigEndian.Uint32(cells[28:])); ttl < left ||
					ttl > int32((lifetime+clockSlack)/time.Second) {
					s.t.Errorf("%s: table %d: remaining lifetime %d s of %s", m.name(), table, ttl, lifetime)
				}
			}
		}
		// A later write from a driver with a correct clock must be visible.
		for table := range clockTables {
			at := time.Now().Add(clockSlack).UnixMicro()
			s.query(conn, fmt.Sprintf("UPDATE ks.t%d USING TIMESTAMP %d SET v = %d WHERE k = 0", table, at, 100+i))
			if _, cells := s.query(conn, fmt.Sprintf("SELECT v FROM ks.t%d WHERE k = 0", table)); len(cells) != 8 ||
				binary.BigEndian.Uint32(cells[4:]) != uint32(100+i) {
				s.t.Errorf("%s: table %d: a driver's write is hidden: %v", m.name(), table, cells)
			}
		}
	}
	found := 0
	for _, v := range []int{2, 3, 100, 101, 102, 103} {
		n, _ := s.query(s.nodes[2].dial(), fmt.Sprintf("SELECT k FROM ks.t0 WHERE v = %d", v))
		found += n
	}
	if found != s.rows {
		s.t.Errorf("the index finds %d rows of %d", found, s.rows)
	}
}
