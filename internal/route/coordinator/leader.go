// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Require makes all partitions of a table refuse mutations that were planned for an older revision of it; see
// partition.Replica.Require. limit bounds the wait for each of them.
func (c *Coordinator) Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error {
	for _, p := range c.Topology().Partitions(table) {
		err := c.AtLeader(ctx, p, limit, func(ctx context.Context, m Member) error { return m.Require(ctx, revision) })
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.ID, err)
		}
	}
	return nil
}

// Change has records changed by the leader of the meta partition p, which need not be in the map yet, and returns their
// new version. It may be asked twice: the second time is a conflict.
func (c *Coordinator) Change(ctx context.Context, p *topology.Partition, records command.Records, limit time.Duration) (version uint64, err error) {
	err = c.AtLeader(ctx, p, limit, func(ctx context.Context, m Member) error {
		version, err = m.Change(ctx, records)
		return err
	})
	return version, err
}
