// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// leavingSubject is the subject of the message that a stopping node sends before it closes its client connections.
	// The question is its node ID.
	leavingSubject = "leaving"
	// leavingTimeout bounds the wait for a receiver.
	leavingTimeout = 500 * time.Millisecond
	// returnWait is how long a stopping node is watched for its return.
	returnWait = time.Minute
)

// announceLeaving makes all nodes send their clients an event that this node is down. The node has already transferred
// its leaderships and closes its connections immediately afterward. The gocql driver reacts to the event by closing its
// connections one second later, with their requests. If the event followed the end of the process, a node that restarts
// within that second would lose requests on new connections.
func (c *cluster) announceLeaving() {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	c.sendStatusEvent(c.self, false)
	c.n.queries.Others(ctx, leavingSubject, c.self[:], leavingTimeout, func([]byte) {})
}

// stoppingNodes holds the nodes that have announced their stop, with their processes and the times.
type stoppingNodes struct {
	mu    sync.Mutex
	nodes map[topology.NodeID]stoppingNode
}

type stoppingNode struct{ process, at time.Time }

// handleLeaving handles the announcement of a node that closes its client connections.
func (c *cluster) handleLeaving(_ context.Context, question []byte) ([]byte, error) {
	var node topology.NodeID
	if len(question) != len(node) {
		return nil, errors.New("malformed request: expected the identity of a node")
	}
	copy(node[:], question)
	if k, ok := c.peers.Report(node); ok {
		c.stoppingNodes.mu.Lock()
		if c.stoppingNodes.nodes == nil {
			c.stoppingNodes.nodes = map[topology.NodeID]stoppingNode{}
		}
		c.stoppingNodes.nodes[node] = stoppingNode{k.Started, time.Now()}
		c.stoppingNodes.mu.Unlock()
		c.sendStatusEvent(node, false)
	}
	return nil, nil
}

// watchStoppingNodes sends clients an event when a new process of a stopped node reports, until ctx ends. Usually
// aliveChanged does this, but a process may restart before its absence is noticed.
func (c *cluster) watchStoppingNodes(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, node := range c.stoppingNodes.returned(c.peers) {
			c.sendStatusEvent(node, true)
		}
	}
}

// returned removes and returns the nodes with new processes. It also removes nodes whose watch time has passed.
func (l *stoppingNodes) returned(p *peers.Peers) (back []topology.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, was := range l.nodes {
		k, ok := p.Report(node)
		isBack := ok && k.Alive && !k.Started.Equal(was.process)
		if isBack {
			back = append(back, node)
		}
		if isBack || time.Since(was.at) > returnWait {
			delete(l.nodes, node)
		}
	}
	return back
}

// sendStatusEvent sends clients the event that a node is up or down.
func (c *cluster) sendStatusEvent(node topology.NodeID, up bool) {
	if n := c.n.metadata.State().Node(node); n != nil {
		if a, ok := endpoint(n).Address(c.n.info.RPC); ok {
			c.n.cql.StatusChanged(a, up)
		}
	}
}
