// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"maps"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// spaceInterval is the interval at which the node checks which disks are full. It equals the interval of reports.
const spaceInterval = time.Second

// diskSpace holds the disk states of the cluster's nodes.
type diskSpace struct {
	// full holds the nodes that reject writes. lowSpace holds the nodes with less free space than placement.FreeMin.
	full, lowSpace map[topology.NodeID]bool
}

// FollowDisks informs the local replicas of nodes with almost full disks and of nodes that should not lead, until ctx
// ends. A node with low disk space truncates its logs and transfers its leaderships before it must reject writes.
func (m *Member) FollowDisks(ctx context.Context) {
	was := false
	for m.Sched.Sleep(ctx, spaceInterval) == nil {
		r := m.diskSpace()
		abstaining := m.Peers.Skewed()
		maps.DeleteFunc(abstaining, func(_ topology.NodeID, wrong bool) bool { return !wrong })
		maps.Copy(abstaining, r.lowSpace)
		if is := len(abstaining) > 0; is || was {
			sets := m.Host.ReplicaSets()
			sets.SetFullDisks(r.full)
			sets.SetLowDisk(r.lowSpace[m.Self])
			sets.Abstain(partition.DiskFull, r.lowSpace[m.Self])
			sets.Abstaining(abstaining)
			was = is
		}
	}
}

func (m *Member) diskSpace() diskSpace {
	r := diskSpace{full: map[topology.NodeID]bool{}, lowSpace: map[topology.NodeID]bool{}}
	for _, node := range m.Metadata.State().Nodes {
		if node.State == meta.Left {
			continue
		}
		k, ok := m.Peers.Report(node.ID)
		if node.ID == m.Self {
			k, ok = peers.PeerStatus{Report: m.Node.Report(), Alive: true}, true
		}
		if !ok || !k.Alive {
			continue
		}
		if k.DiskFull {
			r.full[node.ID] = true
		}
		if k.DiskFull || k.DiskFree >= 0 && k.DiskFree < placement.FreeMin {
			r.lowSpace[node.ID] = true
		}
	}
	return r
}
