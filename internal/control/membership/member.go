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
)

const (
	// agreeWait is how long a change of the schema waits for the other nodes to have it.
	agreeWait = time.Second
	// turnWait bounds the wait for a turn to change the records: then the change is tried without one.
	turnWait = 2 * time.Second
)

// Member is a node as one of its cluster: it answers what others ask about it (peers.Host), asks them about the
// records, and follows nodes that come and go. Its fields are set before it is used.
type Member struct {
	Self    topology.NodeID
	Host    *partition.Host
	Peers   *peers.Peers
	Network Network
	// Records are set as soon as they are read; nobody asks before that.
	Records *meta.Keeper
	// Report is what the node tells others about itself.
	Report func() peers.Report
	// DiskFree is the share of this node's disk that is free, in percent, negative or nil if it is not known.
	DiskFree func() int
	// Held is what the replicas here take; nil where that is not measured.
	Held func() peers.Holdings
	// QuietHere is what Quiet answers; nil where nothing is merged by itself.
	QuietHere func() []byte
	// Answers are the subjects that other nodes may ask this one about, with what answers; see peers.Ask.
	Answers map[string]func(ctx context.Context, question []byte) ([]byte, error)
	// HealAfter is how long a node may be away before its replicas are built elsewhere.
	HealAfter time.Duration
	// BytesSlack is placement.View.BytesSlack.
	BytesSlack float64
	Log        *slog.Logger
	// Sched is what it tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler

	weights Weights
}

// Describe implements peers.Host.
func (m *Member) Describe(to topology.NodeID) peers.Report {
	r := m.Report()
	if node := m.Records.State().Node(to); node != nil && node.State == meta.Left {
		r.Left = true
	}
	return r
}

// Await implements peers.Host.
func (m *Member) Await(ctx context.Context, version uint64, others bool) (peers.Standing, error) {
	s, err := m.Records.Wait(ctx, version)
	if err != nil {
		return peers.Standing{}, err
	}
	if others {
		ctx, cancel := m.Sched.WithTimeout(ctx, agreeWait)
		defer cancel()
		m.Peers.Known(ctx, version)
	}
	return peers.Standing{Records: s.Version, Schema: s.Schema.Version}, nil
}

// Admit implements peers.Host.
func (m *Member) Admit(ctx context.Context, who peers.Newcomer) (peers.Welcome, error) {
	a := Admission{Records: m.Records, Network: m.Network, Sched: m.Sched}
	return a.Admit(ctx, who)
}

// Stops implements peers.Host.
func (m *Member) Stops(node topology.NodeID) { m.Peers.SetStops(node) }

// Acknowledged implements peers.Host.
func (m *Member) Acknowledged(to map[topology.PartitionID]uint64) {
	for id, index := range to {
		if r := m.Host.Replica(id); r != nil {
			r.NoteAcknowledged(index)
		}
	}
}

// Enter implements peers.Host.
func (m *Member) Enter(ctx context.Context) (version uint64, err error) { return m.Records.Enter(ctx) }

// Agree waits until the other nodes have a version of the records, and logs which of them did not say so in time.
func (m *Member) Agree(ctx context.Context, version uint64) {
	ctx, cancel := m.Sched.WithTimeout(ctx, agreeWait)
	defer cancel()
	for _, node := range m.Peers.Agree(ctx, version) {
		m.Log.LogAttrs(ctx, slog.LevelWarn, "a node has not heard of a change of the schema in time",
			slog.String("node", node.Short()))
	}
}

// LeadsMeta reports whether this node leads the meta partition.
func (m *Member) LeadsMeta() bool {
	r := m.Host.Replica(topology.MetaPartition)
	return r != nil && r.Leading()
}

// Turn asks the node that leads the meta partition for the turn to change the records, and returns their version there.
func (m *Member) Turn(ctx context.Context) (version uint64, err error) {
	ctx, cancel := m.Sched.WithTimeout(ctx, turnWait)
	defer cancel()
	r := m.Host.Replica(topology.MetaPartition)
	if r == nil {
		return 0, partition.ErrClosed
	}
	if r.Leading() {
		return m.Enter(ctx)
	}
	leader, ok := r.Leader()
	if !ok || leader == m.Self {
		return 0, &partition.NotLeader{Partition: topology.MetaPartition}
	}
	return peers.Turn(ctx, m.Network, leader)
}

// Newest returns a version of the records that has every change which was acknowledged before the call: that of the
// replica here, once it has applied what its leader has. See meta.Options.
func (m *Member) Newest(ctx context.Context) (version uint64, err error) {
	r := m.Host.Replica(topology.MetaPartition)
	if r == nil {
		return 0, partition.ErrClosed
	}
	return r.NewestRecords(ctx)
}

// View is what this node sees of the others, for placement.
func (m *Member) View() placement.View {
	v := placement.View{
		Now: m.Sched.Wall(), Down: m.Peers.Down(), Stopping: m.Peers.Stopping(), Young: m.Peers.Young(),
		Skewed:    m.Peers.Skewed(),
		Free:      map[topology.NodeID]int{},
		HealAfter: m.HealAfter, BytesSlack: m.BytesSlack,
	}
	v.Sizes, v.Capacity = m.weights.get()
	v.Cramped = m.room().cramped
	for _, node := range m.Records.State().Nodes {
		if k, ok := m.Peers.Report(node.ID); ok && k.DiskFree >= 0 {
			v.Free[node.ID] = k.DiskFree
		}
	}
	if m.DiskFree == nil {
		return v
	}
	if free := m.DiskFree(); free >= 0 {
		v.Free[m.Self] = free
	}
	return v
}

// Follow has connections and reports follow new records: which nodes there are, and where. It reports whether this node
// is counted out.
func (m *Member) Follow(old, next *meta.State) (left bool) {
	var nodes []topology.NodeID
	for _, node := range next.Nodes {
		if node.State != meta.Left {
			nodes = append(nodes, node.ID)
			// A node's word when it connects is newer than its record, if it has moved and cannot change that yet.
			if was := old.Node(node.ID); node.ID != m.Self && (was == nil || was.Internal != node.Internal) {
				m.Network.SetAddress(node.ID, node.Internal)
			}
		}
		left = left || node.ID == m.Self && node.State == meta.Left
	}
	m.Peers.Watch(nodes)
	if old.Schema != next.Schema {
		m.Peers.Follow(next.Version)
	}
	for _, node := range old.Nodes {
		if now := next.Node(node.ID); (now == nil || now.State == meta.Left) && node.State != meta.Left {
			m.Network.Forget(node.ID)
		}
	}
	return left
}
