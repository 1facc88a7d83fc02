// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// turnWait bounds the wait for a turn: then the change is tried without one.
const turnWait = 2 * time.Second

// Enter implements peers.Host.
func (c *cluster) Enter(ctx context.Context) (version uint64, err error) {
	return c.n.records.Enter(ctx)
}

// line asks the node that leads the meta partition for the turn to change the records.
func (c *cluster) line(ctx context.Context) (version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	r := c.n.host.Replica(topology.MetaPartition)
	if r == nil {
		return 0, partition.ErrClosed
	}
	if r.Leading() {
		return c.Enter(ctx)
	}
	leader, ok := r.Leader()
	if !ok || leader == c.self {
		return 0, &partition.NotLeader{Partition: topology.MetaPartition}
	}
	return peers.Turn(ctx, c.transport, leader)
}
