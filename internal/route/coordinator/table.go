// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Truncate removes all rows of a table and all entries of the given indexes of the table.
func (c *Coordinator) Truncate(ctx context.Context, table uint32, indexes ...uint32) error {
	if err := c.admit(); err != nil {
		return err
	}
	defer c.leave()
	ctx, cancel := c.sched.WithTimeout(ctx, c.opts.TruncateTimeout)
	defer cancel()
	if err := c.truncate(ctx, table, indexes); err != nil {
		if errors.Is(err, ErrUnknownTable) {
			return err
		}
		return &dberr.Truncate{Message: "Error during truncate: " + err.Error()}
	}
	return nil
}

func (c *Coordinator) truncate(ctx context.Context, table uint32, indexes []uint32) error {
	if len(c.Topology().Partitions(table)) == 0 {
		return ErrUnknownTable
	}
	if err := c.finishBatches(ctx, table); err != nil {
		return err
	}
	tc := &tableCommand{
		what: "Truncating", level: dberr.All, limit: c.opts.TruncateTimeout, once: true,
		do: func(ctx context.Context, t *target, p *topology.Partition, a *command.Mutation) (index uint64, err error) {
			done := newWaiter(t)
			all := partition.Truncation{Indexes: indexes, Attempt: a}
			if err := t.member.Truncate(ctx, partition.ExtentOf(p), all, done); err != nil {
				return 0, err
			}
			o := done.wait(ctx)
			if o.Err != nil {
				return 0, o.Err
			}
			if here, ok := t.member.(applied); ok {
				return here.Applied(), nil
			}
			return o.Index, nil
		},
	}
	to, err := c.onAllPartitions(ctx, table, tc)
	if err != nil || c.cluster.Peers == nil {
		return err
	}
	// A replica that serves local reads may lag by half a second. A read may miss the writes of this period, but must
	// never return truncated rows.
	c.cluster.Peers.SendAcknowledged(ctx, to)
	return nil
}

// applied is the interface of local replicas. Applied returns the index of the last log entry that is visible to
// readers.
type applied interface{ Applied() uint64 }

// Require makes all partitions of a table reject mutations that were planned for a schema older than revision. The
// error is ErrStaleSchema. Before Require returns, all previously accepted mutations have been applied. Require returns
// an error if it takes longer than limit.
func (c *Coordinator) Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error {
	ctx, cancel := c.sched.WithTimeout(ctx, limit)
	defer cancel()
	_, err := c.onAllPartitions(ctx, table, &tableCommand{
		what: "Requesting the schema version of", level: dberr.Quorum, limit: limit,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			return 0, t.member.Require(ctx, partition.ExtentOf(p), revision)
		},
	})
	return err
}

// Newest returns a timestamp in microseconds that is not lower than any timestamp assigned by the table's partitions
// before the call. It waits for leaders for at most limit.
func (c *Coordinator) Newest(ctx context.Context, table uint32, limit time.Duration) (newest int64, err error) {
	ctx, cancel := c.sched.WithTimeout(ctx, limit)
	defer cancel()
	stamps, err := c.onAllPartitions(ctx, table, &tableCommand{
		what: "Requesting the last timestamps of", level: dberr.Quorum, limit: limit,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			stamp, err := t.member.Last(ctx, partition.ExtentOf(p), fairshare.Principal{})
			return uint64(stamp), err
		},
	})
	for _, stamp := range stamps {
		newest = max(newest, int64(stamp))
	}
	return newest, err
}

// tableCommand is a command for the leader of every partition of a table. A leader rejects the command if the partition
// has changed since the command was planned.
type tableCommand struct {
	what  string
	level dberr.Consistency
	limit time.Duration
	// If once is true, each partition applies the command at most once, so a delayed attempt is not applied after the
	// response. The command then has a separate ID for each partition.
	once bool
	// do runs the command on a partition. It returns the index of the resulting log entry or another number for the
	// caller of onAllPartitions. do is called again if the outcome of an attempt is unknown. attempt contains the ID of
	// the command. If once is false or the feature level is below feature.TruncationIDs, attempt is nil.
	do func(ctx context.Context, t *target, p *topology.Partition, attempt *command.Mutation) (index uint64, err error)
}

// errChanged is returned if a partition has changed since the command was planned.
var errChanged = errors.New("the partition has changed")

// partitionsAtOnce is the maximum number of partitions on which a command runs concurrently.
const partitionsAtOnce = 8

// onAllPartitions runs a command on every partition of a table. It returns the numbers that do has returned. A topology
// covers the whole table, and a partition that differs from the topology rejects the command. The command then starts
// again with a newer topology. The command therefore misses no row (O1), and clients do not notice the change (O2).
func (c *Coordinator) onAllPartitions(ctx context.Context, table uint32,
	tc *tableCommand) (map[topology.PartitionID]uint64, error) {
	again := c.newRequest(tc.level, tc.limit)
	for {
		v := c.view.Load()
		all := v.snapshot.Partitions(table)
		if len(all) == 0 {
			return nil, ErrUnknownTable
		}
		ends := make([]uint64, len(all))
		err := inParallel(c.sched, partitionsAtOnce, len(all), func(i int) (err error) {
			ends[i], err = c.onPartition(ctx, all[i], tc)
			return err
		})
		if err == nil {
			to := make(map[topology.PartitionID]uint64, len(all))
			for i, p := range all {
				to[p.ID] = ends[i]
			}
			return to, nil
		}
		if !errors.Is(err, errChanged) {
			return nil, err
		}
		if waited := again.waitToRetry(ctx, new(target), v); waited != nil {
			return nil, errors.Join(err, waited)
		}
	}
}

// onPartition runs a command on one partition. It returns errChanged if the topology no longer contains this version of
// the partition.
func (c *Coordinator) onPartition(ctx context.Context, p *topology.Partition, tc *tableCommand) (index uint64,
	err error) {
	e := c.newRequest(tc.level, tc.limit)
	same := func(v *view) *topology.Partition {
		if now := v.snapshot.Partition(p.ID); now != nil && now.Epoch == p.Epoch {
			return now
		}
		return nil
	}
	var id command.DedupeID
	if tc.once && c.Topology().Level() >= feature.TruncationIDs {
		// The epoch is read before the ID is created. Therefore, a replica at this epoch cannot have applied the ID
		// earlier.
		e.localEpoch = c.cluster.local.DedupeEpoch()
		id = c.cluster.nextID()
	}
	err = e.run(ctx, tc.what, same, func(ctx context.Context, t *target, p *topology.Partition) (err error) {
		var attempt *command.Mutation
		if id != (command.DedupeID{}) {
			attempt = &command.Mutation{Table: p.Table, Dedupe: id}
			e.setDedupe(attempt, t)
		}
		index, err = tc.do(ctx, t, p, attempt)
		return err
	})
	if errors.Is(err, ErrUnknownTable) {
		err = errChanged
	}
	return index, err
}
