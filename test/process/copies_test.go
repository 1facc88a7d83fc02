// SPDX-License-Identifier: Apache-2.0

//go:build integration

package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// three is a cluster of three nodes. Each node has a replica of the table.
type three struct {
	t         *testing.T
	base      string
	addresses []string
	nodes     []*process.Server
	client    *rawclient.Conn
	rows      int
}

func startThree(t *testing.T) *three {
	t.Helper()
	c := &three{t: t, base: t.TempDir()}
	for i := range 3 {
		c.addresses = append(c.addresses, freeAddress(t))
		how := []string{"--internal", c.addresses[i], "--bootstrap"}
		if i > 0 {
			how = []string{"--internal", c.addresses[i], "--join", c.addresses[0]}
		}
		c.nodes = append(c.nodes, process.Start(t, c.dir(i), how...))
	}
	c.client = c.nodes[0].Dial(t)
	t.Cleanup(func() { c.client.Close() })
	process.Do(t, c.client,
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		"CREATE TABLE ks.t (k int PRIMARY KEY)")
	whole(t, c.nodes)
	c.write()
	return c
}

// until waits until missing returns "". missing describes the unmet condition.
func (c *three) until(what string, missing func() string) {
	c.t.Helper()
	eventually.None(c.t, what, eventually.Limit, missing)
}

// whole waits until every partition has as many voters as the cluster has nodes. Before that, leaders may move, and a
// partition may have its only voter on a node that the test stops.
func whole(t *testing.T, nodes []*process.Server) {
	t.Helper()
	eventually.None(t, "voters of each partition on all nodes", eventually.Limit, func() string {
		for _, n := range nodes {
			for _, table := range process.Status(t, n).Tables {
				for _, p := range table.Partitions {
					voters := 0
					for _, r := range p.Replicas {
						if r.State == "voter" {
							voters++
						}
					}
					if voters != len(nodes) || p.Leader == "" {
						return fmt.Sprintf("%s has %d, led by %q", table.Name, voters, p.Leader)
					}
				}
			}
		}
		return ""
	})
}

func (c *three) dir(i int) string { return filepath.Join(c.base, fmt.Sprint("node", i)) }

// write adds ten rows at QUORUM.
func (c *three) write() {
	c.t.Helper()
	for range 10 {
		if _, err := process.Query(c.client, dberr.Quorum, fmt.Sprintf("INSERT INTO ks.t (k) VALUES (%d)",
			c.rows)); err != nil {
			c.t.Fatal(err)
		}
		c.rows++
	}
}

// check checks that all rows exist.
func (c *three) check() {
	c.t.Helper()
	if r, err := process.Query(c.client, dberr.Quorum, "SELECT k FROM ks.t"); err != nil || r.RowCount != c.rows {
		c.t.Fatalf("%+v, want %d rows (%v)", r, c.rows, err)
	}
}

func (c *three) copyDir(from, to string) {
	c.t.Helper()
	process.CopyDir(c.t, from, to)
}

// again starts the third node on a directory. again waits until the node is ready and the first node knows it.
func (c *three) again(dir string) *process.Server {
	c.t.Helper()
	s := process.Start(c.t, dir, "--internal", c.addresses[2])
	c.until("the first node knows the third", func() string {
		for _, n := range process.Status(c.t, c.nodes[0]).Nodes {
			if n.Internal == c.addresses[2] {
				return strings.TrimPrefix(n.State, "up")
			}
		}
		return "the node is down"
	})
	return s
}

// refused starts the third node on a directory three times. Each time, the node must exit with an error that contains
// the given texts.
func (c *three) refused(dir string, texts ...string) {
	c.t.Helper()
	for range 3 {
		begin(c.t, dir, c.addresses[2]).Refuses(c.t, 1, texts...)
	}
}

// leadFirst makes the first node lead all partitions while only the first and the third node run.
func (c *three) leadFirst() {
	c.t.Helper()
	first, third := process.Status(c.t, c.nodes[0]), process.Status(c.t, c.nodes[2])
	process.Order(c.t, c.dir(0), "/node/drain?node="+third.Node)
	c.until("the first node leads all", func() string {
		for _, table := range process.Status(c.t, c.nodes[0]).Tables {
			for _, p := range table.Partitions {
				if p.Leader != first.Node {
					return fmt.Sprintf("%s is led by %q", table.Name, p.Leader)
				}
			}
		}
		return ""
	})
}

// TestLostLogFolder checks that a node whose log folder is missing, empty, or from another directory does not start,
// even after several attempts. The node must start when the right folder is back.
func TestLostLogFolder(t *testing.T) {
	t.Parallel()
	c := startThree(t)
	c.nodes[2].Stop(t)
	log, aside := filepath.Join(c.dir(2), "raft"), filepath.Join(c.base, "aside")
	older := filepath.Join(c.base, "older")
	c.copyDir(log, older)
	c.nodes[2] = c.again(c.dir(2))
	c.write()
	c.nodes[2].Stop(t)
	if err := os.Rename(log, aside); err != nil {
		t.Fatal(err)
	}
	c.refused(c.dir(2), "the Raft log, which contains the node's votes, is missing", "empty directory", "volume")
	if err := os.MkdirAll(log, 0o755); err != nil {
		t.Fatal(err)
	}
	c.refused(c.dir(2), "the Raft log, which contains the node's votes, is missing", "empty directory")
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	c.copyDir(older, log)
	c.refused(c.dir(2), "restored to an earlier state", "empty directory")
	c.nodes[1].Stop(t)
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	c.copyDir(filepath.Join(c.dir(1), "raft"), log)
	c.refused(c.dir(2), "belongs to another data directory", "empty directory")
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, log); err != nil {
		t.Fatal(err)
	}
	c.again(c.dir(2))
	c.write()
	c.check()
}

// TestCopyInTurn starts nodes on a data directory and then on its copy. It checks that the cluster accepts only the
// directory that was started first. This must be true even after the other nodes have restarted.
func TestCopyInTurn(t *testing.T) {
	t.Parallel()
	c := startThree(t)
	c.nodes[2].Stop(t)
	original, other := c.dir(2), filepath.Join(c.base, "copy")
	c.copyDir(original, other)
	moved := c.again(other)
	c.write()
	moved.Stop(t)
	c.refused(original, "is a copy, or was restored to an earlier state", "empty directory")
	for i := range 2 {
		c.nodes[i].Stop(t)
	}
	for i := range 2 {
		c.nodes[i] = process.Start(t, c.dir(i), "--internal", c.addresses[i])
	}
	c.client = c.nodes[0].Dial(t)
	c.refused(original, "is a copy, or was restored to an earlier state", "empty directory")
	c.again(other)
	c.write()
	c.check()
}

// TestEarlierState checks that a data directory that was restored to an earlier state is rejected.
func TestEarlierState(t *testing.T) {
	t.Parallel()
	c := startThree(t)
	c.nodes[2].Stop(t)
	backup := filepath.Join(c.base, "backup")
	c.copyDir(c.dir(2), backup)
	for range 2 {
		c.nodes[2] = c.again(c.dir(2))
		c.write()
		c.nodes[2].Stop(t)
	}
	c.refused(backup, "is a copy, or was restored to an earlier state", "empty directory")
	c.again(c.dir(2))
	c.write()
	c.check()
}

// TestEarlierMoment checks a data directory that was restored to an earlier time of its latest run, for example from a
// disk snapshot. When other nodes send entries that follow the lost entries, the node must detect the loss. The node
// must then exit with one line that names the directory and the remedy. After that, the other nodes must reject the
// directory. No acknowledged write may be lost.
func TestEarlierMoment(t *testing.T) {
	t.Parallel()
	c := startThree(t)
	n, moment := c.nodes[2], filepath.Join(c.base, "moment")
	n.CopyRunning(t, c.dir(2), moment)
	// the first node and the third node form the quorum, so the third node acknowledges writes that it will lose
	c.nodes[1].Stop(t)
	c.leadFirst()
	c.write()
	n.Kill()
	c.nodes[1] = process.Start(t, c.dir(1), "--internal", c.addresses[1])
	back := begin(t, moment, c.addresses[2])
	back.Refuses(t, 1, moment, "restored to an earlier state", "empty directory")
	c.refused(moment, moment, "restored to an earlier state", "empty directory")
	c.check()
}
