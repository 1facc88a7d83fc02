// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Status is the response to a request for /status.
type Status struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	CQL     string `json:"cql"`
	Commit  string `json:"commit"`
	Data    string `json:"data"`
	Schema  string `json:"schema_version"`
	// Software is the version of the build.
	Software string `json:"software"`
	// Level is the feature level of the data directory.
	Level     uint32 `json:"feature_level"`
	DiskBytes uint64 `json:"disk_bytes"`
	DiskFree  int    `json:"disk_free_percent"`
	DiskFull  bool   `json:"writes_refused_for_lack_of_disk"`
	// Nodes lists the nodes of the cluster, including this node. Nodes is empty for a standalone node.
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Problems describes conditions that need attention.
	Problems []string `json:"problems"`
	// Notes describes conditions that require no action but are useful to know.
	Notes []string `json:"notes,omitempty"`
	// Changes lists up to 100 splits, merges, and moves that are in progress.
	Changes []ChangeStatus `json:"changes"`
	Tables  []TableStatus  `json:"tables"`
}

// NodeStatus describes a node of the cluster from the perspective of this node.
type NodeStatus struct {
	ID string `json:"id"`
	// State is up, down, draining, or leaving.
	State    string `json:"state"`
	Internal string `json:"internal"`
	CQL      string `json:"cql"`
	HTTP     string `json:"http"`
	Region   string `json:"region"`
	Zone     string `json:"zone"`
	Replicas int    `json:"replicas"`
	Leading  int    `json:"leading"`
	// DiskFree is the free disk space in percent, or -1 if it is unknown.
	DiskFree  int    `json:"disk_free_percent"`
	DiskFull  bool   `json:"writes_refused_for_lack_of_disk"`
	DiskBytes uint64 `json:"disk_bytes"`
	// HeldBytes is the part of the used space that the replicas of the node use. It was measured a few seconds ago.
	HeldBytes       uint64 `json:"held_bytes,omitempty"`
	ClockSkewMillis int64  `json:"clock_skew_ms"`
	UpSeconds       int64  `json:"up_seconds"`
	Software        string `json:"software"`
	// WriteMemory identifies a time in hexadecimal. According to this node, all replicas of the other node remember
	// the writes that they have applied since that time. If the value equals the value that the other node itself
	// reports, a failover to that node does not make the outcome of writes from this node unknown.
	WriteMemory string `json:"write_memory,omitempty"`
}

// TableStatus is a table with its physical partitions.
type TableStatus struct {
	Name string `json:"name"`
	// LogicalPartitions is the number of logical partitions in all physical partitions that have a replica on this
	// node.
	LogicalPartitions uint64            `json:"logical_partitions"`
	Partitions        []PartitionStatus `json:"physical_partitions"`
}

// PartitionStatus is a physical partition. Sizes and counts refer to the replica on this node. They are 0 if this node
// has no replica. Counts start when the node starts. All sizes except DiskBytes are logical.
type PartitionStatus struct {
	ID                uint64 `json:"id"`
	Span              string `json:"span"`
	DiskBytes         uint64 `json:"disk_bytes"`
	LogicalPartitions uint64 `json:"logical_partitions"`
	// Counted is the time at which the logical partitions were counted, in RFC 3339 format. If Counted is empty, the
	// number is an estimate.
	Counted      string  `json:"logical_partitions_counted,omitempty"`
	Reads        uint64  `json:"reads"`
	Writes       uint64  `json:"writes"`
	Conditions   uint64  `json:"conditions"`
	RequestUnits float64 `json:"request_units"`
	// Parent is the partition from which this partition was split off. SplitsAt and SplitsOff describe a split in
	// progress. They are the first token and the ID of the new partition.
	Parent    uint64 `json:"parent,omitempty"`
	SplitsAt  string `json:"splits_at,omitempty"`
	SplitsOff uint64 `json:"splits_off,omitempty"`
	// SplitRecalled is true if the split has been canceled. If the partition's log already contains the split, the
	// split still completes.
	SplitRecalled bool `json:"split_recalled,omitempty"`
	MergeStatus
	// Wanted lists the nodes to which an operator has pinned the replicas. The pin ends at HeldUntil, which is in RFC
	// 3339 format.
	Wanted    []string `json:"wanted,omitempty"`
	HeldUntil string   `json:"held_until,omitempty"`
	// SplitCause is the cause of the split, which is a command, size, or load.
	SplitCause string `json:"split_cause,omitempty"`
	// CapBytes is the size limit of the partition on disk. Load is the partition's load during the last few seconds,
	// in request units per second. Stuck is the reason why the partition cannot be split. Only the leader knows these
	// values.
	CapBytes uint64  `json:"cap_bytes,omitempty"`
	Load     float64 `json:"request_units_per_second,omitempty"`
	Stuck    string  `json:"not_split_because,omitempty"`
	// Hot is the logical partition with the highest load in a saturated partition. HotShare is the logical partition's
	// fraction of the load, from 0 to 1. Only the leader knows these values.
	Hot      string  `json:"hot_key,omitempty"`
	HotShare float64 `json:"hot_key_share,omitempty"`
	// Leader is the leader known to this node. Replicas are the members of the replica set. The list is empty for a
	// standalone node.
	Leader   string          `json:"leader,omitempty"`
	Replicas []ReplicaStatus `json:"replicas,omitempty"`
}

// MergeStatus is a merge in progress. If no merge is in progress, MergeStatus is the zero value. MergesInto is the
// left partition, and MergesWith is the right partition. MergeStage is freezing, thawing, or merging.
type MergeStatus struct {
	MergesInto uint64 `json:"merges_into,omitempty"`
	MergesWith uint64 `json:"merges_with,omitempty"`
	MergeStage string `json:"merge_stage,omitempty"`
}

// ReplicaStatus is a member of a replica set in the topology.
type ReplicaStatus struct {
	ID    uint64 `json:"id"`
	Node  string `json:"node"`
	State string `json:"state"`
}

// countWait is the maximum time for which a status request waits for a new count of logical partitions.
const countWait = time.Second

// StatusWithoutKeys returns the status without partition keys. It is for clients that may not read data.
func (n *Reporter) StatusWithoutKeys() Status {
	s := n.Status()
	for i := range s.Tables {
		for j := range s.Tables[i].Partitions {
			if p := &s.Tables[i].Partitions[j]; p.Stuck != "" {
				p.Stuck = "a logical partition is too large. Log in to see its key"
			}
			s.Tables[i].Partitions[j].Hot = ""
		}
	}
	return s
}

// Status returns the current status of the node.
func (n *Reporter) Status() Status {
	id, m, sch := n.Directory.Identity(), n.Store.Metrics(), n.Catalog.Snapshot()
	s := Status{
		Cluster: n.ClusterName, Node: hex.EncodeToString(id.Node[:]), CQL: n.Address, Commit: n.Commit, Data: n.Data,
		Schema: sch.Version.String(), Software: n.Software, Level: uint32(n.Directory.Level()), DiskBytes: m.DiskBytes,
		DiskFree: m.FreePercent, DiskFull: m.DiskFull, Problems: []string{}, Tables: []TableStatus{},
	}
	if m.DiskFull {
		s.Problems = append(s.Problems, "the disk of this node is almost full: it rejects writes")
	}
	if n.Certificates != nil {
		s.Problems = append(s.Problems, n.Certificates.Problems()...)
	}
	s.Notes = append(s.Notes, n.encryptionNotes()...)
	if n.Cluster != nil {
		n.addCluster(&s)
	}
	s.Changes = n.changes()
	n.Census.Refresh(context.Background(), countWait)
	topo := n.Coordinator.Topology()
	for ks := range sch.All() {
		for _, t := range ks.SortedTables() {
			if t.Virtual {
				continue
			}
			ts := TableStatus{Name: t.String()}
			for _, p := range topo.Partitions(t.ID) {
				ps := n.partitionStatus(p)
				ts.Partitions = append(ts.Partitions, ps)
				ts.LogicalPartitions += ps.LogicalPartitions
			}
			s.Tables = append(s.Tables, ts)
		}
	}
	return s
}

func (n *Reporter) partitionStatus(p *topology.Partition) PartitionStatus {
	ps := PartitionStatus{ID: uint64(p.ID), Span: p.Span.String(), Parent: uint64(p.Parent)}
	if p.Merge != nil {
		ps.MergeStatus = MergeStatus{uint64(p.Merge.Left), uint64(p.Merge.Right), p.Merge.Stage.String()}
	}
	if p.Split != nil {
		ps.SplitsAt, ps.SplitsOff, ps.SplitRecalled = p.Split.At.String(), uint64(p.Split.Child), p.Split.Canceled
		if p.Reason != nil {
			ps.SplitCause = p.Reason.Cause.String()
		}
	}
	if w := p.Pin; w != nil {
		ps.HeldUntil = time.UnixMilli(w.Until).UTC().Format(time.RFC3339)
		for _, node := range w.Nodes {
			ps.Wanted = append(ps.Wanted, hex.EncodeToString(node[:]))
		}
	}
	if n.Cluster != nil {
		for i := range p.Sets {
			for _, r := range p.Sets[i].Replicas {
				ps.Replicas = append(ps.Replicas, ReplicaStatus{ID: uint64(r.ID), Node: hex.EncodeToString(r.Node[:]),
					State: r.State.String()})
			}
		}
	}
	r := n.Host.Replica(p.ID)
	if r == nil {
		return ps
	}
	if e, err := n.Store.Estimate(p.Span.Keys(p.Table)); err == nil {
		ps.DiskBytes, ps.LogicalPartitions = e.Bytes, e.Partitions
	}
	if counted := n.Census.Latest(p.ID); counted != nil {
		ps.LogicalPartitions, ps.Counted = counted.Partitions, counted.Began.UTC().Format(time.RFC3339Nano)
	}
	if leader, ok := r.Leader(); ok {
		ps.Leader = hex.EncodeToString(leader[:])
	}
	if n.Growth != nil {
		g := n.Growth.Report(p.ID)
		ps.CapBytes, ps.Load, ps.Stuck = g.SizeLimit, g.Load, g.NotSplitReason
		ps.Hot, ps.HotShare = g.HotKey, g.HotKeyShare
	}
	c := r.Load().Counts()
	ps.Reads, ps.Writes, ps.Conditions, ps.RequestUnits = c.Reads, c.Writes, c.Conditions, c.Units.Float()
	return ps
}
