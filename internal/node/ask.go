// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// askAtOnce bounds the nodes that are asked at a time.
const askAtOnce = 8

// others are the other nodes that answer.
func (c *cluster) others() (out []topology.NodeID) {
	for _, node := range c.n.records.State().Nodes {
		if node.ID != c.self && node.State != meta.Left && c.peers.Alive(node.ID) {
			out = append(out, node.ID)
		}
	}
	return out
}

// askOthers asks the other nodes about a subject (see peers.Ask), and waits for each of them so long. take is called
// with one answer at a time. A node that is busy, or of an older build, is left out.
func (c *cluster) askOthers(ctx context.Context, subject string, question []byte, wait time.Duration,
	take func(answer []byte)) {
	places := make(chan struct{}, askAtOnce)
	var asking sync.WaitGroup
	var mu sync.Mutex
	for _, node := range c.others() {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			answer, err := c.peers.Ask(ctx, node, subject, question)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			take(answer)
		})
	}
	asking.Wait()
}
