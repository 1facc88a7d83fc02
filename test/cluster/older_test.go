// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/server/admin"
	"github.com/ilion-db/ilion/test/process"
)

// olderBin is a binary of an earlier build. Nodes of that build must work together with nodes of this build.
var olderBin = flag.String("cluster.older", "", "binary of an earlier build")

// sessionAt returns a client that connects to one node only.
func (m *member) sessionAt() *gocql.Session {
	m.f.t.Helper()
	c := gocql.NewCluster(m.ip)
	c.Port, c.Timeout, c.ConnectTimeout = cqlPort, 20*time.Second, 20*time.Second
	c.DisableInitialHostLookup, c.Consistency = true, gocql.Quorum
	s, err := c.CreateSession()
	if err != nil {
		m.f.t.Fatal(err)
	}
	m.f.t.Cleanup(s.Close)
	return s
}

// mixedFleet returns a cluster of four nodes. Every second node runs this build. A node of the older build creates the
// cluster, so the cluster has the feature level of that build.
func mixedFleet(t *testing.T) *fleet {
	t.Helper()
	if *olderBin == "" {
		t.Skip("give -cluster.older PROGRAM")
	}
	f := newFleet(t, "")
	for i := range 4 {
		m := f.add()
		if i%2 == 0 {
			m.bin = *olderBin
		}
		m.start()
	}
	f.settle()
	return f
}

// TestOlderBuild checks that EXPLAIN, MaxRequestCharge, usage, and top work on nodes of this build regardless of the
// leaders' builds. Otherwise, they must report that an older node does not support them. No result may be wrong, and
// no request may exceed its charge limit. A write with a charge limit must be rejected if an older leader would
// evaluate it after a read.
func TestOlderBuild(t *testing.T) {
	f := mixedFleet(t)
	f.nodes[1].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))", "CREATE INDEX ix ON ks.t (v)",
		"CREATE TABLE ks.n (k int PRIMARY KEY, n counter)",
		"CREATE TABLE ks.u (k int PRIMARY KEY, v text) WITH throughput = 24000")
	f.settle()
	for i, m := range f.nodes {
		if m.bin == "" {
			explainedBeside(t, m)
		}
		out, err := exec.Command(process.Binary(t), "top", "--json", "--http", m.web()).CombinedOutput()
		var spent admin.Usage
		switch {
		case m.bin != "":
			if err == nil || !strings.Contains(string(out), "of an older build") {
				t.Errorf("ilion top at an older node: %v %s", err, out)
			}
		case err != nil || json.Unmarshal(out, &spent) != nil || len(spent.Tables) != 3 || len(spent.Users) != 1:
			t.Errorf("ilion top at node %d: %v %s", i+1, err, out)
		}
	}
}

// explainedBeside compares statements on a node with the result of EXPLAIN and with charge limits.
func explainedBeside(t *testing.T, m *member) {
	s := m.sessionAt()
	charged := func(text string, most float64) (float64, error) {
		payload := map[string][]byte{"RequestCharge": {1}}
		if most > 0 {
			payload["MaxRequestCharge"] = binary.BigEndian.AppendUint64(nil, math.Float64bits(most))
		}
		it := s.Query(text).CustomPayload(payload).Iter()
		got := it.GetCustomPayload()["RequestCharge"]
		if err := it.Close(); err != nil || len(got) != 8 {
			return 0, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(got)), nil
	}
	big := strings.Repeat("x", 3000)
	refused := 0
	for k := range 24 {
		for _, text := range []string{
			fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, 1, '%s')", k, big[:100*(k+1)]),
			fmt.Sprintf("INSERT INTO ks.u (k, v) VALUES (%d, '%s')", k, big),
			fmt.Sprintf("SELECT * FROM ks.t WHERE k = %d", k), fmt.Sprintf("SELECT * FROM ks.u WHERE k = %d", k),
			fmt.Sprintf("UPDATE ks.n SET n = n + 1 WHERE k = %d", k),
			fmt.Sprintf("UPDATE ks.t SET v = 'y' WHERE k = %d AND c = 1 IF v = 'z'", k),
			"SELECT * FROM ks.t", "SELECT * FROM ks.u",
		} {
			short := fmt.Sprintf("%s: %.60s", m.name(), text)
			row := map[string]any{}
			if err := s.Query("EXPLAIN " + text).MapScan(row); err != nil {
				t.Errorf("%s: EXPLAIN: %v", short, err)
				continue
			}
			ru, err := charged(text, 0)
			least, most := row["min_ru"].(float64), row["max_ru"].(float64)
			if err != nil || ru < least-1e-9 || ru > most+1e-9 {
				t.Errorf("%s costs %v, EXPLAIN reports %v; %v", short, ru, row, err)
			}
			if _, err = charged(text, ru/2); err == nil {
				t.Errorf("%s was executed although it exceeds its charge limit", short)
			}
			switch _, err = charged(text, ru*1.01); {
			case err == nil:
			case strings.Contains(err.Error(), "written by a newer") && strings.HasPrefix(text, "UPDATE"):
				refused++
			default:
				t.Errorf("%s, with a sufficient charge limit: %v", short, err)
			}
		}
	}
	t.Logf("%s: older leaders rejected %d sufficient charge limits", m.name(), refused)
}

// TestOlderBuildRefusesTransactions checks that a transaction whose leader runs an older build is rejected with a clear
// error and has no effect. A transaction whose leader runs this build must succeed, regardless of the builds of the
// other nodes.
func TestOlderBuildRefusesTransactions(t *testing.T) {
	f := mixedFleet(t)
	f.nodes[1].do("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	const tables = 8 // each has different leaders
	for i := range tables {
		f.nodes[1].do(fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY, v int)", i))
	}
	f.settle()
	s := f.nodes[1].sessionAt()
	done, refused := 0, 0
	for i := range tables {
		for k := range 8 {
			err := s.Query(fmt.Sprintf("BEGIN TRANSACTION INSERT INTO ks.t%d (k, v) VALUES (%d, 1); COMMIT TRANSACTION", i,
				k)).Exec()
			var rows int
			if err := s.Query(fmt.Sprintf("SELECT count(*) FROM ks.t%d WHERE k = %d", i, k)).Scan(&rows); err != nil {
				t.Fatal(err)
			}
			switch {
			case err == nil && rows == 1:
				done++
			case err != nil && rows == 0 && strings.Contains(err.Error(), "written by a newer"):
				refused++
			default:
				t.Errorf("transaction on key %d of t%d: %v, %d rows", k, i, err, rows)
			}
		}
	}
	t.Logf("%d succeeded, %d were rejected by older leaders", done, refused)
	if done == 0 || refused == 0 {
		t.Error("all partitions are led by nodes of one build: the test checks nothing")
	}
}
