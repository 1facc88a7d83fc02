// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/poll"
)

// member starts a node of the cluster of the first one, which founds it.
func clusterNode(t *testing.T, first *Node, o Options) *Node {
	t.Helper()
	o.Cluster.Internal = "127.0.0.1:0"
	if first == nil {
		o.Cluster.Bootstrap = true
		o.Cluster.JoinSecretFile = filepath.Join(t.TempDir(), joinSecretFile)
	} else {
		o.Cluster.Join = []string{first.internalAddr()}
		o.Cluster.JoinSecretFile = first.opts.Cluster.JoinSecretFile
	}
	return startNode(t, o)
}

// voters counts the voters of every partition; it is the same number for all, or 0.
func voters(n *Node) int {
	count := -1
	for p := range n.metadata.State().Topology.All() {
		v := p.Sets[0].Count(topology.Voter)
		if count >= 0 && v != count || p.Sets[0].Count(topology.Joining) > 0 {
			return 0
		}
		count = v
	}
	return count
}

// TestClusterGrows checks that replica sets grow from one voter to three and then four as nodes join (never two), that
// what one node writes another reads, that all follow a schema change, and that a node that leaves is taken out of
// every set and stops.
func TestClusterGrows(t *testing.T) {
	t.Parallel()
	a := clusterNode(t, nil, Options{})
	c := newClient(t, a)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	for i := range 20 {
		c.query(fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, %d)", i, i))
	}
	b := clusterNode(t, a, Options{})
	poll.Until(t, "two nodes know each other", func() bool {
		return len(a.metadata.State().Nodes) == 2 && len(b.metadata.State().Nodes) == 2
	})
	if got := voters(a); got != 1 {
		t.Errorf("two nodes: %d voters", got)
	}
	clusterNode(t, a, Options{})
	poll.Until(t, "three voters", func() bool { return voters(a) == 3 })
	d := clusterNode(t, a, Options{})
	poll.Until(t, "four voters", func() bool { return voters(d) == 4 })
	e := newClient(t, d)
	if r := e.query("SELECT count(*) FROM k.t"); r.RowCount != 1 {
		t.Errorf("the fourth node counts %v", r)
	}
	e.query("ALTER TABLE k.t ADD w int")
	newClient(t, b).query("INSERT INTO k.t (k, w) VALUES (7, 8)")
	poll.Until(t, "all nodes have the new column", func() bool {
		return a.catalog.Snapshot().Table("k", "t").Column("w") != nil &&
			b.catalog.Snapshot().Table("k", "t").Column("w") != nil
	})
	id := fmt.Sprintf("%x", d.cluster.self)
	if _, err := a.setNodeState(t.Context(), "resume", id); err == nil {
		t.Error("an order was cancelled that nobody had given")
	}
	for _, what := range []string{"drain", "decommission"} {
		for _, o := range []string{what, "resume"} {
			if _, err := a.setNodeState(t.Context(), o, id); err != nil {
				t.Fatal(err)
			}
		}
		poll.Until(t, "four voters after "+what+" was cancelled", func() bool { return voters(a) == 4 })
		if state := a.metadata.State().Node(d.cluster.self).State; state != meta.Up || d.Err() != nil {
			t.Errorf("%s was cancelled: the node is %s, %v", what, state, d.Err())
		}
	}
	if _, err := a.setNodeState(t.Context(), "decommission", id); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "three voters again", func() bool { return voters(a) == 3 })
	poll.Until(t, "the node that left ends", func() bool { return d.Err() != nil })
	if !errors.Is(d.Err(), ErrLeft) {
		t.Errorf("it did what it was told and says %v", d.Err())
	}
	if state := a.metadata.State().Node(d.cluster.self).State; state != meta.Left {
		t.Errorf("the node is %s", state)
	}
}

// TestAdoption checks that a node that stood alone goes on as the first of a cluster with all its data, does so again
// after a restart, and never stands alone again.
func TestAdoption(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	alone := startNode(t, Options{Data: dir})
	c := newClient(t, alone)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	c.query("CREATE INDEX i ON k.t (v)")
	for i := range 50 {
		c.query(fmt.Sprintf("INSERT INTO k.t (k, v) VALUES (%d, %d)", i, i%5))
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n := clusterNode(t, nil, Options{Data: dir})
		c := newClient(t, n)
		if r := c.query("SELECT k FROM k.t"); r.RowCount != 50 {
			t.Errorf("%d rows", r.RowCount)
		}
		if r := c.query("SELECT k FROM k.t WHERE v = 3"); r.RowCount != 10 {
			t.Errorf("the index finds %d rows", r.RowCount)
		}
		c.query("INSERT INTO k.t (k, v) VALUES (1, 9)")
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for want, o := range map[string]Options{
		"specify --internal": {Data: dir},
	} {
		if _, err := Start(t.Context(), o.quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func (o Options) quiet() Options {
	o.CQL, o.HTTP = "127.0.0.1:0", "off"
	return o
}

// TestJoinRefusals checks that data of another node are never mixed into a cluster, and that each refusal says what to
// do.
func TestJoinRefusals(t *testing.T) {
	first := clusterNode(t, nil, Options{})
	used := filepath.Join(t.TempDir(), "used")
	alone := startNode(t, Options{Data: used})
	newClient(t, alone).query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	other := clusterNode(t, nil, Options{Data: filepath.Join(t.TempDir(), "other")})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		o          Options
	}{
		{"neither", "Use --bootstrap to create one", Options{Cluster: ClusterOptions{Internal: "127.0.0.1:0"}}},
		{"no secret", "give --join-secret-file",
			Options{Cluster: ClusterOptions{Internal: "127.0.0.1:0", Bootstrap: true, Join: []string{"127.0.0.1:1"}}}},
		{"no address", "specify --internal", Options{Cluster: ClusterOptions{Bootstrap: true}}},
		{"periodic", "commit periodic is for a node that stands alone",
			Options{Commit: "periodic", Cluster: ClusterOptions{Internal: "127.0.0.1:0", Bootstrap: true}}},
		{"no certificates", "configure cluster.tls",
			Options{Cluster: ClusterOptions{Internal: "192.0.2.1:7000", Bootstrap: true}}},
		{"data", "use --bootstrap to keep it in a new cluster",
			Options{Data: used, Cluster: ClusterOptions{Internal: "127.0.0.1:0",
				Join: []string{first.internalAddr()}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			n, err := Start(ctx, c.o.quiet())
			if err == nil {
				_ = n.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := os.Stat(used); err != nil {
		t.Error("the directory is gone")
	}
}

// TestFeatureLevel checks that builds of two feature levels work together at the older one, that nothing but an order
// raises it, to what all of them understand, and that the older build cannot come back then: neither on its directory,
// which it refuses as newer, nor on an empty one.
func TestFeatureLevel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "old")
	a := clusterNode(t, nil, Options{Data: dir})
	b := clusterNode(t, a, Options{newest: feature.Newest + 1})
	poll.Until(t, "the newer node is there", func() bool { return len(a.metadata.State().Nodes) == 2 })
	c := newClient(t, b)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	c.query("INSERT INTO k.t (k, v) VALUES (1, 1)")
	raise := func(n *Node, want feature.Level) {
		t.Helper()
		if level, err := n.RaiseLevel(t.Context()); err != nil || level != want {
			t.Errorf("with a node of the older build the level is raised to %d: %v", level, err)
		}
	}
	raise(b, feature.Newest)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = clusterNode(t, nil, Options{Data: dir, newest: feature.Newest + 1})
	poll.Until(t, "the cluster knows the newer build", func() bool {
		return b.metadata.State().Node(a.store.Identity().Node).Levels.Newest == feature.Newest+1
	})
	if level := b.metadata.State().Topology.Level(); level != feature.Newest {
		t.Errorf("the level was raised to %d by nobody", level)
	}
	raise(b, feature.Newest+1)
	poll.Until(t, "both directories and all partitions are of the newer level", func() bool {
		for _, n := range []*Node{a, b} {
			if n.store.Level() != feature.Newest+1 {
				return false
			}
			for _, r := range n.host.Replicas() {
				if r.Level() != feature.Newest+1 {
					return false
				}
			}
		}
		return true
	})
	c.query("CREATE TABLE k.born_later (k int PRIMARY KEY)")
	poll.Until(t, "a partition is born at the level of the cluster", func() bool {
		for p := range b.metadata.State().Topology.All() {
			for _, n := range []*Node{a, b} {
				if r := n.host.Replica(p.ID); p.Level == feature.Newest+1 && r != nil && r.Level() == p.Level {
					return true
				}
			}
		}
		return false
	})
	if r := newClient(t, a).query("SELECT * FROM k.t"); r.RowCount != 1 {
		t.Errorf("%d rows", r.RowCount)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	older := func(o Options) error {
		o.CQL, o.HTTP, o.Cluster.Internal, o.Cluster.Join = "127.0.0.1:0", "off", "127.0.0.1:0",
			[]string{b.internalAddr()}
		o.Cluster.JoinSecretFile = b.opts.Cluster.JoinSecretFile
		o.Memory.Budget = 256 << 20
		n, err := Start(t.Context(), o)
		if err == nil {
			_ = n.Close()
		}
		return err
	}
	if err := older(Options{Data: dir}); !errors.Is(err, feature.ErrNewer) ||
		!strings.Contains(err.Error(), fmt.Sprintf("(feature level %d); this build understands %s", feature.Newest+1,
			feature.Known)) {
		t.Errorf("the older build on the directory: %v", err)
	}
	if err := older(Options{Data: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("the cluster works at feature level %d, the build of",
			feature.Newest+1)) {
		t.Errorf("the older build on an empty directory: %v", err)
	}
}

// TestLongAbsence checks that a node which was away for so long that its replicas were rebuilt elsewhere, that of the
// meta partition among them, follows the records again when it is back, and can be used.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	const heal = 500 * time.Millisecond
	dirs := t.TempDir()
	roomy := func(string) (vfs.DiskUsage, error) { // a node with little space gets no replicas back
		return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
	}
	var nodes []*Node
	for i := range 5 {
		var first *Node
		o := Options{Data: filepath.Join(dirs, strconv.Itoa(i)), usage: roomy,
			Cluster: ClusterOptions{RebuildDelay: heal}}
		if i > 0 {
			first = nodes[0]
		}
		nodes = append(nodes, clusterNode(t, first, o))
	}
	a := nodes[0]
	poll.Until(t, "four voters", func() bool { return voters(a) == 4 && len(a.metadata.State().Nodes) == 5 })
	set := func() *topology.ReplicaSet { return &a.metadata.State().Topology.Meta().Sets[0] }
	// Which node has the replica that does not vote depends on who joined when; nobody takes its place.
	votes := func(n *Node) bool { return set().On(n.cluster.self).State == topology.Voter }
	i := 1 + slices.IndexFunc(nodes[1:], votes)
	away := nodes[i]
	id, dir := away.cluster.self, filepath.Join(dirs, strconv.Itoa(i))
	was := set().On(id).ID
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	poll.Until(
		t,
		"its replica of the meta partition is replaced",
		func() bool { m := set().On(id); return (m == nil || m.ID != was) && voters(a) == 4 },
	)
	newClient(t, a).query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	back := clusterNode(t, a, Options{Data: dir, usage: roomy, Cluster: ClusterOptions{RebuildDelay: heal}})
	poll.Until(t, "the node follows the records", func() bool {
		return back.metadata.State().Version >= a.metadata.State().Version
	})
	if back.cluster.self != id {
		t.Fatal("it came back as another node")
	}
	c := newClient(t, back)
	c.query("CREATE TABLE k.t (k int PRIMARY KEY)")
	c.query("INSERT INTO k.t (k) VALUES (1)")
	if r := newClient(t, a).query("SELECT * FROM k.t"); r.RowCount != 1 {
		t.Errorf("%d rows", r.RowCount)
	}
}
