// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// TestTwoOfFour checks that writes and QUORUM reads are rejected as unavailable while two of four nodes are down. The
// errors must contain the correct numbers. Everything must work again when one node has returned.
func TestTwoOfFour(t *testing.T) {
	f := startFleet(t, 4, "")
	a := f.nodes[0]
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	const tables = 4 // so that every node leads one of these tables
	for i := range tables {
		a.do(fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v int)", i),
			fmt.Sprintf("INSERT INTO ks.t%d (k, v) VALUES (1, 1)", i))
	}
	f.settle()
	c := f.nodes[1].dial()
	f.nodes[2].kill()
	f.nodes[3].kill()
	requests := map[string]string{
		"write":          "INSERT INTO ks.t%d (k, v) VALUES (1, 2)",
		"condition":      "INSERT INTO ks.t%d (k, v) VALUES (2, 2) IF NOT EXISTS",
		"read at QUORUM": "SELECT v FROM ks.t%d WHERE k = 1",
	}
	for i := range tables {
		// The outcome of a write is unknown until the leader has noticed the loss.
		f.until("the loss is noticed", eventually.Limit, func() string {
			if err := unavailable(c, fmt.Sprintf(requests["write"], i)); err != nil {
				return err.Error()
			}
			return ""
		})
		for what, text := range requests {
			if err := unavailable(c, fmt.Sprintf(text, i)); err != nil {
				t.Errorf("table %d: a %s: %v", i, what, err)
			}
		}
	}
	asked := time.Now()
	_, err := process.Query(c, dberr.One, "SELECT v FROM ks.t0 WHERE k = 1")
	t.Logf("a read at ONE without a quorum completed in %s: %v", time.Since(asked).Round(time.Millisecond), err)

	f.nodes[3].start()
	began := time.Now()
	f.until("everything works with three nodes", eventually.Limit, func() string {
		for i := range tables {
			for what, text := range requests {
				if _, err := process.Query(c, dberr.Quorum, fmt.Sprintf(text, i)); err != nil {
					return fmt.Sprintf("%s of table %d: %v", what, i, err)
				}
			}
		}
		return ""
	})
	t.Logf("everything works %s after the start of the third node", time.Since(began).Round(time.Millisecond))
}

// unavailable runs a statement that must be rejected because only two of four nodes are up.
func unavailable(c *rawclient.Conn, text string) error {
	_, err := process.Query(c, dberr.Quorum, text)
	e := (*cqlwire.Error)(nil)
	switch {
	case err == nil:
		return errors.New("it was done")
	case !errors.As(err, &e) || e.Code != cqlwire.CodeUnavailable:
		return err
	case e.Required != 3 || e.Alive != 2:
		return fmt.Errorf("unavailable with %d required and %d alive", e.Required, e.Alive)
	}
	return nil
}

// TestFounderGone checks that the first node of a cluster has no special role, and that the schema can be changed while
// the meta partition has a quorum.
func TestFounderGone(t *testing.T) {
	f := startFleet(t, 4, "")
	a, b := f.nodes[0], f.nodes[1]
	a.do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
		"CREATE TABLE ks.t0 (k int PRIMARY KEY, v int)")
	c := b.dial()
	a.kill()
	began := time.Now()
	process.Do(t, c, "CREATE TABLE ks.t1 (k int PRIMARY KEY, v int)")
	t.Logf("CREATE TABLE %s after the founder, which led the meta partition, was killed",
		time.Since(began).Round(time.Millisecond))
	for _, table := range []string{"ks.t0", "ks.t1"} {
		if _, err := process.Query(c, dberr.Quorum, "INSERT INTO "+table+" (k, v) VALUES (1, 1)"); err != nil {
			t.Error(err)
		}
	}
	a.start()
	f.settle()
	if _, err := process.Query(a.dial(), dberr.One, "SELECT v FROM ks.t1 WHERE k = 1"); err != nil {
		t.Error(err)
	}
}

// TestMetaLost checks that the cluster serves data without the meta partition. Schema changes must wait and return a
// matching error.
func TestMetaLost(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 4, "")
	f.nodes[0].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}")
	const tables = 12 // each table has one partition, because the cluster does not have more nodes than replicas yet
	for i := range tables {
		f.nodes[0].do(fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v int)", i))
	}
	// The meta partition stays on the first four nodes, but the tables spread over six nodes.
	f.add().start()
	f.add().start()
	f.still()
	s, err := f.nodes[5].status()
	if err != nil {
		t.Fatal(err)
	}
	lost := []*member{f.nodes[0], f.nodes[1]}
	served := servedWithout(f, s, lost)
	if len(served) == 0 {
		t.Fatal("every table would also lose its quorum: the test checks nothing")
	}
	t.Logf("lost: %s and %s; replicas: %v", lost[0].name(), lost[1].name(), whereabouts(f, s))
	c := f.nodes[5].dial()
	for _, m := range lost {
		m.kill()
	}
	for _, table := range served {
		for i := range 20 {
			if _, err := process.Query(c, dberr.Quorum, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, 1)", table,
				i)); err != nil {
				t.Errorf("%s, write %d: %v", table, i, err)
			}
		}
	}
	began := time.Now()
	_, err = c.Query("CREATE TABLE ks.late (k int PRIMARY KEY)")
	if err == nil {
		t.Error("a table was created without a quorum of the meta partition")
	}
	t.Logf("%d tables are served; CREATE TABLE is answered after %s: %v", len(served),
		time.Since(began).Round(time.Millisecond), err)
	for _, m := range lost {
		m.start()
	}
	f.until("the schema can be changed again", eventually.Limit, func() string {
		if _, err := c.Query("CREATE TABLE IF NOT EXISTS ks.late (k int PRIMARY KEY)"); err != nil {
			return err.Error()
		}
		return ""
	})
	f.settle()
}

// servedWithout returns the tables of keyspace ks that keep three voters without the lost nodes.
func servedWithout(f *fleet, s *admin.Status, lost []*member) []string {
	var out []string
	for _, table := range s.Tables {
		if table.Name[:3] != "ks." {
			continue
		}
		left := 0
		for _, r := range table.Partitions[0].Replicas {
			m := f.byID(s, r.Node)
			if m != lost[0] && m != lost[1] {
				left++
			}
		}
		if left >= 3 {
			out = append(out, table.Name)
		}
	}
	return out
}

// whereabouts maps each table of keyspace ks to its nodes. The leader according to s is first.
func whereabouts(f *fleet, s *admin.Status) map[string][]int {
	out := map[string][]int{}
	for _, table := range s.Tables {
		if table.Name[:3] != "ks." {
			continue
		}
		p := table.Partitions[0]
		at := []int{0}
		if m := f.byID(s, p.Leader); m != nil {
			at[0] = m.index + 1
		}
		for _, r := range p.Replicas {
			if m := f.byID(s, r.Node); m != nil {
				at = append(at, m.index+1)
			}
		}
		out[table.Name] = at
	}
	return out
}
