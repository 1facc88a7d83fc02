// SPDX-License-Identifier: Apache-2.0

// Package clusterquery queries all nodes of a cluster about a subject, such as their sessions, and handles the queries
// of other nodes. Client sends queries, and Handlers responds to them.
//
// A query is best effort: nodes that are down, busy, or run a version without the subject are reported as silent.
package clusterquery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// concurrency bounds the number of parallel queries of one call.
const concurrency = 8

// Client queries the other nodes of a cluster. A nil Client belongs to a standalone node, which has no other nodes.
// Its methods are safe for concurrent use.
type Client struct {
	self     topology.NodeID
	metadata *meta.Keeper
	peers    *peers.Peers
}

// NewClient returns the client of a cluster node.
func NewClient(self topology.NodeID, metadata *meta.Keeper, p *peers.Peers) *Client {
	return &Client{self, metadata, p}
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

// Alive reports whether a node is alive. This node is.
func (c *Client) Alive(node topology.NodeID) bool { return node == c.self || c.peers.Alive(node) }

// Query queries one other node (see peers.Peers.Query).
func (c *Client) Query(ctx context.Context, node topology.NodeID, subject string, question []byte) ([]byte, error) {
	if c == nil {
		return nil, fmt.Errorf("node %s does not exist", node.Short())
	}
	return c.peers.Query(ctx, node, subject, question)
}

// Others queries the other nodes about a subject, with a timeout for each. It calls take with one response at a time.
// It returns the names of nodes that are down, busy, or run a version without the subject.
func (c *Client) Others(ctx context.Context, subject string, question []byte, timeout time.Duration,
	take func(response []byte)) (silent []string) {
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
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			response, err := c.peers.Query(ctx, node, subject, question)
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

// All queries all nodes, this one first with local, about a subject whose responses are a T in JSON. silent holds the
// names of nodes that did not respond.
func All[T any](ctx context.Context, c *Client, subject string, question []byte, timeout time.Duration,
	local func(ctx context.Context, question []byte) (T, error)) (responses []T, silent []string, err error) {
	own, err := local(ctx, question)
	if err != nil {
		return nil, nil, err
	}
	responses, silent = []T{own}, []string{}
	malformed := 0
	silent = append(silent, c.Others(ctx, subject, question, timeout, func(response []byte) {
		var r T
		if json.Unmarshal(response, &r) != nil {
			malformed++
			return
		}
		responses = append(responses, r)
	})...)
	if malformed > 0 {
		silent = append(silent, fmt.Sprintf("%d nodes with another version", malformed))
	}
	return responses, silent, nil
}
