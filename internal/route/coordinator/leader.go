// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Change requests a change of metadata records from the leader of meta partition p and returns the new version. The
// topology need not contain p. If the change is sent twice, the second attempt fails with a conflict.
func (c *Coordinator) Change(ctx context.Context, p *topology.Partition, records command.Records,
	limit time.Duration) (version uint64, err error) {
	err = c.AtLeader(ctx, p, limit, func(ctx context.Context, m Member) error {
		version, err = m.Change(ctx, records)
		return err
	})
	return version, err
}

// AtLeader calls do with the leader of a partition. It retries until limit has passed, on other nodes if necessary. do
// must block until the outcome is known. AtLeader may call do again after an unknown outcome (partition.ErrUncertain,
// transport.ErrLost). AtLeader returns the last error of do or *dberr.Unavailable. The topology need not contain p.
func (c *Coordinator) AtLeader(ctx context.Context, p *topology.Partition, limit time.Duration,
	do func(ctx context.Context, m Member) error) error {
	e := c.newRequest(dberr.Quorum, limit)
	return e.run(ctx, "Sending a request to", func(*view) *topology.Partition {
		return p
	}, func(ctx context.Context, t *target, _ *topology.Partition) error {
		return do(ctx, t.member)
	})
}
