// SPDX-License-Identifier: Apache-2.0

package nodeevents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

const (
	// leavingTimeout is the maximum wait for a node that receives an announcement.
	leavingTimeout = 500 * time.Millisecond
	// returnWait is the time for which a node watches for the return of a stopping node.
	returnWait = time.Minute
)

// leavingCall announces that a node is about to close its client connections. The request contains the ID of the node.
var leavingCall = rpc.Declare[rpc.Bytes, rpc.None](rpc.Spec{Name: "leaving", Since: 7, Timeout: leavingTimeout,
	RequestMax: rpc.SmallBytes, Idempotent: true})

// AnnounceStop makes all nodes send their clients the event that this node is down. Before the call, the node must
// transfer its leaderships. Immediately after the call, it must close its client connections. One second after the
// event, the gocql driver closes its connections to the node, and their requests fail. If the event were sent only
// after the end of the process, a node that restarts within this second would lose requests on new connections.
func (n *Notifier) AnnounceStop() {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	n.StatusChanged(n.Self, false)
	clusterquery.Others(ctx, n.Queries, leavingCall, n.Self[:], func(rpc.None) {})
}

// Register registers the handler for announcements from other nodes.
func (n *Notifier) Register(s *rpc.Server) { clusterquery.Handle(s, leavingCall, n.handleStop) }

// stoppingNodes holds the nodes that have announced their stop, with their processes and the times of the
// announcements.
type stoppingNodes struct {
	mu    sync.Mutex
	nodes map[topology.NodeID]stoppingNode
}

type stoppingNode struct{ process, at time.Time }

// handleStop handles the announcement that a node closes its client connections.
func (n *Notifier) handleStop(_ context.Context, id rpc.Bytes) (rpc.None, error) {
	var node topology.NodeID
	if copy(node[:], id) != len(id) || len(id) != len(node) {
		return rpc.None{}, errors.New("malformed request: expected a node ID")
	}
	if k, ok := n.Peers.Report(node); ok {
		n.stopping.mu.Lock()
		if n.stopping.nodes == nil {
			n.stopping.nodes = map[topology.NodeID]stoppingNode{}
		}
		n.stopping.nodes[node] = stoppingNode{k.Started, time.Now()}
		n.stopping.mu.Unlock()
		n.StatusChanged(node, false)
	}
	return rpc.None{}, nil
}

// WatchStopping sends clients an event when a new process of a stopped node reports. It returns when ctx ends.
// Usually, a change of the node's liveness causes this event. However, a process may restart before other nodes have
// detected its absence.
func (n *Notifier) WatchStopping(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, node := range n.stopping.returned(n.Peers) {
			n.StatusChanged(node, true)
		}
	}
}

// returned removes and returns the nodes that have new processes. It also removes nodes whose watch time has passed.
func (s *stoppingNodes) returned(p *peers.Peers) (back []topology.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, was := range s.nodes {
		k, ok := p.Report(node)
		isBack := ok && k.Alive && !k.Started.Equal(was.process)
		if isBack {
			back = append(back, node)
		}
		if isBack || time.Since(was.at) > returnWait {
			delete(s.nodes, node)
		}
	}
	return back
}
