// SPDX-License-Identifier: Apache-2.0

//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/joinsecret"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
)

// steady returns o with settings that keep leaders from changing when the machine is busy.
func steady(o Options) Options {
	o.Testing.ElectionTicks = 400 // 20 s
	return o
}

// clusterNode starts a node that joins the cluster of first. If first is nil, the node creates a new cluster.
func clusterNode(t *testing.T, first *Node, o Options) *Node {
	t.Helper()
	o.Cluster.Internal = "127.0.0.1:0"
	if first == nil {
		o.Cluster.Bootstrap = true
		o.Cluster.JoinSecretFile = filepath.Join(t.TempDir(), joinsecret.FileName)
	} else {
		o.Cluster.Join = []string{first.InternalAddr()}
		o.Cluster.JoinSecretFile = first.opts.Cluster.JoinSecretFile
	}
	return startNode(t, o)
}

// voters returns the number of voters of each partition. It returns 0 if the numbers differ or a replica is still
// joining.
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

// listenSchema registers a client of a node for schema changes, and returns the events that the client receives. The
// channel is closed after a minute.
func listenSchema(t *testing.T, n *Node) <-chan string {
	t.Helper()
	c, err := rawclient.Dial(t.Context(), n.CQLAddr().String(), rawclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	body := cqlwire.AppendRegister(nil, []string{cqlwire.SchemaChangeEvent})
	if op, _, err := c.Call(cqlwire.OpRegister, body); err != nil || op != cqlwire.OpReady {
		t.Fatalf("REGISTER: %v %v", op, err)
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // in case an event is missing
		t.Fatal(err)
	}
	events := make(chan string)
	go func() {
		defer close(events)
		for {
			var head [cqlwire.HeaderSize]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			body := make([]byte, cqlwire.ParseHeader(head[:]).Length)
			if _, err := io.ReadFull(c, body); err != nil {
				return
			}
			e, err := cqlwire.DecodeEvent(body)
			if err != nil {
				t.Errorf("event: %v", err)
				return
			}
			select {
			case events <- e.Schema.Change + " " + e.Schema.Target + " " + e.Schema.Keyspace:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return events
}

// TestClusterGrows checks that replica sets grow from one voter to three and then to four as nodes join. A set must
// never have two voters. Nodes must read data that another node has written, and all nodes must apply a schema change.
// A node that leaves must be removed from every set and then stop.
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
	eventually.True(t, "two nodes know each other", func() bool {
		return len(a.metadata.State().Nodes) == 2 && len(b.metadata.State().Nodes) == 2
	})
	if got := voters(a); got != 1 {
		t.Errorf("two nodes: %d voters", got)
	}
	events := listenSchema(t, a)
	clusterNode(t, a, Options{})
	eventually.True(t, "three voters", func() bool { return voters(a) == 3 })
	// system_schema now shows three replicas instead of one replica.
	var announced []string
	for range 4 {
		announced = append(announced, <-events)
	}
	want := []string{"UPDATED KEYSPACE k", "UPDATED KEYSPACE system_auth", "UPDATED KEYSPACE system_distributed",
		"UPDATED KEYSPACE system_traces"}
	if diff := cmp.Diff(want, announced); diff != "" {
		t.Errorf("events when the number of replicas changed (-want +got):\n%s", diff)
	}
	d := clusterNode(t, a, Options{})
	eventually.True(t, "four voters", func() bool { return voters(d) == 4 })
	e := newClient(t, d)
	if r := e.query("SELECT count(*) FROM k.t"); r.RowCount != 1 {
		t.Errorf("count(*) at the fourth node: %v", r)
	}
	e.query("ALTER TABLE k.t ADD w int")
	newClient(t, b).query("INSERT INTO k.t (k, w) VALUES (7, 8)")
	eventually.True(t, "all nodes have the new column", func() bool {
		return a.catalog.Snapshot().Table("k", "t").Column("w") != nil &&
			b.catalog.Snapshot().Table("k", "t").Column("w") != nil
	})
	id := fmt.Sprintf("%x", d.cluster.self)
	if _, err := a.cluster.operations.SetState(t.Context(), id, meta.Up); err == nil {
		t.Error("resume succeeded without a command to cancel")
	}
	for _, what := range []meta.NodeState{meta.Draining, meta.Leaving} {
		for _, o := range []meta.NodeState{what, meta.Up} {
			if _, err := a.cluster.operations.SetState(t.Context(), id, o); err != nil {
				t.Fatal(err)
			}
		}
		eventually.True(t, "four voters after "+what.String()+" was canceled", func() bool { return voters(a) == 4 })
		if state := a.metadata.State().Node(d.cluster.self).State; state != meta.Up || d.Err() != nil {
			t.Errorf("%s was canceled: the node is %s, %v", what, state, d.Err())
		}
	}
	if _, err := a.cluster.operations.SetState(t.Context(), id, meta.Leaving); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "three voters again", func() bool { return voters(a) == 3 })
	eventually.True(t, "the node that left ends", func() bool { return d.Err() != nil })
	if !errors.Is(d.Err(), ErrLeft) {
		t.Errorf("the node stopped with %v, want ErrLeft", d.Err())
	}
	if state := a.metadata.State().Node(d.cluster.self).State; state != meta.Left {
		t.Errorf("the node is %s", state)
	}
}

// TestAdoption checks that a single node with data can become the first node of a cluster. The node must keep all its
// data. It must be able to restart as a cluster node, but not as a single node.
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
		if _, err := Start(t.Context(), quiet(o)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func quiet(o Options) Options {
	o.CQL, o.HTTP = "127.0.0.1:0", "off"
	return o
}

// TestJoinRefusals checks that a node with data cannot join another cluster. Each error must state the remedy.
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
		{"neither", "Use --bootstrap to create one", Options{Cluster: options.Cluster{Internal: "127.0.0.1:0"}}},
		{"no secret", "specify --join-secret-file",
			Options{Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true, Join: []string{"127.0.0.1:1"}}}},
		{"no address", "specify --internal", Options{Cluster: options.Cluster{Bootstrap: true}}},
		{"periodic", "commit periodic is supported only on a standalone",
			Options{Commit: "periodic", Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true}}},
		{"no certificates", "configure cluster.tls",
			Options{Cluster: options.Cluster{Internal: "192.0.2.1:7000", Bootstrap: true}}},
		{"data", "use --bootstrap to keep it in a new cluster",
			Options{Data: used, Cluster: options.Cluster{Internal: "127.0.0.1:0",
				Join: []string{first.InternalAddr()}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			n, err := Start(ctx, quiet(c.o))
			if err == nil {
				_ = n.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := os.Stat(used); err != nil {
		t.Error("the data directory was removed")
	}
}

// TestFeatureLevel checks that builds of two feature levels work together at the older level. Only an explicit command
// may raise the level, and only to a level that all nodes support. After the upgrade, the older build must not start
// on its old directory, whose format is too new. It must also not start on an empty directory.
func TestFeatureLevel(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "old")
	a := clusterNode(t, nil, Options{Data: dir})
	b := clusterNode(t, a, Options{Testing: options.Testing{NewestLevel: feature.Newest + 1}})
	eventually.True(t, "the newer node is there", func() bool { return len(a.metadata.State().Nodes) == 2 })
	c := newClient(t, b)
	c.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE k.t (k int PRIMARY KEY, v int)")
	c.query("INSERT INTO k.t (k, v) VALUES (1, 1)")
	raise := func(n *Node, want feature.Level) {
		t.Helper()
		if level, err := n.RaiseLevel(t.Context()); err != nil || level != want {
			t.Errorf("the level was raised to %d: %v", level, err)
		}
	}
	raise(b, feature.Newest)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = clusterNode(t, nil, Options{Data: dir, Testing: options.Testing{NewestLevel: feature.Newest + 1}})
	eventually.True(t, "the cluster knows the newer build", func() bool {
		return b.metadata.State().Node(a.store.Identity().Node).Levels.Newest == feature.Newest+1
	})
	if level := b.metadata.State().Topology.Level(); level != feature.Newest {
		t.Errorf("the level was raised to %d without a command", level)
	}
	raise(b, feature.Newest+1)
	eventually.True(t, "both directories and all partitions are of the newer level", func() bool {
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
	eventually.True(t, "a partition is born at the level of the cluster", func() bool {
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
			[]string{b.InternalAddr()}
		o.Cluster.JoinSecretFile = b.opts.Cluster.JoinSecretFile
		o.Memory.Budget = 256 << 20
		n, err := Start(t.Context(), o)
		if err == nil {
			_ = n.Close()
		}
		return err
	}
	if err := older(Options{Data: dir}); !errors.Is(err, feature.ErrNewer) ||
		!strings.Contains(err.Error(), fmt.Sprintf("(feature level %d); this version supports %s", feature.Newest+1,
			feature.Known)) {
		t.Errorf("the older build on the directory: %v", err)
	}
	if err := older(Options{Data: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("the cluster uses feature level %d, but",
			feature.Newest+1)) {
		t.Errorf("the older build on an empty directory: %v", err)
	}
}

// TestLongAbsence checks a node that is down until its replicas have been rebuilt elsewhere. The replicas include its
// replica of the meta partition. After its restart, the node must follow the metadata again and serve requests.
func TestLongAbsence(t *testing.T) {
	t.Parallel()
	const heal = 500 * time.Millisecond
	dirs := t.TempDir()
	roomy := func(string) (vfs.DiskUsage, error) { // a node with little space receives no replicas
		return vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40}, nil
	}
	var nodes []*Node
	for i := range 5 {
		var first *Node
		o := Options{Data: filepath.Join(dirs, strconv.Itoa(i)), Testing: options.Testing{DiskUsage: roomy},
			Cluster: options.Cluster{RebuildDelay: heal}}
		if i > 0 {
			first = nodes[0]
		}
		nodes = append(nodes, clusterNode(t, first, o))
	}
	a := nodes[0]
	eventually.True(t, "four voters", func() bool { return voters(a) == 4 && len(a.metadata.State().Nodes) == 5 })
	set := func() *topology.ReplicaSet { return &a.metadata.State().Topology.Meta().Sets[0] }
	// The order in which the nodes join determines the node with the non-voting replica. This replica is not replaced,
	// so the test stops a node with a voter.
	votes := func(n *Node) bool { return set().On(n.cluster.self).State == topology.Voter }
	i := 1 + slices.IndexFunc(nodes[1:], votes)
	away := nodes[i]
	id, dir := away.cluster.self, filepath.Join(dirs, strconv.Itoa(i))
	was := set().On(id).ID
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.True(
		t,
		"its replica of the meta partition is replaced",
		func() bool { m := set().On(id); return (m == nil || m.ID != was) && voters(a) == 4 },
	)
	newClient(t, a).query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	back := clusterNode(t, a, Options{Data: dir, Testing: options.Testing{DiskUsage: roomy},
		Cluster: options.Cluster{RebuildDelay: heal}})
	eventually.True(t, "the node follows the records", func() bool {
		return back.metadata.State().Version >= a.metadata.State().Version
	})
	if back.cluster.self != id {
		t.Fatal("the node restarted with another ID")
	}
	c := newClient(t, back)
	c.query("CREATE TABLE k.t (k int PRIMARY KEY)")
	c.query("INSERT INTO k.t (k) VALUES (1)")
	if r := newClient(t, a).query("SELECT * FROM k.t"); r.RowCount != 1 {
		t.Errorf("%d rows", r.RowCount)
	}
}
