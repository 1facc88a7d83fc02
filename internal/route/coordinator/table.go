// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Truncate removes all rows of a table, and all entries of the given indexes, which are the table's.
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
			done := &ending{told: make(chan struct{}), target: *t}
			all := partition.Truncation{Indexes: indexes, Attempt: a}
			if err := t.member.Truncate(ctx, partition.ExtentOf(p), all, done); err != nil {
				return 0, err
			}
			if _, err := done.wait(ctx); err != nil {
				return 0, err
			}
			if here, ok := t.member.(applied); ok {
				return here.Applied(), nil
			}
			return done.index, nil
		},
	}
	to, err := c.everywhere(ctx, table, tc)
	if err != nil || c.cluster.Acknowledged == nil {
		return err
	}
	// A replica that its node reads alone may be half a second behind. Writes may be missed for as long, but where rows
	// are removed to be gone, clients rely on it that nobody finds them any more.
	c.cluster.Acknowledged(ctx, to)
	return nil
}

// applied is a replica here; Applied is the index of the last entry that its readers see.
type applied interface{ Applied() uint64 }

// Require has all partitions of a table refuse mutations that were planned for a schema older than revision, with
// ErrStaleSchema. When it returns, all that they had accepted before is applied. It takes no longer than limit.
func (c *Coordinator) Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error {
	ctx, cancel := c.sched.WithTimeout(ctx, limit)
	defer cancel()
	_, err := c.everywhere(ctx, table, &tableCommand{
		what: "Requiring a schema of", level: dberr.Quorum, limit: limit,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			return 0, t.member.Require(ctx, partition.ExtentOf(p), revision)
		},
	})
	return err
}

// Newest returns a stamp, in microseconds, that is not below any which the partitions of a table have given before the
// call. It waits for leaders no longer than limit.
func (c *Coordinator) Newest(ctx context.Context, table uint32, limit time.Duration) (newest int64, err error) {
	ctx, cancel := c.sched.WithTimeout(ctx, limit)
	defer cancel()
	stamps, err := c.everywhere(ctx, table, &tableCommand{
		what: "Asking for the last stamps of", level: dberr.Quorum, limit: limit,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			stamp, err := t.member.Last(ctx, partition.ExtentOf(p), share.Claimant{})
			return uint64(stamp), err
		},
	})
	for _, stamp := range stamps {
		newest = max(newest, int64(stamp))
	}
	return newest, err
}

// tableCommand is something to be done at the leader of every partition of a table. A leader refuses it unless the
// partition is what the command was planned for.
type tableCommand struct {
	what  string
	level dberr.Consistency
	limit time.Duration
	// once says that the command must not be applied again when its caller has had the answer, by an attempt that was
	// late: at each partition it has an ID.
	once bool
	// do returns the index of the entry that it led to, if any, or a number that the caller of everywhere wants. It is
	// called again when an attempt has not said how it ended. attempt has the ID of the command; it is nil without
	// once, and below feature.TruncationIDs.
	do func(ctx context.Context, t *target, p *topology.Partition, attempt *command.Mutation) (index uint64, err error)
}

// errChanged says that a partition is not any more what the map said when something was planned for the whole of it.
var errChanged = errors.New("the partition has changed")

// partitionsAtOnce is at how many partitions of a table a command is carried out at a time.
const partitionsAtOnce = 8

// everywhere carries out a command at every partition of a table and returns the indexes of its entries. The partitions
// of one map tile the table, and each refuses the command unless it is what that map says. When one does, the command
// begins anew with a newer map, so no row is missed (O1) and clients see nothing of it (O2).
func (c *Coordinator) everywhere(ctx context.Context, table uint32, tc *tableCommand) (map[topology.PartitionID]uint64,
	error) {
	again := c.errand(tc.level, tc.limit)
	for {
		v := c.view.Load()
		all := v.snapshot.Partitions(table)
		if len(all) == 0 {
			return nil, ErrUnknownTable
		}
		ends := make([]uint64, len(all))
		err := inParallel(c.sched, partitionsAtOnce, len(all), func(i int) (err error) {
			ends[i], err = c.carry(ctx, all[i], tc)
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
		if waited := again.wait(ctx, new(target), v); waited != nil {
			return nil, errors.Join(err, waited)
		}
	}
}

// carry carries a command out at one partition. It gives up with errChanged when the map has another one in its place.
func (c *Coordinator) carry(ctx context.Context, p *topology.Partition, tc *tableCommand) (index uint64, err error) {
	e := c.errand(tc.level, tc.limit)
	same := func(v *view) *topology.Partition {
		if now := v.snapshot.Partition(p.ID); now != nil && now.Epoch == p.Epoch {
			return now
		}
		return nil
	}
	var id command.DedupeID
	if tc.once && c.Topology().Level() >= feature.TruncationIDs {
		e.memory = c.cluster.memory() // before the ID: what has it was not applied before
		id = c.cluster.nextID()
	}
	err = e.run(ctx, tc.what, same, func(ctx context.Context, t *target, p *topology.Partition) (err error) {
		var attempt *command.Mutation
		if id != (command.DedupeID{}) {
			attempt = &command.Mutation{Table: p.Table, Dedupe: id}
			e.attests(attempt, t)
		}
		index, err = tc.do(ctx, t, p, attempt)
		return err
	})
	if errors.Is(err, ErrUnknownTable) {
		err = errChanged
	}
	return index, err
}
