// SPDX-License-Identifier: Apache-2.0

// Package clusterquery sends calls to all nodes of a cluster, such as requests for their sessions.
//
// Queries are best effort. A node is reported as silent if it is down, busy, or does not support the call.
package clusterquery

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/rpc"
)

// concurrency is the maximum number of parallel queries of one call.
const concurrency = 8

// Client queries the other nodes of a cluster. A nil Client belongs to a standalone node, which has no other nodes.
// Its methods are safe for concurrent use.
type Client struct {
	self     topology.NodeID
	metadata *meta.Keeper
	peers    *peers.Peers
	client   rpc.Client
}

// NewClient returns the client of a cluster node.
func NewClient(self topology.NodeID, metadata *meta.Keeper, p *peers.Peers, client rpc.Client) *Client {
	return &Client{self, metadata, p, client}
}

// LiveNodes returns the other live nodes.
func (c *Client) LiveNodes() (out []topology.NodeID) {
	if c == nil {
		return nil
	}
	for _, node := range c.metadata.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && c.peers.Alive(node.ID) {
			out = append(out, node.ID)
		}
	}
	return out
}

// Self returns the ID of this node.
func (c *Client) Self() topology.NodeID { return c.self }

// Alive reports whether a node is alive. It always returns true for this node.
func (c *Client) Alive(node topology.NodeID) bool { return node == c.self || c.peers.Alive(node) }

// Query sends a call to one other node.
func Query[Q, A any](ctx context.Context, c *Client, node topology.NodeID, call *rpc.Call[Q, A], q Q) (A, error) {
	if c == nil {
		return *new(A), fmt.Errorf("node %s does not exist", node.Short())
	}
	return call.Do(ctx, &c.client, node, q)
}

// Others sends a call to the other nodes. It calls take with one response at a time. It returns the names of the nodes
// that are down, busy, or do not support the call.
func Others[Q, A any](ctx context.Context, c *Client, call *rpc.Call[Q, A], q Q, take func(A)) (silent []string) {
	if c == nil {
		return nil
	}
	alive := c.LiveNodes()
	for _, node := range c.metadata.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && !slices.Contains(alive, node.ID) {
			silent = append(silent, c.Name(node.ID))
		}
	}
	slots := make(chan struct{}, concurrency)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, node := range alive {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			response, err := call.Do(ctx, &c.client, node, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, c.Name(node))
				return
			}
			take(response)
		})
	}
	wg.Wait()
	slices.Sort(silent)
	return silent
}

// Name returns the name of a node for operators.
func (c *Client) Name(node topology.NodeID) string {
	if n := c.metadata.State().Node(node); n != nil {
		return fmt.Sprintf("%s (%s)", node.Short(), n.Internal)
	}
	return node.Short()
}

// All sends a call to all nodes. It first calls local for this node. silent holds the names of the nodes that have not
// responded.
func All[Q, A any](ctx context.Context, c *Client, call *rpc.Call[Q, A], q Q,
	local func(ctx context.Context, q Q) (A, error)) (responses []A, silent []string, err error) {
	own, err := local(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	responses, silent = []A{own}, []string{}
	silent = append(silent, Others(ctx, c, call, q, func(a A) { responses = append(responses, a) })...)
	return responses, silent, nil
}

// Handle registers the handler of a call.
func Handle[Q, A any](s *rpc.Server, call *rpc.Call[Q, A], f func(ctx context.Context, q Q) (A, error)) {
	rpc.Handle(s, call, func(ctx context.Context, _ topology.NodeID, q Q) (A, error) { return f(ctx, q) })
}
