// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// tokensPerNode is the number of ring tokens of a node, as with Cassandra's default of 16 virtual nodes.
const tokensPerNode = 16

// ringTokens returns the ring tokens of a node for drivers, in ascending order. They depend only on its ID.
func ringTokens(node [16]byte) []token.Token {
	out := make([]token.Token, tokensPerNode)
	for i := range out {
		out[i] = token.Hash(binary.BigEndian.AppendUint32(node[:len(node):len(node)], uint32(i)))
	}
	slices.Sort(out)
	return out
}

// statusView returns the data for status pages and metrics.
func (n *Node) statusView() *admin.Node {
	out := &admin.Node{
		ClusterName: n.opts.ClusterName, Data: n.opts.Data, Commit: n.opts.Commit, Address: n.CQLAddr().String(),
		Software: Software(), Expiring: n.expiryProblems,
		Budget: int64(n.opts.Memory.Budget),
		Store:  n.store.Statistics, Directory: n.store.Directory, Host: n.host,
		Coordinator: n.coordinator, Catalog: n.catalog, Engine: n.engine, CQL: n.cql, TableName: n.tableName,
		Records: n.metadata, Census: n.stats.PartitionCounts(), Growth: n.splitController,
		Statistics: n.stats, Journal: n.journal.Stats, Views: n.views,
		Logins: n.loginCounts, Slow: n.slow,
	}
	if n.rest != nil {
		out.REST = n.rest.Stats()
	}
	if n.audit != nil {
		out.AuditDropped = n.audit.Dropped
	}
	if c := n.cluster; c != nil {
		out.Cluster = &admin.Cluster{
			Self: c.self, Peers: c.peers, Log: c.log, Transport: c.transport,
			ClockSkew: n.opts.Cluster.ClockSkew,
			Describe:  c.report,
		}
	}
	return out
}

// diagnostics implements catalog.Diagnostics.
type diagnostics struct{ n *Node }

// PreparedStatements implements catalog.Diagnostics.
func (d diagnostics) PreparedStatements() []catalog.PreparedStatement {
	return d.n.engine.PreparedStatements()
}

// BusiestSessions implements catalog.Diagnostics.
func (d diagnostics) BusiestSessions(ctx context.Context) catalog.Sessions {
	return d.n.sessions(ctx, sessionsDefault)
}

// SlowQueries implements catalog.Diagnostics.
func (d diagnostics) SlowQueries(ctx context.Context) slowlog.Report { return d.n.slowQueries(ctx) }

// Ring implements catalog.Diagnostics.
func (d diagnostics) Ring() []catalog.RingNode { return d.n.statusView().Ring() }

// Clients implements catalog.Diagnostics.
func (d diagnostics) Clients() []catalog.Client {
	var out []catalog.Client
	for _, c := range d.n.cql.Clients() {
		out = append(out, catalog.Client{
			Remote: c.Remote, User: c.User, Version: c.Version, DriverName: c.DriverName,
			DriverVersion: c.DriverVersion, Options: c.Options, Keyspace: c.Keyspace,
			Encrypted: c.Encrypted, Requests: c.Requests,
		})
	}
	return out
}

// settings returns the effective options for system_views.settings, without passwords and keys.
func (n *Node) settings() map[string]string {
	o := &n.opts
	shown := map[string]string{
		"cluster_name":                    o.ClusterName,
		"commitlog_sync":                  o.Commit,
		"data":                            o.Data,
		"cql":                             o.CQL,
		"http":                            o.HTTP,
		"region":                          o.Region,
		"zone":                            o.Zone,
		"initial_partitions":              strconv.Itoa(o.InitialPartitions),
		"memory_budget":                   fmt.Sprint(o.Memory.Budget),
		"memory_block_cache":              fmt.Sprint(o.Memory.BlockCache),
		"memory_memtable":                 fmt.Sprint(o.Memory.Memtable),
		"limits_connections":              strconv.Itoa(o.Limits.Connections),
		"limits_connections_per_address":  strconv.Itoa(o.Limits.AddressConnections),
		"limits_idle_timeout":             o.Limits.IdleTimeout.String(),
		"user_defined_functions_enabled":  strconv.FormatBool(o.UserFunctions),
		"limits_throughput_lending":       strconv.FormatBool(o.Limits.Lending),
		"limits_throttle_timeout":         o.Limits.ThrottleTimeout.String(),
		"limits_queue_delay_target":       o.Limits.QueueDelayTarget.String(),
		"limits_frame_bytes":              fmt.Sprint(o.Limits.FrameBytes),
		"limits_requests":                 strconv.Itoa(o.Limits.Requests),
		"limits_requests_per_connection":  strconv.Itoa(o.Limits.RequestsPerConnection),
		"limits_request_bytes":            fmt.Sprint(o.Limits.RequestBytes),
		"limits_result_bytes":             fmt.Sprint(o.Limits.ResultBytes),
		"limits_mutation_bytes":           fmt.Sprint(o.Limits.MutationBytes),
		"limits_row_bytes":                fmt.Sprint(o.Limits.RowBytes),
		"limits_logical_partition_bytes":  fmt.Sprint(o.Limits.LogicalPartitionBytes),
		"limits_batch_bytes":              fmt.Sprint(o.Limits.BatchBytes),
		"limits_prepared_statements":      strconv.Itoa(o.Limits.PreparedStatements),
		"limits_read_timeout":             o.Limits.ReadTimeout.String(),
		"limits_scan_timeout":             o.Limits.ScanTimeout.String(),
		"limits_write_timeout":            o.Limits.WriteTimeout.String(),
		"storage_min_free_disk_percent":   fmt.Sprint(o.Storage.MinFreeDisk),
		"storage_sweep_keys_per_second":   strconv.Itoa(o.Storage.SweepKeys),
		"splits_storage_cap":              fmt.Sprint(o.Splits.StorageCap),
		"splits_request_units_per_second": strconv.Itoa(o.Splits.Units),
		"merges_automatic":                strconv.FormatBool(o.Merges.idlePeriod() > 0),
		"merges_idle_period":              o.Merges.IdlePeriod.String(),
		"authenticator": map[bool]string{false: "AllowAllAuthenticator",
			true: "PasswordAuthenticator"}[o.Auth.on()],
		"client_encryption_options_enabled": strconv.FormatBool(o.TLS.Cert != ""),
	}
	maps.Copy(shown, n.settingsByCassandra())
	maps.Copy(shown, o.Guardrails.Settings())
	maps.Copy(shown, o.Audit.Settings())
	return shown
}

// dropsCompact reports whether DROP COMPACT STORAGE is permitted.
func (n *Node) dropsCompact() bool {
	if o := n.opts.DropCompactStorage; o != nil {
		return *o
	}
	return !n.compat.FixedCompact
}

// settingsByCassandra returns the effective options that Cassandra also has, with Cassandra's names and formats.
// Options without a meaning in Ilion are omitted.
func (n *Node) settingsByCassandra() map[string]string {
	o := &n.opts
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
	kib := func(n int64) string { return strconv.FormatInt(n>>10, 10) + "KiB" }
	_, port, _ := net.SplitHostPort(n.CQLAddr().String())
	authorizer := map[bool]string{false: "AllowAllAuthorizer", true: "CassandraAuthorizer"}[o.Auth.on()]
	return map[string]string{
		"authorizer":                      authorizer,
		"batch_size_fail_threshold":       kib(int64(o.Limits.BatchBytes)),
		"batch_size_warn_threshold":       kib(int64(o.Limits.BatchBytes) / 10),
		"cdc_enabled":                     "true",
		"drop_compact_storage_enabled":    strconv.FormatBool(n.dropsCompact()),
		"dynamic_data_masking_enabled":    strconv.FormatBool(o.Masking == nil || *o.Masking),
		"materialized_views_enabled":      "true",
		"native_transport_max_frame_size": kib(int64(o.Limits.FrameBytes)),
		"native_transport_port":           port,
		"num_tokens":                      strconv.Itoa(tokensPerNode),
		"partitioner":                     "org.apache.cassandra.dht.Murmur3Partitioner",
		"range_request_timeout":           ms(o.Limits.ScanTimeout),
		"read_request_timeout":            ms(o.Limits.ReadTimeout),
		"slow_query_log_timeout":          ms(*o.SlowQueryLogTimeout),
		"write_request_timeout":           ms(o.Limits.WriteTimeout),
		"counter_write_request_timeout":   ms(o.Limits.WriteTimeout),
	}
}
