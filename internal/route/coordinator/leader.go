// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Change has records changed by the leader of the meta partition p, which need not be in the map yet, and returns their
// new version. It may be asked twice: the second time is a conflict.
func (c *Coordinator) Change(ctx context.Context, p *topology.Partition, records command.Records,
	limit time.Duration) (version uint64, err error) {
	err = c.AtLeader(ctx, p, limit, func(ctx context.Context, m Member) error {
		version, err = m.Change(ctx, records)
		return err
	})
	return version, err
}

// AtLeader has do carried out at the leader of a partition, and asks again, elsewhere if need be, until limit has
// passed. do waits for its outcome; it may be called again after an outcome that is not known (partition.ErrUncertain,
// transport.ErrLost). The error is do's last one, or *dberr.Unavailable. p need not be in the map.
func (c *Coordinator) AtLeader(ctx context.Context, p *topology.Partition, limit time.Duration,
	do func(ctx context.Context, m Member) error) error {
	e := c.errand(dberr.Quorum, limit)
	return e.run(ctx, "Asking", func(*view) *topology.Partition {
		return p
	}, func(ctx context.Context, t *target, _ *topology.Partition) error {
		return do(ctx, t.member)
	})
}
