// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

const (
	// statsInterval is the interval at which the leader of the meta partition requests the stats of all nodes.
	// statsTimeout is the maximum wait for the responses.
	statsInterval = 10 * time.Second
	statsTimeout  = 5 * time.Second
	// statsConcurrency is the maximum number of parallel requests.
	statsConcurrency = 16
	// loadMax is a load in request units per second that no replica can reach. Larger values are incorrect. Older
	// versions report incorrect values for replicas that have replaced other replicas.
	loadMax = 1 << 32
)

// ClusterStats holds the sizes of all replicas and the capacities of all nodes, on the leader of the meta partition. If
// a node does not respond, ClusterStats keeps the previous values of this node.
type ClusterStats struct {
	mu       sync.Mutex
	reported map[topology.NodeID]peers.NodeStats
	sizes    map[topology.PartitionID]placement.Size // immutable map
	capacity map[topology.NodeID]uint64
}

// update stores the reported stats and deletes the stats of removed nodes.
func (w *ClusterStats) update(nodes []*meta.Node, reported map[topology.NodeID]peers.NodeStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.reported
	w.reported = map[topology.NodeID]peers.NodeStats{}
	sizes, capacity := map[topology.PartitionID]placement.Size{}, map[topology.NodeID]uint64{}
	for _, n := range nodes {
		h, ok := reported[n.ID]
		if !ok {
			h, ok = before[n.ID]
		}
		if !ok || n.State == meta.Left {
			continue
		}
		w.reported[n.ID] = h
		if h.Capacity > 0 {
			capacity[n.ID] = h.Capacity
		}
		for _, r := range h.Replicas {
			// A replica that is being copied is smaller than the other replicas, and a follower may have less load than
			// the leader.
			s := sizes[r.Partition]
			s.Bytes = max(s.Bytes, float64(r.Bytes))
			if r.Load < loadMax {
				s.Load = max(s.Load, float64(r.Load))
			}
			sizes[r.Partition] = s
		}
	}
	w.sizes, w.capacity = sizes, capacity
}

// clear deletes all stats after this node has lost the leadership of the meta partition.
func (w *ClusterStats) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported, w.sizes, w.capacity = nil, nil, nil
}

func (w *ClusterStats) get() (map[topology.PartitionID]placement.Size, map[topology.NodeID]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizes, w.capacity
}

// CollectStats requests the stats of all nodes while this node leads the meta partition, until ctx ends.
func (m *Member) CollectStats(ctx context.Context) {
	for {
		if m.LeadsMeta() {
			nodes := m.Metadata.State().Nodes
			m.stats.update(nodes, m.fetchAllStats(ctx, nodes))
		} else {
			m.stats.clear()
		}
		if m.Sched.Sleep(ctx, statsInterval) != nil {
			return
		}
	}
}

// fetchAllStats requests the stats of nodes.
func (m *Member) fetchAllStats(ctx context.Context, nodes []*meta.Node) map[topology.NodeID]peers.NodeStats {
	ctx, cancel := m.Sched.WithTimeout(ctx, statsTimeout)
	defer cancel()
	var mu sync.Mutex
	told := map[topology.NodeID]peers.NodeStats{}
	asking := &sched.Group{Scheduler: m.Sched}
	next := make(chan *meta.Node, len(nodes))
	for _, n := range nodes {
		if n.State != meta.Left && m.Peers.Alive(n.ID) {
			next <- n
		}
	}
	close(next)
	for range statsConcurrency {
		asking.Go(func() {
			for n := range next {
				h, err := m.fetchStats(ctx, n.ID)
				if err != nil {
					continue // the previous stats remain valid
				}
				mu.Lock()
				told[n.ID] = h
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return told
}

func (m *Member) fetchStats(ctx context.Context, node topology.NodeID) (peers.NodeStats, error) {
	if node == m.Self {
		return m.Stats(), nil
	}
	return peers.StatsCall.Do(ctx, &rpc.Client{Caller: m.Network, Sched: m.Sched}, node, rpc.None{})
}

// Stats returns the stats of the replicas on this node.
func (m *Member) Stats() peers.NodeStats {
	if m.Loads == nil {
		return peers.NodeStats{}
	}
	return m.Loads.Stats(m.Metadata.State().Topology)
}
