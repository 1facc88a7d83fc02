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

// spaceEvery is how often a node looks whose disks are full: as often as the others say so.
const spaceEvery = time.Second

// room is what a node knows of the space on the disks of its cluster.
type room struct {
	// full are the nodes that refuse writes, cramped those that have less than placement.FreeMin free.
	full, cramped map[topology.NodeID]bool
}

// FollowDisks tells the replicas here whose disks are almost full and which nodes should not lead, until ctx ends. A
// node that is cramped keeps its logs short and has others lead, before it has to refuse what it is asked to write.
func (m *Member) FollowDisks(ctx context.Context) {
	was := false
	for m.Sched.Sleep(ctx, spaceEvery) == nil {
		r := m.room()
		abstaining := m.Peers.Skewed()
		maps.DeleteFunc(abstaining, func(_ topology.NodeID, wrong bool) bool { return !wrong })
		maps.Copy(abstaining, r.cramped)
		if is := len(abstaining) > 0; is || was {
			m.Host.SetFullDisks(r.full)
			m.Host.SetLowDisk(r.cramped[m.Self])
			m.Host.Abstain(partition.DiskFull, r.cramped[m.Self])
			m.Host.Abstaining(abstaining)
			was = is
		}
	}
}

func (m *Member) room() room {
	r := room{full: map[topology.NodeID]bool{}, cramped: map[topology.NodeID]bool{}}
	for _, node := range m.Records.State().Nodes {
		if node.State == meta.Left {
			continue
		}
		k, ok := m.Peers.Report(node.ID)
		if node.ID == m.Self {
			k, ok = peers.Known{Report: m.Report(), Alive: true}, true
		}
		if !ok || !k.Alive {
			continue
		}
		if k.DiskFull {
			r.full[node.ID] = true
		}
		if k.DiskFull || k.DiskFree >= 0 && k.DiskFree < placement.FreeMin {
			r.cramped[node.ID] = true
		}
	}
	return r
}
