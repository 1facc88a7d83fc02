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

// queryConcurrency bounds the nodes that are asked at a time.
const queryConcurrency = 8

// liveNodes are the other nodes that answer.
func (c *cluster) liveNodes() (out []topology.NodeID) {
	for _, node := range c.n.metadata.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && c.peers.Alive(node.ID) {
			out = append(out, node.ID)
		}
	}
	return out
}

// queryOthers asks the other nodes about a subject (see peers.Ask), and waits for each of them so long. take is called
// with one answer at a time. A node that is down or busy, or of an older build, is left out: those are silent, by name.
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

// nodeName is a node as operators are told of it.
func (c *cluster) nodeName(node topology.NodeID) string {
	if n := c.n.metadata.State().Node(node); n != nil {
		return fmt.Sprintf("%s (%s)", node.Short(), n.Internal)
	}
	return node.Short()
}

// queryAll asks all nodes, this one first, about a subject of which each tells a T in JSON; the silent ones are by
// name.
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
			silent = append(silent, fmt.Sprintf("%d nodes of another build", malformed))
		}
	}
	return answers, silent, nil
}

// queryHandler is what answers another node that asks about a subject with askAll.
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
