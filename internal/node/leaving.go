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
	// leavingSubject is what a node that stops tells the others before it closes the connections of its clients; the
	// question is its identity.
	leavingSubject = "leaving"
	// leavingTimeout bounds the wait for a node that is told.
	leavingTimeout = 500 * time.Millisecond
	// returnWait is how long a node that has said that it stops is watched for its return.
	returnWait = time.Minute
)

// announceLeaving has all nodes tell their clients that this one is down. The node hands over its leaderships before
// that, and closes its connections at once after it: gocql, which is the driver that acts on the event, closes its
// connections one second later, with the requests on them. If clients heard of it only when the process has ended, a
// node that starts again within that second would lose requests on its new connections.
func (c *cluster) announceLeaving() {
	ctx, cancel := context.WithTimeout(context.Background(), leavingTimeout)
	defer cancel()
	c.sendStatusEvent(c.self, false)
	c.queryOthers(ctx, leavingSubject, c.self[:], leavingTimeout, func([]byte) {})
}

// stoppingNodes are the nodes that have said that they stop, with the process that said so and when.
type stoppingNodes struct {
	mu    sync.Mutex
	nodes map[topology.NodeID]stoppingNode
}

type stoppingNode struct{ process, at time.Time }

// handleLeaving is told that another node closes the connections of its clients.
func (c *cluster) handleLeaving(_ context.Context, question []byte) ([]byte, error) {
	var node topology.NodeID
	if len(question) != len(node) {
		return nil, errors.New("malformed request: expected the identity of a node")
	}
	copy(node[:], question)
	select {
	case <-c.started:
	default:
		return nil, errors.New("the node is starting")
	}
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

// watchStoppingNodes tells clients that a node is up again once a new process of it reports, until ctx ends. Usually
// aliveChanged does so; but a process may start again before anybody has noticed that it was away.
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

// returned takes out the nodes whose new processes report, and those that were watched for long enough.
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

// sendStatusEvent tells clients that a node is up or down.
func (c *cluster) sendStatusEvent(node topology.NodeID, up bool) {
	if n := c.n.metadata.State().Node(node); n != nil {
		if a, ok := endpoint(n).Address(c.n.info.RPC); ok {
			c.n.cql.StatusChanged(a, up)
		}
	}
}
