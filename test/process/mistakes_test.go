// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// hosts counts the hosts that freeAddress has returned.
var hosts atomic.Uint32

// freeAddress returns an address that only the caller uses. Each address has a separate host in the loopback network.
// In contrast, a free port of 127.0.0.1 may belong to another test or connection by the time the test uses the port.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d:0", 101+os.Getpid()%100, os.Getpid()/100%250, 1+hosts.Add(1)%250)
	l, err := net.Listen("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// begin starts a node of a cluster without waiting.
func begin(t *testing.T, dir, internal string, args ...string) *process.Server {
	t.Helper()
	return process.Launch(t, append([]string{"start", "--data", dir, "--cql", "127.0.0.1:0", "--http", "off",
		"--log-level", "warn", "--internal", internal}, args...)...)
}

// TestMistakes checks that a node that is started with a mistake exits with one line that explains the mistake. The
// mistake must cause no damage.
func TestMistakes(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := func(name string) string { return filepath.Join(base, name) }
	one, two := freeAddress(t), freeAddress(t)
	first := process.Start(t, dir("one"), "--internal", one, "--bootstrap")
	second := process.Start(t, dir("two"), "--internal", two, "--join", one)

	for _, c := range []struct {
		name  string
		dir   string
		args  []string
		texts []string
	}{
		{"no cluster given", "new", []string{"--internal", "127.0.0.1:0"}, []string{"--bootstrap", "--join"}},
		{"no address for others", "new", []string{"--join", one}, []string{"--internal HOST:PORT"}},
		{"beyond loopback without TLS", "new", []string{"--internal", "0.0.0.0:0", "--bootstrap"},
			[]string{"mutual TLS", "--insecure"}},
		{"an address in use", "new", []string{"--internal", one, "--join", two},
			[]string{"listen for other nodes", "in use"}},
		{"a directory in use", "one", []string{"--internal", "127.0.0.1:0"}, []string{"another process uses it"}},
		{"to join the address of clients", "new", []string{"--internal", "127.0.0.1:0", "--join", first.CQL},
			[]string{first.CQL, "not the internal address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := process.Launch(t, append([]string{"start", "--data", dir(c.dir), "--cql", "127.0.0.1:0", "--http",
				"off", "--log-level", "warn"}, c.args...)...)
			s.Refuses(t, 1, c.texts...)
			if _, err := os.Stat(dir("new")); err == nil {
				t.Error("the process left a directory behind")
			}
		})
	}
	t.Run("to join itself", func(t *testing.T) {
		at := freeAddress(t)
		begin(t, dir("self"), at, "--join", at).Refuses(t, 1, "--join names this node itself")
	})
	t.Run("to join nobody", func(t *testing.T) {
		at := freeAddress(t)
		s := begin(t, dir("nobody"), freeAddress(t), "--join", at)
		s.Says(t, "waiting for a cluster node to respond")
		s.Says(t, at)
		if _, code := s.Stop(t); code != 0 {
			t.Errorf("SIGTERM: code %d", code)
		}
		if n := strings.Count(s.Stderr(), "\n"); n > 2 {
			t.Errorf("%d lines: %s", n, s.Stderr())
		}
	})
	t.Run("an address that leads nowhere", func(t *testing.T) {
		config := filepath.Join(base, "advertise.yaml")
		nowhere := freeAddress(t)
		if err := os.WriteFile(config, []byte("cluster: {advertise: \""+nowhere+"\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		begin(t, dir("nowhere"), freeAddress(t), "--join", one, "--config", config).Refuses(t, 1, nowhere,
			"cluster.advertise")
	})
	t.Run("a newcomer of another region", func(t *testing.T) {
		at := freeAddress(t)
		begin(t, dir("far"), at, "--join", one, "--region", "elsewhere").Refuses(t, 1, `"elsewhere"`,
			"ilion region add elsewhere", "--region datacenter1")
		// The node must start on the directory when the arguments are correct.
		process.Start(t, dir("far"), "--internal", at, "--join", one).Stop(t)
	})
	t.Run("two clusters", func(t *testing.T) {
		own := process.Start(t, dir("own"), "--internal", freeAddress(t), "--bootstrap")
		own.Stop(t)
		begin(t, dir("own"), freeAddress(t), "--join", one).Refuses(t, 1, "one-node cluster created with --bootstrap",
			one, "empty directory")
	})
	t.Run("data of a node that stood alone", func(t *testing.T) {
		process.Start(t, dir("alone")).Stop(t)
		begin(t, dir("alone"), freeAddress(t), "--join", one).Refuses(t, 1, "data of a standalone node", "--bootstrap")
	})
	t.Run("a member alone", func(t *testing.T) {
		second.Stop(t)
		process.Launch(t, "start", "--data", dir("two"), "--cql", "127.0.0.1:0", "--http", "off").Refuses(t, 1,
			"--internal HOST:PORT")
	})
	t.Run("another region", func(t *testing.T) {
		begin(t, dir("two"), two, "--region", "elsewhere").Refuses(t, 1, "datacenter1", "--region")
	})
	c := first.Dial(t)
	defer c.Close()
	if _, err := c.Query("SELECT * FROM system.local"); err != nil || !first.Running() {
		t.Errorf("the first node: %v", err)
	}
}

// TestSameIdentityTwice checks that a copy of a data directory cannot replace the original directory. This applies
// even if the original is gone or the copy is older. The node on the copy must exit with an explanation. No
// acknowledged write may be lost.
func TestSameIdentityTwice(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	var addresses []string
	var nodes []*process.Server
	dir := func(i int) string { return filepath.Join(base, string(rune('a'+i))) }
	for i := range 3 {
		addresses = append(addresses, freeAddress(t))
		how := []string{"--internal", addresses[i], "--bootstrap"}
		if i > 0 {
			how = []string{"--internal", addresses[i], "--join", addresses[0]}
		}
		nodes = append(nodes, process.Start(t, dir(i), how...))
	}
	c := nodes[0].Dial(t)
	defer c.Close()
	process.Do(t, c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	const tables = 8 // the tables need different leaders, because a follower that keeps its leader knows the original
	for i := range tables {
		process.Do(t, c, fmt.Sprintf("CREATE TABLE ks.t%d (k int PRIMARY KEY)", i))
	}
	copied := filepath.Join(base, "copy")
	nodes[2].CopyRunning(t, dir(2), copied)
	begin(t, copied, freeAddress(t)).Refuses(t, 1, "has the identity of this node", "empty directory")
	for i := range 4 * tables {
		process.Do(t, c, fmt.Sprintf("INSERT INTO ks.t%d (k) VALUES (%d)", i%tables, i))
	}
	nodes[2].Stop(t)
	begin(t, copied, addresses[2]).Refuses(t, 1, "lacks entries that it has acknowledged")
	for i := range tables {
		if r, err := c.Query(fmt.Sprintf("SELECT k FROM ks.t%d", i)); err != nil || r.RowCount != 4 {
			t.Fatalf("table %d: %+v, want 4 rows (%v)", i, r, err)
		}
	}
}
