// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// Settings returns the effective options for system_views.settings, without passwords and keys. cqlPort is the actual
// port of the CQL listener.
func (o *Options) Settings(r *compat.Release, cqlPort int) map[string]string {
	shown := map[string]string{
		"cluster_name":                   o.ClusterName,
		"commitlog_sync":                 o.Commit,
		"data":                           o.Data,
		"cql":                            o.CQL,
		"http":                           o.HTTP,
		"region":                         o.Region,
		"zone":                           o.Zone,
		"initial_partitions":             strconv.Itoa(o.InitialPartitions),
		"memory_budget":                  fmt.Sprint(o.Memory.Budget),
		"memory_block_cache":             fmt.Sprint(o.Memory.BlockCache),
		"memory_memtable":                fmt.Sprint(o.Memory.Memtable),
		"limits_connections":             strconv.Itoa(o.Limits.Connections),
		"limits_connections_per_address": strconv.Itoa(o.Limits.AddressConnections),
		"limits_idle_timeout":            o.Limits.IdleTimeout.String(),
		"user_defined_functions_enabled": strconv.FormatBool(o.UserFunctions),
		"limits_throughput_lending":      strconv.FormatBool(o.Limits.Lending),
		"limits_throttle_timeout":        o.Limits.ThrottleTimeout.String(),
		"limits_queue_delay_target":      o.Limits.QueueDelayTarget.String(),
		"limits_frame_bytes":             fmt.Sprint(o.Limits.FrameBytes),
		"limits_requests":                strconv.Itoa(o.Limits.Requests),
		"limits_requests_per_connection": strconv.Itoa(o.Limits.RequestsPerConnection),
		"limits_request_bytes":           fmt.Sprint(o.Limits.RequestBytes),
		"limits_result_bytes":            fmt.Sprint(o.Limits.ResultBytes),
		"limits_mutation_bytes":          fmt.Sprint(o.Limits.MutationBytes),
		"limits_row_bytes":               fmt.Sprint(o.Limits.RowBytes),
		"limits_logical_partition_bytes": fmt.Sprint(o.Limits.LogicalPartitionBytes),
		"limits_batch_bytes":             fmt.Sprint(o.Limits.BatchBytes),
		"limits_prepared_statements":     strconv.Itoa(o.Limits.PreparedStatements),
		"limits_read_timeout":            o.Limits.ReadTimeout.String(),
		"limits_scan_timeout":            o.Limits.ScanTimeout.String(),
		"limits_write_timeout":           o.Limits.WriteTimeout.String(),
		"storage_min_free_disk_percent":  fmt.Sprint(o.Storage.MinFreeDisk),
		"storage_sweep_keys_per_second":  strconv.Itoa(o.Storage.SweepKeys),
		"storage_encryption_enabled": strconv.FormatBool(o.Storage.Encryption.Key().Configured() &&
			!o.Storage.Encryption.Decrypt),
		"storage_encryption_rotation":     o.Storage.Encryption.Rotation.String(),
		"splits_storage_cap":              fmt.Sprint(o.Splits.StorageCap),
		"splits_request_units_per_second": strconv.Itoa(o.Splits.Units),
		"merges_automatic":                strconv.FormatBool(o.Merges.MergeAfter() > 0),
		"merges_idle_period":              o.Merges.IdlePeriod.String(),
		"authenticator": map[bool]string{false: "AllowAllAuthenticator",
			true: "PasswordAuthenticator"}[o.Auth.Required()],
		"client_encryption_options_enabled": strconv.FormatBool(o.TLS.Cert != ""),
	}
	maps.Copy(shown, o.cassandraSettings(r, cqlPort))
	maps.Copy(shown, o.Guardrails.Settings())
	maps.Copy(shown, o.Audit.Settings())
	return shown
}

// cassandraSettings returns the effective options that Cassandra also has, with Cassandra's names and formats.
// Options without a meaning in Ilion are omitted.
func (o *Options) cassandraSettings(r *compat.Release, cqlPort int) map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }
	kib := func(n int64) string { return strconv.FormatInt(n>>10, 10) + "KiB" }
	authorizer := map[bool]string{false: "AllowAllAuthorizer", true: "CassandraAuthorizer"}[o.Auth.Required()]
	return map[string]string{
		"authorizer":                      authorizer,
		"batch_size_fail_threshold":       kib(int64(o.Limits.BatchBytes)),
		"batch_size_warn_threshold":       kib(int64(o.Limits.BatchBytes) / 10),
		"cdc_enabled":                     "true",
		"drop_compact_storage_enabled":    strconv.FormatBool(o.DropsCompact(r)),
		"dynamic_data_masking_enabled":    strconv.FormatBool(!o.MaskingOff()),
		"materialized_views_enabled":      "true",
		"native_transport_max_frame_size": kib(int64(o.Limits.FrameBytes)),
		"native_transport_port":           strconv.Itoa(cqlPort),
		"num_tokens":                      strconv.Itoa(catalog.TokensPerNode),
		"partitioner":                     "org.apache.cassandra.dht.Murmur3Partitioner",
		"range_request_timeout":           ms(o.Limits.ScanTimeout),
		"read_request_timeout":            ms(o.Limits.ReadTimeout),
		"slow_query_log_timeout":          ms(*o.SlowQueryLogTimeout),
		"write_request_timeout":           ms(o.Limits.WriteTimeout),
		"counter_write_request_timeout":   ms(o.Limits.WriteTimeout),
	}
}
