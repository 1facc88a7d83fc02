// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// weighEvery is how often the node that decides about placement asks all nodes what their replicas take, and
	// weighWait how long it waits for the answers.
	weighEvery = 10 * time.Second
	weighWait  = 5 * time.Second
	// weighAtOnce bounds the nodes that are asked at a time.
	weighAtOnce = 16
	// loadMax is a load, in request units a second, that no replica has: what is told above it is nonsense, as nodes
	// of older builds tell of replicas that came in the place of others.
	loadMax = 1 << 32
)

// Weights are what the replicas of all nodes take, and what the nodes have room for, as far as the node knows that
// decides about placement. A node that does not answer takes what it said last.
type Weights struct {
	mu       sync.Mutex
	told     map[topology.NodeID]peers.Holdings
	sizes    map[topology.PartitionID]placement.Size // not changed any more once it is here
	capacity map[topology.NodeID]uint64
}

// note takes what nodes have told, and forgets all but those that there are.
func (w *Weights) note(nodes []*meta.Node, told map[topology.NodeID]peers.Holdings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.told
	w.told = map[topology.NodeID]peers.Holdings{}
	sizes, capacity := map[topology.PartitionID]placement.Size{}, map[topology.NodeID]uint64{}
	for _, n := range nodes {
		h, ok := told[n.ID]
		if !ok {
			h, ok = before[n.ID]
		}
		if !ok || n.State == meta.Left {
			continue
		}
		w.told[n.ID] = h
		if h.Capacity > 0 {
			capacity[n.ID] = h.Capacity
		}
		for _, r := range h.Replicas {
			// A replica that is on its way has less than the others, and one that does not lead may have less to do.
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

// forget is for a node that does not decide any more.
func (w *Weights) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told, w.sizes, w.capacity = nil, nil, nil
}

func (w *Weights) get() (map[topology.PartitionID]placement.Size, map[topology.NodeID]uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizes, w.capacity
}

// Weigh asks all nodes what their replicas take while this node leads the meta partition, until ctx ends.
func (m *Member) Weigh(ctx context.Context) {
	for {
		if m.LeadsMeta() {
			nodes := m.Records.State().Nodes
			m.weights.note(nodes, m.ask(ctx, nodes))
		} else {
			m.weights.forget()
		}
		if m.Sched.Sleep(ctx, weighEvery) != nil {
			return
		}
	}
}

// ask asks nodes what their replicas take.
func (m *Member) ask(ctx context.Context, nodes []*meta.Node) map[topology.NodeID]peers.Holdings {
	ctx, cancel := m.Sched.WithTimeout(ctx, weighWait)
	defer cancel()
	var mu sync.Mutex
	told := map[topology.NodeID]peers.Holdings{}
	asking := &sched.Group{Scheduler: m.Sched}
	next := make(chan *meta.Node, len(nodes))
	for _, n := range nodes {
		if n.State != meta.Left && m.Peers.Alive(n.ID) {
			next <- n
		}
	}
	close(next)
	for range weighAtOnce {
		asking.Go(func() {
			for n := range next {
				h, err := m.holdings(ctx, n.ID)
				if err != nil {
					continue // what it said last stands
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

func (m *Member) holdings(ctx context.Context, node topology.NodeID) (peers.Holdings, error) {
	if node == m.Self {
		return m.Holdings(), nil
	}
	return m.Peers.Holdings(ctx, node)
}

// Holdings implements peers.Host.
func (m *Member) Holdings() peers.Holdings {
	if m.Held == nil {
		return peers.Holdings{}
	}
	return m.Held()
}

// Quiet implements peers.Host.
func (m *Member) Quiet() []byte {
	if m.QuietHere == nil {
		return nil
	}
	return m.QuietHere()
}

// Answer implements peers.Host.
func (m *Member) Answer(ctx context.Context, subject string, question []byte) ([]byte, error) {
	if answer := m.Answers[subject]; answer != nil {
		return answer(ctx, question)
	}
	return nil, fmt.Errorf("this build knows nothing of %q", subject)
}
