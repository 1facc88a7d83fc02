// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/hex"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
)

var (
	peerDesc = prometheus.NewDesc(
		"ilion_node_up",
		"1 for a node of the cluster that answers this one, 0 for one that does not.",
		[]string{"node", "address"},
		nil,
	)
	skewDesc = prometheus.NewDesc(
		"ilion_node_clock_skew_seconds",
		"How much later the clock of another node is than this node's.",
		[]string{"node"},
		nil,
	)

	retryDesc = prometheus.NewDesc(
		"ilion_coordinator_asked_again_total",
		"Requests that were asked again, by what the attempt before ended with.",
		[]string{"reason"},
		nil,
	)

	// clusterFigures are those of a node that is one of many.
	clusterFigures = []figure{
		level("replicas_leading", "Replicas on this node that lead.", func(n *Node) float64 {
			return float64(n.leading())
		}),
		level("replica_sets_short", "Replica sets of the cluster with fewer voters that answer than they are to have.",
			func(n *Node) float64 {
				return float64(len(placement.UnderReplicated(n.Records.State(), n.Cluster.Peers.Down())))
			}),
		level(
			"records_version",
			"Version of the cluster's records that this node has.",
			func(n *Node) float64 { return float64(n.Records.State().Version) },
		),
		count(
			"raft_log_commits_total",
			"Writes to the log of the replica sets; many of them share one.",
			func(n *Node) float64 { return float64(n.Cluster.Log.Metrics().Commits) },
		),
		count("raft_log_syncs_total", "Syncs of it.", func(n *Node) float64 {
			return float64(n.Cluster.Log.Metrics().Syncs)
		}),
		count(
			"node_frames_sent_total",
			"Messages between replicas sent to other nodes.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().FramesSent) },
		),
		count(
			"node_frames_dropped_total",
			"Messages between replicas that were dropped because a node did not take them.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().FramesDropped) },
		),
		count(
			"node_bytes_sent_total",
			"Bytes sent to other nodes.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().BytesSent) },
		),
		count(
			"node_bytes_received_total",
			"Bytes received from other nodes.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().BytesReceived) },
		),
		count(
			"node_commands_served_total",
			"Requests of other nodes that were carried out here.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().CommandsServed) },
		),
		count(
			"node_snapshots_sent_total",
			"Snapshots of replicas sent.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().SnapshotsSent) },
		),
		count(
			"node_snapshots_received_total",
			"Snapshots of replicas received.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().SnapshotsReceived) },
		),
		count(
			"node_handshakes_refused_total",
			"Connections of nodes that were turned away.",
			func(n *Node) float64 { return float64(n.Cluster.Transport.Counters().HandshakesRefused) },
		),
	}
)

// collectCluster reads the metrics of the cluster.
func (n *Node) collectCluster(ch chan<- prometheus.Metric) {
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
