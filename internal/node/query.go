// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// queryConcurrency bounds the number of parallel queries.
const queryConcurrency = 8

// liveNodes returns the other live nodes.
func (c *cluster) liveNodes() (out []topology.NodeID) {
	for _, node := range c.n.metadata.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && c.peers.Alive(node.ID) {
			out = append(out, node.ID)
		}
	}
	return out
}

// queryOthers queries the other nodes about a subject (see peers.Query) with a timeout for each. It calls take with one
// response at a time. It returns the names of nodes that are down, busy, or run a version without the subject.
func (c *cluster) queryOthers(ctx context.Context, subject string, question []byte, wait time.Duration,
	take func(answer []byte)) (silent []string) {
	alive := c.liveNodes()
	for _, node := range c.n.metadata.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && !slices.Contains(alive, node.ID) {
			silent = append(silent, c.nodeName(node.ID))
		}
	}
	places := make(chan struct{}, queryConcurrency)
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, node := range alive {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			answer, err := c.peers.Query(ctx, node, subject, question)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, c.nodeName(node))
				return
			}
			take(answer)
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return silent
}

// nodeName returns the name of a node for operators.
func (c *cluster) nodeName(node topology.NodeID) string {
	if n := c.n.metadata.State().Node(node); n != nil {
		return fmt.Sprintf("%s (%s)", node.Short(), n.Internal)
	}
	return node.Short()
}

// queryAll queries all nodes, this one first, about a subject whose responses are a T in JSON. silent holds the names
// of nodes that did not respond.
func queryAll[T any](ctx context.Context, n *Node, subject string, question []byte, wait time.Duration,
	here func(ctx context.Context, question []byte) (T, error)) (answers []T, silent []string, err error) {
	own, err := here(ctx, question)
	if err != nil {
		return nil, nil, err
	}
	answers, silent = []T{own}, []string{}
	if c := n.cluster; c != nil {
		malformed := 0
		silent = append(silent, c.queryOthers(ctx, subject, question, wait, func(answer []byte) {
			var a T
			if json.Unmarshal(answer, &a) != nil {
				malformed++
				return
			}
			answers = append(answers, a)
		})...)
		if malformed > 0 {
			silent = append(silent, fmt.Sprintf("%d nodes with another version", malformed))
		}
	}
	return answers, silent, nil
}

// queryHandler returns the handler of a subject for queryAll.
func queryHandler[T any](c *cluster, here func(ctx context.Context, question []byte) (T, error)) func(context.Context,
	[]byte) (
	[]byte, error) {
	return func(ctx context.Context, question []byte) ([]byte, error) {
		select {
		case <-c.started:
		default:
			return nil, errors.New("the node is starting")
		}
		a, err := here(ctx, question)
		if err != nil {
			return nil, err
		}
		return json.Marshal(a)
	}
}
