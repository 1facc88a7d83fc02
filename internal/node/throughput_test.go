// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
)

// TestThroughputIsDivided checks that the throughput of a table is divided evenly among its physical partitions.
// Tables without their own throughput must share the throughput of their keyspace. ALTER must change both kinds of
// throughput.
func TestThroughputIsDivided(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, table := range []string{"own", "a", "b"} {
		c.query("CREATE TABLE k." + table + " (k int PRIMARY KEY, v int)")
	}
	shares := func() (out string) {
		state := n.metadata.State()
		all := throughput.DividePerPartition(state).PerSecond
		for _, table := range []string{"own", "a", "b"} {
			out += table
			ps := state.Topology.Partitions(state.Schema.Table("k", table).ID)
			for _, p := range ps {
				if bound := n.host.Replica(p.ID).Throughput().Limited(); bound != (all[p.ID] > 0) {
					t.Errorf("partition %d of %s: bounded is %v", p.ID, table, bound)
				}
			}
			out += fmt.Sprintf(" %d x %d, ", len(ps), all[ps[0].ID])
		}
		return out
	}
	own := func() []*topology.Partition {
		s := n.metadata.State()
		return s.Topology.Partitions(s.Schema.Table("k", "own").ID)
	}
	first := len(own())
	for _, step := range []struct{ ddl, want string }{
		{"ALTER TABLE k.own WITH cosmosdb_provisioned_throughput = 18000", "own %d x %d, a %[1]d x 0, b %[1]d x 0, "},
		{"ALTER KEYSPACE k WITH throughput = 6000", "own %d x %d, a %[1]d x %[3]d, b %[1]d x %[3]d, "},
		{"ALTER TABLE k.own WITH throughput = 0", "own %d x %[4]d, a %[1]d x %[4]d, b %[1]d x %[4]d, "},
		{"ALTER KEYSPACE k WITH throughput = 0", "own %d x 0, a %[1]d x 0, b %[1]d x 0, "},
	} {
		c.query(step.ddl)
		want := step.want
		want = strings.NewReplacer("%[1]d", fmt.Sprint(first), "%[3]d", fmt.Sprint(6000/(2*first)), "%[4]d",
			fmt.Sprint(6000/(3*first))).Replace(want)
		want = strings.Replace(want, "%d", fmt.Sprint(first), 1)
		want = strings.Replace(want, "%d", fmt.Sprint(18000/first), 1)
		if got := shares(); got != want {
			t.Errorf("after %s: %s, want %s", step.ddl, got, want)
		}
	}
}

// TestThroughputIsEnforced checks that a client that exceeds the throughput of a table receives OVERLOADED and a retry
// time. The request must succeed after that time. Other tables must not be affected.
func TestThroughputIsEnforced(t *testing.T) {
	n := startTestNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 400")
	c.query("CREATE TABLE k.free (k int PRIMARY KEY, v text)")
	insert := c.prepare("INSERT INTO k.t (k, v) VALUES (?, ?)")
	read := c.prepare("SELECT v FROM k.t WHERE k = ?")
	free := c.prepare("INSERT INTO k.free (k, v) VALUES (?, ?)")
	try := func(id [16]byte, values ...[]byte) error {
		c.call.Result.Reset()
		c.call.Request.ID, c.call.Request.Values = id, values
		return c.wait(c.s.Execute(context.Background(), &c.call)).Err
	}
	key, large := []byte{0, 0, 0, 1}, make([]byte, 200<<10)
	var busy *dberr.Overloaded
	for i := 0; ; i++ { // each write costs 100 RU
		err := try(insert, key, large)
		if errors.As(err, &busy) {
			break
		}
		if err != nil || i > 10_000 {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if busy.RetryAfter <= 0 || !strings.HasPrefix(busy.Message, "Request rate is large: ActivityID=") {
		t.Errorf("%+v", busy)
	}
	if err := try(read, key); err != nil && !errors.As(err, &busy) {
		t.Error(err)
	}
	if err := try(free, key, large); err != nil {
		t.Errorf("another table: %v", err)
	}
	for end := time.Now().Add(eventually.Limit); ; {
		err := try(read, key)
		if err == nil {
			break
		}
		if !errors.As(err, &busy) || time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(busy.RetryAfter) // wait as a client would
	}
}

// TestPartitionsByThroughput checks that a table is created with the number of physical partitions that its throughput
// requires. An increase of the throughput must split partitions immediately, even in an empty table. A decrease must
// merge partitions.
func TestPartitionsByThroughput(t *testing.T) {
	t.Parallel()
	n := startTestNode(t, Options{Merges: options.Merges{IdlePeriod: 100 * time.Millisecond}})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v text) WITH cosmosdb_provisioned_throughput = 18000")
	await := func(want int, each int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
		defer cancel()
		for {
			s := n.metadata.State()
			ps := s.Topology.Partitions(s.Schema.Table("k", "t").ID)
			if len(ps) == want {
				if got := throughput.DividePerPartition(s).PerSecond[ps[0].ID]; got != each {
					t.Errorf("each of %d partitions has %d RU/s, want %d", want, got, each)
				}
				return
			}
			if _, err := n.metadata.Wait(ctx, s.Version+1); err != nil {
				t.Fatalf("%d partitions, want %d", len(ps), want)
			}
		}
	}
	await(3, 6_000)
	c.query("ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 31000")
	await(4, 7_750)
	for _, e := range n.metadata.State().History {
		if e.Cause != topology.ByThroughput {
			t.Errorf("a split with the cause %s", e.Cause)
		}
	}
	c.query("ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 400")
	await(1, 400)
}
