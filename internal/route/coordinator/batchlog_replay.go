// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the limits of one call of ReplayBatches.
const (
	replayedMax      = 256
	replayedBytesMax = 16 << 20
)

// ReplayBatches finishes atomic batches that their coordinators have not finished. It processes a limited number of
// entries that are older than olderThan and are in partitions that this node leads. It returns the number of processed
// entries. olderThan must be much longer than Options.WriteTimeout. If a batch fails, the entry of the batch remains
// for the next call. The caller should call ReplayBatches every few seconds.
func (c *Coordinator) ReplayBatches(ctx context.Context, olderThan time.Duration) (int, error) {
	if c.cluster == nil || c.cluster.Batches == nil {
		return 0, nil
	}
	done := 0
	var failures []error
	for _, p := range c.Topology().Partitions(c.cluster.Batches.Table()) {
		here := c.cluster.local.Replica(p.ID)
		if here == nil || !here.Leading() {
			continue
		}
		left := &pendingBatches{before: c.opts.Clock.Wall().Add(-olderThan).UnixMicro(), span: p.Span}
		q := &command.Read{Table: p.Table, Range: p.Span.Tokens(), Now: c.opts.Clock.Wall().Unix(), Level: dberr.Quorum,
			Epoch: p.Epoch}
		if err := here.Read(ctx, q, left); err != nil {
			failures = append(failures, err)
			continue
		}
		for i := range left.records {
			if err := c.replay(ctx, left.records[i]); err != nil {
				failures = append(failures, err)
				continue
			}
			done++
			c.stats.replayed.Add(1)
		}
	}
	return done, errors.Join(failures...)
}

// pendingBatches is a visitor that collects batch log entries. If table is not 0, it collects only the entries of
// batches that write to table. full is true if more entries may exist.
type pendingBatches struct {
	before  int64
	span    topology.Span
	table   uint32
	records []*batchlogEntry
	key     []byte
	bytes   int
	full    bool
}

// Partition implements command.Visitor.
func (l *pendingBatches) Partition(t token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if len(key) != 16 || !l.span.Contains(t, key) {
		return command.NextPartition, nil
	}
	l.key = append(l.key[:0], key...)
	return command.More, nil
}

// Row implements command.Visitor.
func (l *pendingBatches) Row(_ []byte, r *row.Row) (command.Step, error) {
	for i := range r.Cells {
		v := r.Cells[i]
		if v.Timestamp >= l.before {
			continue
		}
		left, err := decodeBatchlogEntry([16]byte(l.key), bytes.Clone(v.Value))
		if err != nil {
			return command.Stop, fmt.Errorf("batch %x: %w", l.key, err)
		}
		if l.table == 0 || left.writesTo(l.table) {
			l.records = append(l.records, left)
			l.bytes += len(v.Value)
		}
	}
	if l.full = len(l.records) >= replayedMax || l.bytes >= replayedBytesMax; l.full {
		return command.Stop, nil
	}
	return command.More, nil
}

// finishBatches finishes all batches in progress that write to a table, regardless of their age. The batch log may
// contain entries of completed batches. If the coordinator stopped, these entries would be replayed. After a TRUNCATE,
// a replay would restore removed rows.
func (c *Coordinator) finishBatches(ctx context.Context, table uint32) error {
	log := c.cluster.Batches
	if log == nil || table == log.Table() || len(c.Topology().Partitions(log.Table())) == 0 {
		return nil
	}
	for more := true; more; {
		left, err := c.pendingEverywhere(ctx, table)
		if err != nil {
			return err
		}
		more = false
		for _, l := range left {
			for i := range l.records {
				if err := c.replay(ctx, l.records[i]); err != nil {
					return err
				}
			}
			more = more || l.full
		}
	}
	return nil
}

// pendingEverywhere returns the batch log entries of batches that write to a table. If the topology changes, it may
// return an entry twice.
func (c *Coordinator) pendingEverywhere(ctx context.Context, table uint32) ([]*pendingBatches, error) {
	var mu sync.Mutex
	var all []*pendingBatches
	_, err := c.onAllPartitions(ctx, c.cluster.Batches.Table(), &tableCommand{
		what: "Reading unfinished batches from", level: dberr.Quorum, limit: c.opts.TruncateTimeout,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			left := &pendingBatches{before: math.MaxInt64, span: p.Span, table: table}
			q := &command.Read{
				Table: p.Table, Range: p.Span.Tokens(), Now: c.opts.Clock.Wall().Unix(), Level: dberr.Quorum,
				Epoch: p.Epoch,
			}
			if err := t.member.Read(ctx, q, left); err != nil {
				return 0, err
			}
			mu.Lock()
			all = append(all, left)
			mu.Unlock()
			return 0, nil
		},
	})
	return all, err
}

// replay applies a batch log entry and then removes the entry. It skips parts that have already been applied.
func (c *Coordinator) replay(ctx context.Context, r *batchlogEntry) error {
	ctx, cancel := c.sched.WithTimeout(ctx, c.opts.WriteTimeout)
	defer cancel()
	by := leaderStamp
	if c.opts.abandoned(r) {
		by = batchStamp
	}
	if err := c.applyParts(ctx, r, c.newRequest(dberr.Quorum, c.opts.WriteTimeout), by, nil); err != nil {
		return fmt.Errorf("replay batch %x: %w", r.id, err)
	}
	return c.removeBatch(nil, r)
}
