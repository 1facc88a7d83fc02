// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Collector returns a collector for the Prometheus metrics of a node.
func Collector(n *Reporter) prometheus.Collector { return &collector{n} }

// collector collects the metrics of a node.
type collector struct{ n *Reporter }

// logins returns the counts of logins. If no login is required, the counts are 0.
func (n *Reporter) logins() (succeeded, failed, refused uint64) {
	for _, l := range n.Logins {
		s, f, r := l.Counts()
		succeeded, failed, refused = succeeded+s, failed+f, refused+r
	}
	return succeeded, failed, refused
}

// figure is a metric without labels.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(n *Reporter) float64
}

func count(name, help string, value func(n *Reporter) float64) figure {
	return figure{prometheus.NewDesc("ilion_"+name, help, nil, nil), prometheus.CounterValue, value}
}

func level(name, help string, value func(n *Reporter) float64) figure {
	return figure{prometheus.NewDesc("ilion_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

var (
	latencyDesc = prometheus.NewDesc("ilion_statement_seconds",
		"Time from decoding a statement to its result, by kind.", []string{"kind"}, nil)
	failedDesc = prometheus.NewDesc("ilion_statements_failed_total", "Statements that returned an error, by kind.",
		[]string{"kind"}, nil)
	requestDesc = prometheus.NewDesc("ilion_cql_requests_total", "Requests received from clients, by opcode.",
		[]string{"opcode"}, nil)

	figures = []figure{
		level("cql_connections", "Open client connections.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Connections.Load()) }),
		count("cql_connections_accepted_total", "Client connections accepted.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Accepted.Load()) }),
		count("cql_connections_refused_total",
			"Client connections rejected at limits.connections or limits.connections_per_address.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Refused.Load()) }),
		count("cql_handshake_evictions_total",
			"Client connections closed during the handshake to make room for other handshakes.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().CrowdedOut.Load()) }),
		count("cql_connections_idle_total", "Client connections closed at limits.idle_timeout.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Idle.Load()) }),
		count("cql_connections_slow_total",
			"Client connections closed because the client did not read responses or did not complete a request.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Slow.Load()) }),
		level("cql_unread_bytes",
			"Memory of responses that clients have not read. Pages are shortened above limits.request_bytes.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Backlog.Load()) }),
		count("logins_total", "Successful logins.",
			func(n *Reporter) float64 { in, _, _ := n.logins(); return float64(in) }),
		count("logins_failed_total", "Logins rejected because of a wrong user name or password.",
			func(n *Reporter) float64 { _, failed, _ := n.logins(); return float64(failed) }),
		count("logins_refused_total", "Logins rejected without a check because too many checks were in progress.",
			func(n *Reporter) float64 { _, _, refused := n.logins(); return float64(refused) }),
		level("partition_changes", "Splits, merges, and moves of physical partitions in progress in the cluster.",
			func(n *Reporter) float64 { return float64(n.underWay()) }),
		count("partition_changes_total", "Splits, merges, and moves of physical partitions completed since the cluster was created.",
			func(n *Reporter) float64 { return float64(n.ended()) }),
		count("audit_dropped_total", "Audit log entries that were dropped.", func(n *Reporter) float64 {
			if n.Audit == nil {
				return 0
			}
			return float64(n.Audit.Dropped())
		}),
		count("slow_requests_total", "Requests that took longer than slow_query_log_timeout.",
			func(n *Reporter) float64 { return float64(n.Slow.Count()) }),
		count("cql_errors_total", "ERROR responses.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Errors.Load()) }),
		count("cql_shed_total", "Requests rejected because the average queue delay exceeded limits.queue_delay_target.",
			func(n *Reporter) float64 { return float64(n.CQL.Gate().Refused) }),
		count("cql_shed_low_total",
			"Low-priority requests rejected because the average queue delay exceeded limits.queue_delay_target.",
			func(n *Reporter) float64 { return float64(n.CQL.Gate().RefusedLow) }),
		count("cql_overloaded_total", "Requests rejected at a limit of the CQL server.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Overloaded.Load()) }),
		level("cql_requests_in_flight", "Requests that are waiting for a worker or a disk sync.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().InFlight.Load()) }),
		level("cql_request_bytes_in_flight", "Memory held for requests in flight.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().InFlightBytes.Load()) }),
		level("cql_requests_queued", "Requests that are waiting for a worker.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Queued.Load()) }),
		level("cql_requests_parked", "Requests that are waiting until the client reads earlier responses.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().Parked.Load()) }),
		count("cql_bytes_received_total", "Bytes received from clients.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().BytesIn.Load()) }),
		count("cql_bytes_sent_total", "Bytes sent to clients.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().BytesOut.Load()) }),
		count("cql_events_sent_total", "Events sent to clients.",
			func(n *Reporter) float64 { return float64(n.CQL.Stats().EventsSent.Load()) }),
		level("memory_budget_bytes", "Memory limit of the process (memory.budget).",
			func(n *Reporter) float64 { return float64(n.Budget) }),
		level("result_bytes", "Memory used by results that are being built.",
			func(n *Reporter) float64 { results, _, _ := n.Engine.Memory(); return float64(results) }),
		level("statement_bytes", "Memory of large statements that are being executed.",
			func(n *Reporter) float64 { _, statements, _ := n.Engine.Memory(); return float64(statements) }),
		level("prepared_statement_bytes", "Memory of prepared statements.",
			func(n *Reporter) float64 { _, _, prepared := n.Engine.Memory(); return float64(prepared) }),
		level("prepared_statements", "Prepared statements in the cache.",
			func(n *Reporter) float64 { return float64(n.Engine.PreparedCount()) }),
		count("prepared_statements_evicted_total", "Prepared statements evicted from the cache.",
			func(n *Reporter) float64 { return float64(n.Engine.PreparedEvicted()) }),

		count("coordinator_reads_total", "Read commands executed by the coordinator.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Reads) }),
		count("coordinator_writes_total", "Write commands executed by the coordinator.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Writes) }),
		count("coordinator_conditional_writes_total", "Conditional writes, counter updates, and list updates by index.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().ConditionalWrites) }),
		count("coordinator_partitions_touched_total", "Physical partitions accessed, summed over all requests.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Touched) }),
		count("coordinator_retries_total", "Requests retried because the topology had changed.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Retries) }),
		count("coordinator_overloaded_total", "Requests rejected at limits.requests.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Overloaded) }),
		count("coordinator_forwarded_requests_total", "Requests forwarded to a replica on another node.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Forwarded) }),
		count("coordinator_misrouted_requests_total",
			"Requests received by this node without a local replica of the partition.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Misrouted) }),
		count("coordinator_read_restarts_total", "Reads restarted because the leader could not confirm its lease.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().ReadRestarts) }),
		count("coordinator_atomic_batches_total", "Atomic batches that span several physical partitions.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Batches) }),
		count("coordinator_replayed_batches_total", "Atomic batches completed on behalf of a failed coordinator.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().Replayed) }),
		level("coordinator_requests_in_flight", "Requests in flight.",
			func(n *Reporter) float64 { return float64(n.Coordinator.Stats().InFlight) }),

		count("store_syncs_total", "Syncs of the store's write-ahead log. Concurrent writes share a sync.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Syncs) }),
		count("store_batches_total", "Write batches applied to the store.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Batches) }),
		count("store_operands_total", "Merge operands combined.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Operands) }),
		count("store_gets_total", "Point reads of the store.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Gets) }),
		count("store_iterators_total", "Iterators opened on the store.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Iterators) }),
		count("store_rows_visited_total", "Keys examined by reads.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Rows) }),
		count("store_swept_total", "Keys removed or compacted by sweeps.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().Swept) }),
		level("store_sweep_lag_seconds",
			"Age of the oldest deletion that the sweeper has not removed. It grows if sweeps do not keep up.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().SweepLag) }),
		level("store_disk_bytes", "Size of the store on disk.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().DiskBytes) }),
		level("store_disk_free_ratio", "Free disk space as a fraction of the disk; -1 if unknown.",
			func(n *Reporter) float64 {
				if free := n.Store.Metrics().FreePercent; free >= 0 {
					return float64(free) / 100
				}
				return -1
			}),
		level("store_writes_refused", "1 while writes are rejected because the disk is almost full.", func(n *Reporter) float64 {
			if n.Store.Metrics().DiskFull {
				return 1
			}
			return 0
		}),
		level("store_memtable_bytes", "Memory used by memtables.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().MemtableBytes) }),
		level("store_cache_bytes", "Memory used by the block cache.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().CacheBytes) }),
		level("store_vector_lists_bytes", "Memory used by packed vector lists.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().ANNCacheBytes) }),
		level("store_compaction_debt_bytes", "Bytes waiting for compaction.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().CompactionDebt) }),
		level("store_read_amplification", "Number of files that a read may need to examine.",
			func(n *Reporter) float64 { return float64(n.Store.Metrics().ReadAmp) }),
		level("change_buffer_bytes", "Memory used by recent changes for archiving; 0 if no archive is running.",
			func(n *Reporter) float64 { return float64(n.ChangeBuffer.Stats().Bytes) }),
		level("change_buffer_limit_bytes", "Limit of the change buffer (memory.change_buffer).",
			func(n *Reporter) float64 { return float64(n.ChangeBuffer.Stats().Limit) }),
		count("change_buffer_dropped_total", "Changes evicted from the change buffer, fetched or not.",
			func(n *Reporter) float64 { return float64(n.ChangeBuffer.Stats().Lost) }),
		level("physical_partitions", "Physical partitions with a replica on this node.",
			func(n *Reporter) float64 { return float64(n.Host.Len()) }),
	}
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range slices.Concat(figures, restFigures, viewFigures) {
		ch <- f.desc
	}
	for _, f := range clusterFigures {
		ch <- f.desc
	}
	for _, d := range usageDescs {
		ch <- d
	}
	for _, f := range encryptionFigures {
		ch <- f.desc
	}
	ch <- encryptionBytesDesc
	ch <- peerDesc
	ch <- skewDesc
	ch <- retryDesc
	ch <- latencyDesc
	ch <- failedDesc
	ch <- requestDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, f := range slices.Concat(figures, restFigures, viewFigures) {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(c.n))
	}
	if c.n.Cluster != nil {
		c.n.collectCluster(ch)
	}
	c.n.collectUsage(ch)
	c.n.collectEncryption(ch)
	for _, k := range session.Kinds() {
		count, seconds, failed, buckets := c.n.Engine.Latency(k).Snapshot()
		ch <- prometheus.MustNewConstHistogram(latencyDesc, count, seconds, buckets, k.String())
		ch <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(failed), k.String())
	}
	for op := range c.n.CQL.Stats().Requests {
		if v := c.n.CQL.Stats().Requests[op].Load(); v > 0 {
			ch <- prometheus.MustNewConstMetric(requestDesc, prometheus.CounterValue, float64(v),
				cqlwire.Opcode(op).String())
		}
	}
}
