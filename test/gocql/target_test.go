// SPDX-License-Identifier: Apache-2.0

//go:build integration

package gocql

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"net/http"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/test/testnode"
	"github.com/ilion-db/ilion/test/topochaos"
)

var (
	crossing   = flag.Bool("crossing", false, "also merge partitions across tokens of the ring in TestDriversStayOnTarget")
	targetTime = flag.Duration("target", 3*time.Second, "duration of each driver's work in TestDriversStayOnTarget")
	python     = flag.String("python", "", "Python interpreter with cassandra-driver for the driver tests")
	java       = flag.String("java", "", "class path with java-driver-core for the driver tests")
)

// targetTables is the number of tables. On six nodes, each table starts with six partitions.
const targetTables = 10

// TestDriversStayOnTarget checks that at least nine in ten requests of token-aware drivers reach a node with a
// replica. During the test, about 64 partitions of ten tables on six nodes continuously split, merge, and move. The
// drivers compute the replicas from system.peers.
func TestDriversStayOnTarget(t *testing.T) {
	t.Parallel()
	c := testnode.Start(t, testnode.Options{Nodes: 6, Change: apart(t)})
	s := connect(t, c.CQL(0), 4)
	exec(t, s, "CREATE KEYSPACE target WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 4}")
	for i := range targetTables {
		exec(t, s, fmt.Sprintf("CREATE TABLE target.t%d (k bigint PRIMARY KEY, v bigint)", i))
	}
	c.Settle()
	changer := topochaos.New(t, 1, c.Webs()...)
	// If the range of a partition contains a node token, drivers expect part of the partition on other nodes.
	changer.Siblings = !*crossing
	var stirring sync.WaitGroup
	stop := make(chan struct{})
	defer func() { close(stop); stirring.Wait() }()
	stirring.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				changer.Change("target.")
			}
		}
	})
	t.Run("gocql", func(t *testing.T) {
		onTarget(t, c, func() {
			for began := time.Now(); time.Since(began) < *targetTime; {
				for i := range targetTables {
					k := time.Now().UnixNano()
					exec(t, s, fmt.Sprintf("INSERT INTO target.t%d (k, v) VALUES (?, ?)", i), k, k)
					var v int64
					err := s.Query(fmt.Sprintf("SELECT v FROM target.t%d WHERE k = ?", i), k).Scan(&v)
					if err != nil || v != k {
						t.Errorf("key %d: %d, %v", k, v, err)
					}
				}
			}
		})
	})
	host, port, err := net.SplitHostPort(c.CQL(0))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{host, port, fmt.Sprint(targetTables), fmt.Sprint(targetTime.Seconds())}
	other := func(name, needs string, command ...string) {
		t.Run(name, func(t *testing.T) {
			if needs == "" {
				t.Skip("give -" + name)
			}
			onTarget(t, c, func() {
				out, err := osexec.Command(command[0], append(command[1:], args...)...).CombinedOutput()
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		})
	}
	other("python", *python, *python, "../compat/on_target.py")
	other("java", *java, "java", "-cp", *java, "../compat/java/OnTarget.java")
}

// onTarget runs a driver. For at least nine in ten requested partitions, the node that received the request must have
// a replica.
func onTarget(t *testing.T, c *testnode.Cluster, work func()) {
	t.Helper()
	touched, astray := asked(t, c)
	work()
	more, lost := asked(t, c)
	touched, astray = more-touched, lost-astray
	t.Logf("%.0f partitions were requested, %.0f of them from a node without a replica: %.2f %% on target, "+
		"%.0f a second", touched, astray, 100*(1-astray/touched), touched/targetTime.Seconds())
	if astray > touched/10 {
		t.Error("fewer than nine in ten requests reached a replica")
	}
}

// asked returns the sums of counters over the nodes.
func asked(t *testing.T, c *testnode.Cluster) (touched, astray float64) {
	t.Helper()
	for _, web := range c.Webs() {
		r, err := http.Get("http://" + web + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			var n float64
			name, value, _ := strings.Cut(lines.Text(), " ")
			if _, err := fmt.Sscan(value, &n); err != nil {
				continue
			}
			switch name {
			case "ilion_coordinator_partitions_touched_total":
				touched += n
			case "ilion_coordinator_misrouted_requests_total":
				astray += n
			}
		}
		r.Body.Close()
	}
	return touched, astray
}
