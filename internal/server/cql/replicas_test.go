// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/eventually"
)

// ringNode is a node of a simulated cluster.
type ringNode struct {
	rack  string
	token token.Token
}

// startRing starts a server for each node. The servers listen on 127.0.0.1, 127.0.0.2, and so on. The servers share a
// store. Each server describes itself and its peers as a node of a cluster does. The tables of the cluster have the
// given number of replicas.
func startRing(t *testing.T, nodes []ringNode, replicas int) (contact string) {
	t.Helper()
	store, err := storage.Open(vfs.NewMem(), "data", storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	host, err := partition.Open(partition.Stored{Store: store}, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	s := catalog.WithSystem(schema.New())
	topo := topology.New()
	for _, table := range s.Keyspace("system_traces").SortedTables() {
		if topo, err = topo.AddTable(table.ID, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	co := coordinator.New(host, topo, coordinator.Options{})
	// Drivers must not use the declared replication factor of the keyspace.
	s, _, err = schema.Apply(s, &schema.CreateKeyspace{Stamp: schema.Stamp{Version: schema.UUID{1}, At: 1}, Name: "ks",
		Properties: []schema.Property{
			{Name: "replication", IsMap: true, Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"},
				{Key: "replication_factor", Value: "1"}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	listeners := listenAlike(t, len(nodes))
	endpoints := make([]catalog.Endpoint, len(nodes))
	for i, n := range nodes {
		a := listeners[i].Addr().(*net.TCPAddr).AddrPort()
		endpoints[i] = catalog.Endpoint{HostID: schema.UUID{byte(i + 1)}, Datacenter: "west", Rack: n.rack,
			Listen: netip.AddrPortFrom(a.Addr(), 7000), RPC: a,
			Tokens: []token.Token{n.token}}
	}
	for i := range nodes {
		info := catalog.NodeInfo{Endpoint: endpoints[i], ClusterName: "ring", EffectiveReplication: replicas}
		for j := range nodes {
			if j != i {
				info.Peers = append(info.Peers, endpoints[j])
			}
		}
		c := catalog.New(s, func() catalog.NodeInfo { return info })
		engine, err := session.New(c, co, ddl.New(c, nil, ddl.Options{}), session.Options{})
		if err != nil {
			t.Fatal(err)
		}
		srv := New(func(client session.Client) Session { return engine.NewSession(client) }, Options{})
		go func() { _ = srv.Serve(listeners[i]) }()
		t.Cleanup(func() { srv.Close(); engine.Close() })
	}
	return endpoints[0].RPC.String()
}

// listenAlike listens on several addresses with the same port.
func listenAlike(t *testing.T, n int) []net.Listener {
	t.Helper()
	for range 20 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all := []net.Listener{first}
		for i := 1; i < n && err == nil; i++ {
			var l net.Listener
			if l, err = net.Listen("tcp",
				fmt.Sprintf("127.0.0.%d:%d", i+1, first.Addr().(*net.TCPAddr).Port)); err == nil {
				all = append(all, l)
			}
		}
		if err == nil {
			return all
		}
		for _, l := range all {
			l.Close()
		}
	}
	t.Skip("there are no further loopback addresses to listen at")
	return nil
}

// walk returns, in order, the nodes on which placement puts the replicas of a token. It follows the ring, takes the
// first node of each rack, and then takes the nodes that it skipped.
func walk(nodes []ringNode, t token.Token, n int) (out []int) {
	racks := map[string]bool{}
	for _, node := range nodes {
		racks[node.rack] = true
	}
	order := make([]int, 0, len(nodes))
	for len(order) < len(nodes) { // sort nodes by their distance from the token with a simple search
		best := -1
		for i, node := range nodes {
			taken := false
			for _, o := range order {
				taken = taken || o == i
			}
			if !taken && (best < 0 || uint64(node.token-t) < uint64(nodes[best].token-t)) {
				best = i
			}
		}
		order = append(order, best)
	}
	seen := map[string]bool{}
	var passed []int
	for _, i := range order {
		if seen[nodes[i].rack] && len(seen) < len(racks) {
			passed = append(passed, i)
			continue
		}
		seen[nodes[i].rack] = true
		if out = append(out, i); len(seen) == len(racks) {
			out, passed = append(out, passed...), nil
		}
	}
	return out[:min(n, len(out))]
}

// statement is a statement with the properties that a host selection policy reads.
type statement struct {
	gocql.ExecutableStatement
	key []byte
}

func (s statement) GetRoutingKey() ([]byte, error) { return s.key, nil }
func (s statement) Keyspace() string               { return "ks" }

// TestDriverFindsReplicas checks that a driver can compute the replicas that placement prefers from the system tables
// of the nodes. The leader must be the first replica. The rings have fewer racks than replicas, as many racks as
// replicas, or more racks than replicas. Some rings have racks of uneven size, and some rings have fewer than four
// nodes.
func TestDriverFindsReplicas(t *testing.T) {
	for _, test := range []struct {
		name     string
		nodes    []ringNode
		replicas int
	}{
		{"one node", []ringNode{{"a", token.Min}}, 1},
		{"three nodes", []ringNode{{"a", token.Min}, {"b", 0}, {"a", 4 << 60}}, 3},
		{"one rack", []ringNode{{"a", token.Min}, {"a", 0}, {"a", -4 << 60}, {"a", 4 << 60}, {"a", -6 << 60},
			{"a", 2 << 60}}, 4},
		{"two racks", []ringNode{{"a", -7 << 60}, {"a", -5 << 60}, {"a", -2 << 60}, {"a", 1 << 60}, {"b", 3 << 60},
			{"b", 5 << 60}}, 4},
		{"three racks", []ringNode{{"a", -7 << 60}, {"a", -5 << 60}, {"b", -2 << 60}, {"c", 1 << 60}, {"c", 3 << 60},
			{"b", 5 << 60}, {"a", 6 << 60}}, 4},
		{"five racks", []ringNode{{"a", -7 << 60}, {"b", -5 << 60}, {"c", -2 << 60}, {"d", 1 << 60}, {"e", 3 << 60},
			{"a", 5 << 60}}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := gocql.NewCluster(startRing(t, test.nodes, test.replicas))
			cluster.Logger = gocql.NewLogger(gocql.LogLevelNone)
			cluster.Keyspace = "ks"
			cluster.NumConns = 1
			policy := gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
			cluster.PoolConfig.HostSelectionPolicy = policy
			s, err := cluster.CreateSession()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			eventually.True(t, "all nodes are used", func() bool {
				return len(picks(policy, []byte{1}, len(test.nodes))) == len(test.nodes)
			})
			for i := range uint32(100) {
				// The test tries each key twice, because the policy rotates the nodes after the replicas.
				key := binary.BigEndian.AppendUint32(nil, i/2)
				if diff := cmp.Diff(walk(test.nodes, token.Hash(key), test.replicas),
					picks(policy, key, test.replicas)); diff != "" {
					t.Fatalf("replicas of key %d (-placed +computed):\n%s", i/2, diff)
				}
			}
		})
	}
}

// picks returns the first nodes that a policy selects for a key.
func picks(policy gocql.HostSelectionPolicy, key []byte, n int) (out []int) {
	next := policy.Pick(statement{key: key})
	for range n {
		h := next()
		if h == nil {
			break
		}
		ip := h.Info().ConnectAddress().To4()
		out = append(out, int(ip[3])-1)
	}
	return out
}
