// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/hex"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
)

var (
	peerDesc = prometheus.NewDesc("ilion_node_up", "1 if this node can reach the other node, 0 otherwise.",
		[]string{"node", "address"}, nil)
	skewDesc = prometheus.NewDesc("ilion_node_clock_skew_seconds",
		"Clock of the other node minus the clock of this node.", []string{"node"}, nil)

	retryDesc = prometheus.NewDesc("ilion_coordinator_retries_by_reason_total",
		"Request retries, by the outcome of the previous attempt.", []string{"reason"}, nil)

	// clusterFigures are the metrics of a node in a cluster.
	clusterFigures = []figure{
		level("replicas_leading", "Replicas on this node that are leaders.",
			func(n *Reporter) float64 { return float64(n.leading()) }),
		level("under_replicated_partitions", "Physical partitions with fewer reachable replicas than configured.",
			func(n *Reporter) float64 {
				return float64(len(placement.UnderReplicated(n.Records.State(), n.Cluster.Peers.Down())))
			}),
		level("metadata_version", "Version of the cluster metadata on this node.",
			func(n *Reporter) float64 { return float64(n.Records.State().Version) }),
		count("raft_log_commits_total", "Writes to the Raft log. Concurrent proposals share a write.",
			func(n *Reporter) float64 { return float64(n.Cluster.Log.Metrics().Commits) }),
		count("raft_log_syncs_total", "Syncs of the Raft log.",
			func(n *Reporter) float64 { return float64(n.Cluster.Log.Metrics().Syncs) }),
		count("node_frames_sent_total", "Raft messages sent to other nodes.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().FramesSent) }),
		count("node_frames_dropped_total", "Raft messages dropped because the receiver did not accept them.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().FramesDropped) }),
		count("node_bytes_sent_total", "Bytes sent to other nodes.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().BytesSent) }),
		count("node_bytes_received_total", "Bytes received from other nodes.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().BytesReceived) }),
		count("node_commands_served_total", "Commands executed for other nodes.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().CommandsServed) }),
		count("node_snapshots_sent_total", "Replica snapshots sent.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().SnapshotsSent) }),
		count("node_snapshots_received_total", "Replica snapshots received.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().SnapshotsReceived) }),
		count("node_handshakes_refused_total", "Connections from other nodes that were rejected.",
			func(n *Reporter) float64 { return float64(n.Cluster.Transport.Counters().HandshakesRefused) }),
	}
)

// collectCluster collects the metrics of the cluster.
func (n *Reporter) collectCluster(ch chan<- prometheus.Metric) {
	c := n.Cluster
	for _, f := range clusterFigures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(n))
	}
	for _, node := range n.Records.State().Nodes {
		if node.State == meta.Left || node.ID == c.Self {
			continue
		}
		id, up := hex.EncodeToString(node.ID[:]), 0.0
		if c.Peers.Alive(node.ID) {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(peerDesc, prometheus.GaugeValue, up, id, node.Internal)
		if k, ok := c.Peers.Report(node.ID); ok {
			ch <- prometheus.MustNewConstMetric(skewDesc, prometheus.GaugeValue, k.Skew.Seconds(), id)
		}
	}
	r := n.Coordinator.Stats().RetryReasons
	for _, v := range []struct {
		reason string
		count  uint64
	}{{"not_leader", r.NotLeader}, {"moved", r.Moved}, {"unreachable", r.Unreachable}, {"busy", r.Busy},
		{"forgotten", r.DedupeUnknown}, {"unconfirmed", r.Unconfirmed}, {"unknown", r.Unknown},
		{"throttled", r.Throttled}} {
		ch <- prometheus.MustNewConstMetric(retryDesc, prometheus.CounterValue, float64(v.count), v.reason)
	}
}
