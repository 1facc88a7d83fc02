// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

func at(s string) netip.AddrPort {
	if s == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(s)
}

// shown formats the columns of all rows of a virtual table and sorts the rows.
func shown(ctx context.Context, t *testing.T, info *NodeInfo, name string, columns ...string) []string {
	t.Helper()
	s := WithSystem(testSchema(t))
	ks, table, _ := strings.Cut(name, ".")
	tbl := s.Table(ks, table)
	var out []string
	for _, r := range Rows(ctx, tbl, s, info, nil) {
		cells := row.Row{Cells: r.Cells}
		var texts []string
		for _, c := range columns {
			col := tbl.Column(c)
			switch {
			case col.Kind == schema.PartitionKey:
				texts = append(texts, hex.EncodeToString(r.Key))
			case col.Kind == schema.Clustering:
				texts = append(texts, hex.EncodeToString(r.Clustering))
			case cells.Cell(col.ID) == nil:
				texts = append(texts, "null")
			default:
				texts = append(texts, hex.EncodeToString(cells.Cell(col.ID).Value))
			}
		}
		out = append(out, strings.Join(texts, " "))
	}
	slices.Sort(out)
	return out
}

// TestPeers checks that the peers are the reachable nodes that have joined. Each of these nodes must occur exactly
// once, and the local node must not be a peer.
func TestPeers(t *testing.T) {
	node := func(id byte, listen, rpc string, tokens ...token.Token) Endpoint {
		return Endpoint{HostID: schema.UUID{id}, Listen: at(listen), RPC: at(rpc), Tokens: tokens}
	}
	self := node(1, "10.0.0.1:7000", "10.0.0.1:9042", 1)
	for _, test := range []struct {
		name    string
		local   string
		self    Endpoint
		peers   []Endpoint
		v1, v2  []string // rpc_address; native_address native_port
		ownAddr string
	}{
		{"alone", "10.0.0.1:9042", self, nil, nil, nil, "0a000001"},
		{"two", "10.0.0.1:9042", self, []Endpoint{node(3, "10.0.0.3:7000", "10.0.0.3:9042", 3),
			node(2, "10.0.0.2:7000", "10.0.0.9:9043", 2)},
			[]string{"0a000003", "0a000009"}, []string{"0a000003 00002352", "0a000009 00002353"}, "0a000001"},
		{"joining, without an id, without an address, itself, twice", "10.0.0.1:9042", self, []Endpoint{
			node(2, "10.0.0.2:7000", "10.0.0.2:9042"), node(0, "10.0.0.3:7000", "10.0.0.3:9042", 3),
			node(4, "10.0.0.4:7000", "", 4),
			node(5, "", "0.0.0.0:9042", 5), node(1, "10.0.0.6:7000", "10.0.0.6:9042", 6),
			node(7, "10.0.0.7:7000", "10.0.0.7:9042", 7), node(7, "10.0.0.7:7000", "10.0.0.7:9042", 7),
		}, []string{"0a000007"}, []string{"0a000007 00002352"}, "0a000001"},
		{"listening everywhere", "10.9.9.9:9042", node(1, "10.0.0.1:7000", "0.0.0.0:9042", 1),
			[]Endpoint{node(2, "10.0.0.2:7000", "[::]:9042", 2)},
			[]string{"0a000002"}, []string{"0a000002 00002352"}, "0a000001"},
		{"on one machine", "192.168.1.5:9042", node(1, "127.0.0.1:7000", "0.0.0.0:9042", 1), []Endpoint{
			node(2, "127.0.0.1:7001", "0.0.0.0:9043", 2), node(3, "127.0.0.1:7002", "0.0.0.0:9044", 3),
		}, nil, []string{"c0a80105 00002353", "c0a80105 00002354"}, "c0a80105"},
		{"on one machine, by name", "127.0.0.1:9042", node(1, "127.0.0.1:7000", "127.0.0.1:9042", 1), []Endpoint{
			node(2, "127.0.0.2:7000", "127.0.0.2:9042", 2), node(3, "127.0.0.2:7001", "127.0.0.2:9043", 3),
		}, []string{"7f000002"}, []string{"7f000002 00002352", "7f000002 00002353"}, "7f000001"},
		{"an address taken over", "10.0.0.1:9042", self, []Endpoint{node(2, "10.0.0.2:7000", "10.0.0.2:9042", 2),
			node(3, "10.0.0.2:7000", "10.0.0.2:9042", 3)},
			[]string{"0a000002"}, []string{"0a000002 00002352"}, "0a000001"},
	} {
		t.Run(test.name, func(t *testing.T) {
			info := &NodeInfo{Endpoint: test.self, Peers: test.peers}
			ctx := WithLocal(context.Background(), at(test.local))
			if diff := cmp.Diff(test.v1, shown(ctx, t, info, "system.peers", "rpc_address")); diff != "" {
				t.Errorf("peers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.v2, shown(ctx, t, info, "system.peers_v2", "native_address",
				"native_port")); diff != "" {
				t.Errorf("peers_v2 (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{test.ownAddr},
				shown(ctx, t, info, "system.local", "rpc_address")); diff != "" {
				t.Errorf("local (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPeerVersions checks the schema version of a peer. If the peer's version is unknown, clients must receive this
// node's version, because drivers wait for equal versions.
func TestPeerVersions(t *testing.T) {
	info := &NodeInfo{Peers: []Endpoint{
		{HostID: schema.UUID{2}, RPC: at("10.0.0.2:9042"), Tokens: []token.Token{2}},
		{HostID: schema.UUID{3}, RPC: at("10.0.0.3:9042"), Tokens: []token.Token{3}, SchemaVersion: schema.UUID{9}},
	}}
	other := schema.UUID{9}
	want := []string{"0a000002 " + hex.EncodeToString(emptyVersion[:]), "0a000003 " + hex.EncodeToString(other[:])}
	if diff := cmp.Diff(want, shown(context.Background(), t, info, "system.peers_v2", "native_address",
		"schema_version")); diff != "" {
		t.Errorf("schema versions (-want +got):\n%s", diff)
	}
}

// TestOneStateWithinAQuery checks that all commands of a query use the same state of the nodes. The next query must use
// the current state.
func TestOneStateWithinAQuery(t *testing.T) {
	asked := 0
	c := New(testSchema(t), func() NodeInfo {
		info := NodeInfo{}
		for i := range asked {
			info.Peers = append(info.Peers, Endpoint{HostID: schema.UUID{byte(i + 1)},
				RPC: at(fmt.Sprintf("10.0.0.%d:9042", i+1)), Tokens: []token.Token{5}})
		}
		asked++
		return info
	})
	peers := c.Snapshot().Table("system", "peers_v2")
	count := func(ctx context.Context) int {
		l := &lister{table: peers}
		if err := c.Read(ctx, &command.Read{Table: peers.ID, NoRows: true}, l); err != nil {
			t.Fatal(err)
		}
		return len(l.lines)
	}
	ctx := WithLocal(context.Background(), at("10.0.0.1:9042"))
	if a, b, n := count(ctx), count(ctx), asked; a != 0 || b != 0 || n != 1 {
		t.Errorf("one query saw %d and %d peers and asked %d times", a, b, n)
	}
	if n := count(WithLocal(context.Background(), at("10.0.0.1:9042"))); n != 1 {
		t.Errorf("the next query saw %d peers", n)
	}
}

// TestEffectiveReplication checks the replication in system_schema.keyspaces for every keyspace with stored rows. A
// standalone node must return the declared replication. A cluster must return the replication that drivers need.
func TestEffectiveReplication(t *testing.T) {
	info := &NodeInfo{Endpoint: Endpoint{Datacenter: "west"}, EffectiveReplication: 4}
	s := testSchema(t)
	show := func(name string) string {
		r := info.Replication(WithSystem(s).Keyspace(name))
		return fmt.Sprint(r)
	}
	for name, want := range map[string]string{
		"ks":            "map[class:org.apache.cassandra.locator.NetworkTopologyStrategy west:4]",
		"system_traces": "map[class:org.apache.cassandra.locator.NetworkTopologyStrategy west:4]",
		"system":        "map[class:org.apache.cassandra.locator.LocalStrategy]",
		"system_schema": "map[class:org.apache.cassandra.locator.LocalStrategy]",
		"system_views":  "map[]",
	} {
		if got := show(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	info.EffectiveReplication = 3
	if got, want := show("ks"), "map[class:org.apache.cassandra.locator.NetworkTopologyStrategy west:3]"; got != want {
		t.Errorf("with three nodes: %s, want %s", got, want)
	}
	declared := fmt.Sprint(s.Keyspace("ks").Replication)
	if info.EffectiveReplication = 0; show("ks") != declared {
		t.Errorf("alone: %s, want %s", show("ks"), declared)
	}
	// The table must contain the same replication.
	info.EffectiveReplication = 4
	want := hex.EncodeToString(mapOf(info.Replication(s.Keyspace("ks"))))
	if got := shown(context.Background(), t, info, "system_schema.keyspaces", "keyspace_name",
		"replication"); !slices.Contains(got, hex.EncodeToString([]byte("ks"))+" "+want) {
		t.Errorf("system_schema.keyspaces: %q", got)
	}
}

// TestDeclares checks the comparison of declared and effective replications.
func TestDeclares(t *testing.T) {
	info := &NodeInfo{Endpoint: Endpoint{Datacenter: "west"}, EffectiveReplication: 4}
	for text, want := range map[string]bool{
		"class:SimpleStrategy replication_factor:4":                          true,
		"class:SimpleStrategy replication_factor:3":                          false,
		"class:org.apache.cassandra.locator.NetworkTopologyStrategy west:4":  true,
		"class:org.apache.cassandra.locator.NetworkTopologyStrategy west:04": false,
		"class:org.apache.cassandra.locator.NetworkTopologyStrategy east:4":  false,
	} {
		r := map[string]string{}
		for _, pair := range strings.Fields(text) {
			k, v, _ := strings.Cut(pair, ":")
			r[k] = v
		}
		if got := info.Declares(&schema.Keyspace{Replication: r}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestBatchesAreStored checks that system.batches is a stored table that clients can read but not write.
func TestBatchesAreStored(t *testing.T) {
	b := WithSystem(schema.New()).Table("system", "batches")
	if b.Virtual || b.ID != BatchesID || b.Options.GCGrace != batchesGCGrace {
		t.Errorf("virtual %v, id %d, gc_grace_seconds %d", b.Virtual, b.ID, b.Options.GCGrace)
	}
	for name, err := range map[string]error{"write": CheckWritable(b), "truncate": CheckTruncatable(b)} {
		if err == nil || err.Error() != "system keyspace is not user-modifiable." {
			t.Errorf("%s: %v", name, err)
		}
	}
}
