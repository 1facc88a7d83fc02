// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/query/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// Collector makes the figures of a node into Prometheus metrics.
func Collector(n *Node) prometheus.Collector { return &collector{n} }

// collector reads the node's figures.
type collector struct{ n *Node }

// logins are the counts of logins, 0 where nobody has to log in.
func (n *Node) logins() (succeeded, failed, refused uint64) {
	if n.Logins == nil {
		return 0, 0, 0
	}
	return n.Logins()
}

// figure is a metric without labels.
type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(n *Node) float64
}

func count(name, help string, value func(n *Node) float64) figure {
	return figure{prometheus.NewDesc("ilion_"+name, help, nil, nil), prometheus.CounterValue, value}
}

func level(name, help string, value func(n *Node) float64) figure {
	return figure{prometheus.NewDesc("ilion_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

var (
	latencyDesc = prometheus.NewDesc(
		"ilion_statement_seconds",
		"Time from decoding a statement to its result, by kind.",
		[]string{"kind"},
		nil,
	)
	failedDesc = prometheus.NewDesc("ilion_statements_failed_total", "Statements answered with an error, by kind.",
		[]string{"kind"}, nil)
	requestDesc = prometheus.NewDesc("ilion_cql_requests_total", "Messages from clients, by opcode.",
		[]string{"opcode"}, nil)

	figures = []figure{
		level("cql_connections", "Open client connections.", func(n *Node) float64 {
			return float64(n.CQL.Stats().Connections.Load())
		}),
		count(
			"cql_connections_accepted_total",
			"Client connections accepted.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Accepted.Load()) },
		),
		count(
			"cql_connections_refused_total",
			"Client connections refused at limits.connections or limits.connections_per_address.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Refused.Load()) },
		),
		count(
			"cql_connections_crowded_out_total",
			"Client connections closed in their handshake because too many were in theirs.",
			func(n *Node) float64 { return float64(n.CQL.Stats().CrowdedOut.Load()) },
		),
		count(
			"cql_connections_idle_total",
			"Client connections closed at limits.idle_timeout.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Idle.Load()) },
		),
		count(
			"cql_connections_slow_total",
			"Client connections closed because their clients did not read answers, or did not send the rest of a request.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Slow.Load()) },
		),
		level(
			"cql_unread_bytes",
			"Memory of answers that clients have not read; beyond limits.request_bytes pages are cut short.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Backlog.Load()) },
		),
		count("logins_total", "Clients that logged in.", func(n *Node) float64 {
			in, _, _ := n.logins()
			return float64(in)
		}),
		count(
			"logins_failed_total",
			"Logins with a wrong name or password.",
			func(n *Node) float64 { _, failed, _ := n.logins(); return float64(failed) },
		),
		count(
			"logins_refused_total",
			"Logins refused unchecked because too many were being checked.",
			func(n *Node) float64 { _, _, refused := n.logins(); return float64(refused) },
		),
		level("partition_changes", "Splits, merges and moves of physical partitions that are under way in the cluster.",
			func(n *Node) float64 { return float64(n.underWay()) }),
		count("partition_changes_total", "Those that have ended since the cluster was founded.",
			func(n *Node) float64 { return float64(n.ended()) }),
		count("audit_dropped_total", "Entries of the audit log that were not written.", func(n *Node) float64 {
			if n.AuditDropped == nil {
				return 0
			}
			return float64(n.AuditDropped())
		}),
		count("slow_requests_total", "Requests that took longer than slow_query_log_timeout.", func(n *Node) float64 {
			return float64(n.Slow.Count())
		}),
		count("cql_errors_total", "ERROR responses.", func(n *Node) float64 {
			return float64(n.CQL.Stats().Errors.Load())
		}),
		count(
			"cql_shed_total",
			"Requests refused because requests waited longer than limits.wait.",
			func(n *Node) float64 { return float64(n.CQL.Gate().Refused) },
		),
		count(
			"cql_shed_low_total",
			"Requests of low priority among them.",
			func(n *Node) float64 { return float64(n.CQL.Gate().RefusedLow) },
		),
		count(
			"cql_overloaded_total",
			"Requests refused at a bound of the CQL server.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Overloaded.Load()) },
		),
		level(
			"cql_requests_in_flight",
			"Requests that wait for a worker or a sync.",
			func(n *Node) float64 { return float64(n.CQL.Stats().InFlight.Load()) },
		),
		level(
			"cql_request_bytes_in_flight",
			"Memory held for requests in flight.",
			func(n *Node) float64 { return float64(n.CQL.Stats().InFlightBytes.Load()) },
		),
		level("cql_requests_queued", "Requests that wait for a worker.", func(n *Node) float64 {
			return float64(n.CQL.Stats().Queued.Load())
		}),
		level(
			"cql_requests_parked",
			"Requests that wait until their client reads what it was answered before.",
			func(n *Node) float64 { return float64(n.CQL.Stats().Parked.Load()) },
		),
		count("cql_bytes_received_total", "Bytes read from clients.", func(n *Node) float64 {
			return float64(n.CQL.Stats().BytesIn.Load())
		}),
		count("cql_bytes_sent_total", "Bytes written to clients.", func(n *Node) float64 {
			return float64(n.CQL.Stats().BytesOut.Load())
		}),
		count("cql_events_sent_total", "Events pushed to clients.", func(n *Node) float64 {
			return float64(n.CQL.Stats().EventsSent.Load())
		}),
		level("memory_budget_bytes", "The memory budget.", func(n *Node) float64 { return float64(n.Budget) }),
		level("result_bytes", "Memory of results that are being read.", func(n *Node) float64 {
			results, _, _ := n.Engine.Memory()
			return float64(results)
		}),
		level("statement_bytes", "Memory of large statements that are being executed.", func(n *Node) float64 {
			_, statements, _ := n.Engine.Memory()
			return float64(statements)
		}),
		level("prepared_statement_bytes", "Memory of prepared statements.", func(n *Node) float64 {
			_, _, prepared := n.Engine.Memory()
			return float64(prepared)
		}),
		level("prepared_statements", "Prepared statements kept.", func(n *Node) float64 {
			return float64(n.Engine.PreparedCount())
		}),
		count(
			"prepared_statements_evicted_total",
			"Prepared statements dropped to make room.",
			func(n *Node) float64 { return float64(n.Engine.PreparedEvicted()) },
		),

		count("coordinator_reads_total", "Read commands.", func(n *Node) float64 {
			return float64(n.Coordinator.Stats().Reads)
		}),
		count("coordinator_writes_total", "Write commands.", func(n *Node) float64 {
			return float64(n.Coordinator.Stats().Writes)
		}),
		count(
			"coordinator_decisions_total",
			"Conditional writes, counters and list places.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().ConditionalWrites) },
		),
		count(
			"coordinator_partitions_touched_total",
			"Physical partitions asked by all requests together.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Touched) },
		),
		count(
			"coordinator_retries_total",
			"Requests repeated because the partition map had changed.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Retries) },
		),
		count(
			"coordinator_overloaded_total",
			"Requests refused at limits.requests.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Overloaded) },
		),
		count(
			"coordinator_forwarded_requests_total",
			"Requests that were sent to a replica on another node.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Forwarded) },
		),
		count(
			"coordinator_astray_requests_total",
			"Requests that came to this node although it has no replica of the partition.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Misrouted) },
		),
		count(
			"coordinator_repeated_reads_total",
			"Reads that were begun again because what was read could not be confirmed.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().ReadRestarts) },
		),
		count(
			"coordinator_atomic_batches_total",
			"Atomic batches over several physical partitions.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Batches) },
		),
		count(
			"coordinator_replayed_batches_total",
			"Those of them that were finished for a coordinator that was gone.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().Replayed) },
		),
		level(
			"coordinator_requests_under_way",
			"Requests not yet answered.",
			func(n *Node) float64 { return float64(n.Coordinator.Stats().InFlight) },
		),

		count(
			"store_syncs_total",
			"Syncs of the store's log; writes that arrive during one share the next.",
			func(n *Node) float64 { return float64(n.Store.Metrics().Syncs) },
		),
		count("store_batches_total", "Batches applied.", func(n *Node) float64 {
			return float64(n.Store.Metrics().Batches)
		}),
		count("store_operands_total", "Operands merged.", func(n *Node) float64 {
			return float64(n.Store.Metrics().Operands)
		}),
		count("store_gets_total", "Point reads.", func(n *Node) float64 { return float64(n.Store.Metrics().Gets) }),
		count("store_iterators_total", "Iterators opened.", func(n *Node) float64 {
			return float64(n.Store.Metrics().Iterators)
		}),
		count("store_rows_visited_total", "Keys visited by reads.", func(n *Node) float64 {
			return float64(n.Store.Metrics().Rows)
		}),
		count("store_swept_total", "Keys removed or shortened by sweeps.", func(n *Node) float64 {
			return float64(n.Store.Metrics().Swept)
		}),
		level(
			"store_sweep_lag_seconds",
			"How long what is being swept now has been due; it grows where sweeps do not keep up.",
			func(n *Node) float64 { return float64(n.Store.Metrics().SweepLag) },
		),
		level("store_disk_bytes", "Size of the store on disk.", func(n *Node) float64 {
			return float64(n.Store.Metrics().DiskBytes)
		}),
		level(
			"store_disk_free_percent",
			"Free disk space; -1 if unknown.",
			func(n *Node) float64 { return float64(n.Store.Metrics().FreePercent) },
		),
		level("store_writes_refused", "1 while writes are refused for lack of disk space.", func(n *Node) float64 {
			if n.Store.Metrics().DiskFull {
				return 1
			}
			return 0
		}),
		level("store_memtable_bytes", "Memory of the memtables.", func(n *Node) float64 {
			return float64(n.Store.Metrics().MemtableBytes)
		}),
		level("store_cache_bytes", "Memory of the block cache.", func(n *Node) float64 {
			return float64(n.Store.Metrics().CacheBytes)
		}),
		level("store_vector_lists_bytes", "Memory of packed lists of vectors.", func(n *Node) float64 {
			return float64(n.Store.Metrics().ANNCacheBytes)
		}),
		level(
			"store_compaction_debt_bytes",
			"What compactions have to do.",
			func(n *Node) float64 { return float64(n.Store.Metrics().CompactionDebt) },
		),
		level(
			"store_read_amplification",
			"How many files a read may have to look at.",
			func(n *Node) float64 { return float64(n.Store.Metrics().ReadAmp) },
		),
		level(
			"journal_bytes",
			"Memory of what was written a short time ago, for an archive to fetch; 0 while none follows the cluster.",
			func(n *Node) float64 { return float64(n.Journal().Bytes) },
		),
		level("journal_bound_bytes", "The most that it may take (memory.journal).", func(n *Node) float64 {
			return float64(n.Journal().Limit)
		}),
		count(
			"journal_dropped_total",
			"Commands that left the journal to make room, fetched or not.",
			func(n *Node) float64 { return float64(n.Journal().Lost) },
		),
		level("physical_partitions", "Physical partitions on this node.", func(n *Node) float64 {
			return float64(n.Host.Len())
		}),
	}
)

// Describe lists the metrics.
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
	ch <- peerDesc
	ch <- skewDesc
	ch <- retryDesc
	ch <- latencyDesc
	ch <- failedDesc
	ch <- requestDesc
}

// Collect reads them.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, f := range slices.Concat(figures, restFigures, viewFigures) {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(c.n))
	}
	if c.n.Cluster != nil {
		c.n.collectCluster(ch)
	}
	c.n.collectUsage(ch)
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
