// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

const (
	// agreementTimeout is the maximum time for which a schema change waits until all nodes have received the change.
	agreementTimeout = time.Second
	// acquireTimeout is the maximum wait in the queue of metadata writers. After this time, the change is attempted
	// without the queue.
	acquireTimeout = 2 * time.Second
)

// Node is this node.
type Node interface {
	// Record returns the node's record without its tokens and its join time.
	Record() *meta.Node
	// Report returns the node's report for other nodes.
	Report() peers.Report
	// State returns the metadata, or nil before this node has loaded it.
	State() *meta.State
	// Fail stops the node.
	Fail(reason error)
}

// Member represents this node in its cluster. It handles the calls of other members, queries the other members for the
// metadata, and tracks the nodes that join and leave. The caller must set the exported fields before use.
type Member struct {
	Self    topology.NodeID
	Host    *partition.Host
	Peers   *peers.Peers
	Network Network
	// Metadata is set after the metadata has been loaded.
	Metadata *meta.Keeper
	Node     Node
	// Loads measures the replicas on this node. It is nil if the replicas are not measured.
	Loads *LoadTracker
	// RebuildDelay is the time for which a node may be down before its replicas are rebuilt on other nodes.
	RebuildDelay time.Duration
	// BytesSlack is placement.View.BytesSlack.
	BytesSlack float64
	Log        *slog.Logger
	// Sched provides time and waits. It is nil outside simulations.
	Sched *sched.Scheduler

	stats ClusterStats
}

// AwaitAgreement waits until the other nodes have a version of the metadata. It logs the nodes that have not confirmed
// the version in time.
func (m *Member) AwaitAgreement(ctx context.Context, version uint64) {
	ctx, cancel := m.Sched.WithTimeout(ctx, agreementTimeout)
	defer cancel()
	for _, node := range m.Peers.AwaitAgreement(ctx, version) {
		m.Log.LogAttrs(ctx, slog.LevelWarn, "schema change not confirmed by a node in time",
			slog.String("node", node.Short()))
	}
}

// LeadsMeta reports whether this node leads the meta partition.
func (m *Member) LeadsMeta() bool {
	r := m.Host.Replica(topology.MetaPartition)
	return r != nil && r.Leading()
}

// AcquireFromLeader queues a metadata change on the node that leads the meta partition, and returns this node's
// metadata version.
func (m *Member) AcquireFromLeader(ctx context.Context) (version uint64, err error) {
	ctx, cancel := m.Sched.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	r := m.Host.Replica(topology.MetaPartition)
	if r == nil {
		return 0, partition.ErrClosed
	}
	if r.Leading() {
		return m.Metadata.Acquire(ctx)
	}
	leader, ok := r.Leader()
	if !ok || leader == m.Self {
		return 0, &partition.NotLeader{Partition: topology.MetaPartition}
	}
	a, err := peers.AcquireCall.Do(ctx, &rpc.Client{Caller: m.Network, Sched: m.Sched}, leader, rpc.None{})
	return a.Version, err
}

// LatestVersion returns a metadata version that contains every change acknowledged before the call. It waits until the
// local replica has caught up with the leader. See meta.Options.
func (m *Member) LatestVersion(ctx context.Context) (version uint64, err error) {
	r := m.Host.Replica(topology.MetaPartition)
	if r == nil {
		return 0, partition.ErrClosed
	}
	return r.NewestRecords(ctx)
}

// View returns this node's view of the other nodes, for package placement.
func (m *Member) View() placement.View {
	v := placement.View{
		Now: m.Sched.Wall(), Down: m.Peers.Down(), Stopping: m.Peers.Stopping(),
		RecentlyRestarted: m.Peers.RecentlyRestarted(),
		Skewed:            m.Peers.Skewed(),
		Free:              map[topology.NodeID]int{},
		RebuildDelay:      m.RebuildDelay, BytesSlack: m.BytesSlack,
	}
	v.Sizes, v.Capacity = m.stats.get()
	v.LowSpace = m.diskSpace().lowSpace
	for _, node := range m.Metadata.State().Nodes {
		if k, ok := m.Peers.Report(node.ID); ok && k.DiskFree >= 0 {
			v.Free[node.ID] = k.DiskFree
		}
	}
	if free := m.Node.Report().DiskFree; free >= 0 {
		v.Free[m.Self] = free
	}
	return v
}

// MetadataChanged updates the connections to nodes after a change of the metadata. left reports whether this node has
// been removed from the cluster.
func (m *Member) MetadataChanged(old, next *meta.State) (left bool) {
	var nodes []topology.NodeID
	for _, node := range next.Nodes {
		if node.State != meta.Left {
			nodes = append(nodes, node.ID)
			// If a node cannot update its record yet, the address in its handshake may be newer than the address in the
			// record.
			if was := old.Node(node.ID); node.ID != m.Self && (was == nil || was.Internal != node.Internal) {
				m.Network.SetAddress(node.ID, node.Internal)
			}
		}
		left = left || node.ID == m.Self && node.State == meta.Left
	}
	m.Peers.Watch(nodes)
	if old.Schema != next.Schema {
		m.Peers.SetVersion(next.Version)
	}
	for _, node := range old.Nodes {
		if now := next.Node(node.ID); (now == nil || now.State == meta.Left) && node.State != meta.Left {
			m.Network.Forget(node.ID)
		}
	}
	return left
}
