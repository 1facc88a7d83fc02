// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

func tokenTexts(tokens []token.Token) []byte {
	if len(tokens) == 0 {
		return nil
	}
	texts := make([]string, len(tokens))
	for i, t := range tokens {
		texts[i] = t.String()
	}
	return set(texts)
}

func fillLocal(b *builder) {
	n := b.info
	rpc := n.ownAddress(dialedAddress(b.ctx))
	node := n.internal(rpc)
	b.add(values{
		"key": text("local"), "bootstrapped": text("COMPLETED"), "cluster_name": text(n.ClusterName),
		"broadcast_address": inet(node.Addr()), "broadcast_port": port(n.Listen),
		"listen_address": inet(node.Addr()), "listen_port": port(n.Listen),
		"rpc_address": inet(rpc.Addr()), "rpc_port": port(rpc),
		"cql_version": text(b.release().CQLVersion), "native_protocol_version": text(NativeProtocolVersion),
		"release_version": text(b.release().Version),
		"data_center":     text(n.datacenter()), "rack": text(n.rack()), "partitioner": text(Partitioner),
		"gossip_generation": int32Value(n.Generation), "host_id": uuidValue(n.HostID),
		"schema_version": uuidValue(b.version(schema.UUID{})),
		"tokens":         tokenTexts(n.Tokens),
	})
}

// emptyVersion is the schema version before the first schema change, because drivers do not expect a zero UUID.
var emptyVersion = nameUUID("")

// version returns the schema version that clients receive for a node. v is the version that the node has reported. If
// the node has not reported a version, version returns the version of the snapshot.
func (b *builder) version(v schema.UUID) schema.UUID {
	if v == (schema.UUID{}) {
		v = b.schema.Version
	}
	if v == (schema.UUID{}) {
		v = emptyVersion
	}
	return v
}

// fillPeers fills system.peers. Clients that read this table assume that all nodes use the same port and identify nodes
// only by address. If several nodes have the same address, fillPeers includes only the first node. It omits nodes with
// the address of this node.
func fillPeers(b *builder) {
	local := dialedAddress(b.ctx)
	shown := map[netip.Addr]bool{b.info.ownAddress(local).Addr(): true}
	nodes := map[netip.Addr]bool{}
	for _, p := range b.info.shownPeers(local) {
		if shown[p.rpc.Addr()] || nodes[p.node.Addr()] {
			continue
		}
		shown[p.rpc.Addr()], nodes[p.node.Addr()] = true, true
		b.add(values{
			"peer": inet(p.node.Addr()), "data_center": text(p.datacenter()), "host_id": uuidValue(p.HostID),
			"rack":            text(p.rack()),
			"release_version": text(b.release().Version), "rpc_address": inet(p.rpc.Addr()),
			"schema_version": uuidValue(b.version(p.SchemaVersion)),
			"tokens":         tokenTexts(p.Tokens),
		})
	}
}

func fillPeersV2(b *builder) {
	nodes := map[netip.AddrPort]bool{}
	for _, p := range b.info.shownPeers(dialedAddress(b.ctx)) {
		if nodes[p.node] {
			continue // this address belonged to a removed node that is still in the topology
		}
		nodes[p.node] = true
		b.add(values{
			"peer": inet(p.node.Addr()), "peer_port": port(p.node), "data_center": text(p.datacenter()),
			"host_id":        uuidValue(p.HostID),
			"native_address": inet(p.rpc.Addr()), "native_port": port(p.rpc), "rack": text(p.rack()),
			"release_version": text(b.release().Version), "schema_version": uuidValue(b.version(p.SchemaVersion)),
			"tokens": tokenTexts(p.Tokens),
		})
	}
}

func fillPrepared(b *builder) {
	if b.info.Diagnostics == nil {
		return
	}
	for _, p := range b.info.Diagnostics.PreparedStatements() {
		b.add(values{"prepared_id": append([]byte{}, p.ID[:]...), "logged_keyspace": textOrNull(p.Keyspace),
			"query_string": text(p.Query)})
	}
}

// fillIndexInfo fills the table of complete indexes. Every visible index is complete. As in Cassandra, table_name
// contains the name of the keyspace.
func fillIndexInfo(b *builder) {
	for ks := range b.schema.All() {
		if !b.wants(ks.Name) {
			continue
		}
		for _, t := range ks.SortedTables() {
			for _, ix := range t.ShownIndexes() {
				b.add(values{"table_name": text(ks.Name), "index_name": text(ix.Name)})
			}
		}
	}
}

// fillSizeEstimates fills the table of size estimates from this node. Tools use these estimates to divide work.
func fillSizeEstimates(b *builder) {
	b.sizes(func(v values) { b.add(v) })
}

// fillTableEstimates fills the same estimates as size_estimates, once for each of the two range types that tools
// request.
func fillTableEstimates(b *builder) {
	b.sizes(func(v values) {
		for _, kind := range []string{"primary", "local_primary"} {
			v["range_type"] = text(kind)
			b.add(v)
		}
	})
}

func (b *builder) sizes(add func(values)) {
	if b.info.Statistics == nil {
		return
	}
	for _, e := range b.info.Statistics.SizeEstimates(b.ctx) {
		t := b.schema.TableByID(e.Table)
		if t == nil || schema.IsSystem(t.Keyspace) || !b.wants(t.Keyspace) {
			continue
		}
		start, end := token.Min, token.Min // Cassandra uses the minimum token for both ends of the ring
		if e.Range.Begin > 0 {
			start = token.AtPosition(e.Range.Begin - 1)
		}
		if e.Range.Limit != 0 {
			end = e.Range.Last()
		}
		add(values{
			"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "range_start": text(start.String()),
			"range_end": text(end.String()), "mean_partition_size": bigint(int64(e.MeanBytes)),
			"partitions_count": bigint(int64(e.Partitions)),
		})
	}
}

func fillClients(b *builder) {
	if b.info.Diagnostics == nil {
		return
	}
	for _, c := range b.info.Diagnostics.Clients() {
		if !c.Remote.IsValid() {
			continue
		}
		b.add(values{
			"address": inet(c.Remote.Addr()), "port": port(c.Remote), "connection_stage": text("ready"),
			"username":       text(cmp.Or(c.User, "anonymous")),
			"client_options": mapOf(c.Options), "keyspace_name": textOrNull(c.Keyspace),
			"driver_name": textOrNull(c.DriverName), "driver_version": textOrNull(c.DriverVersion),
			"hostname":         text(c.Remote.Addr().String()),
			"protocol_version": int32Value(int32(c.Version)), "request_count": bigint(c.Requests),
			"ssl_enabled": boolean(c.Encrypted),
		})
	}
}

// fillLatency fills the latency table of an operation. The rows are the tables on which the operation has been executed
// since the node started.
func fillLatency(b *builder, op LatencyOperation) {
	if b.info.Statistics == nil {
		return
	}
	b.stored(func(t *schema.Table) {
		l, ok := b.info.Statistics.Latency(t.ID, op)
		if !ok {
			return
		}
		b.add(values{
			"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "count": bigint(int64(l.Count)),
			"max_ms": double(l.Slowest), "p50th_ms": double(l.Median), "p99th_ms": double(l.P99),
			"per_second": double(l.PerSecond),
		})
	})
}

// fillDiskUsage fills the table of the sizes of local replicas. The sizes are rounded up.
func fillDiskUsage(b *builder) {
	if b.info.Metadata == nil {
		return
	}
	m := b.info.Metadata.Topology
	b.stored(func(t *schema.Table) {
		var bytes uint64
		for _, p := range m.Partitions(t.ID) {
			if r := b.info.Statistics.Replica(p); r != nil {
				bytes += r.DiskBytes
			}
		}
		b.add(values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name),
			"mebibytes": bigint(int64((bytes + 1<<20 - 1) >> 20))})
	})
}

// fillCaches lists Cassandra's optional caches as disabled caches with a capacity of 0.
func fillCaches(b *builder) {
	for _, name := range []string{"counters", "keys", "rows"} {
		b.add(values{
			"name": text(name), "capacity_bytes": bigint(0), "size_bytes": bigint(0), "entry_count": int32Value(0),
			"request_count": bigint(0), "recent_request_rate_per_second": bigint(0), "hit_count": bigint(0),
			"recent_hit_rate_per_second": bigint(0),
		})
	}
}

func fillSettings(b *builder) {
	for _, name := range slices.Sorted(maps.Keys(b.info.Settings)) {
		b.add(values{"name": text(name), "value": text(b.info.Settings[name])})
	}
}
