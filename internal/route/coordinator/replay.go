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

// The bounds of one ReplayBatches.
const (
	replayedMax      = 256
	replayedBytesMax = 16 << 20
)

// ReplayBatches finishes the atomic batches whose coordinators did not: those recorded in partitions that a replica on
// this node leads, and whose stamp is older than olderThan, which has to be well above Options.WriteTimeout. It does
// some of them and returns how many; call it every few seconds. An error leaves the record for the next time.
func (c *Coordinator) ReplayBatches(ctx context.Context, olderThan time.Duration) (int, error) {
	if c.cluster == nil || c.cluster.Batches == nil {
		return 0, nil
	}
	done := 0
	var failures []error
	for _, p := range c.Topology().Partitions(c.cluster.Batches.Table) {
		here := c.cluster.here(p.ID)
		if here == nil || !here.Leading() {
			continue
		}
		left := &leftBatches{before: c.opts.Now().Add(-olderThan).UnixMicro(), span: p.Span}
		q := &command.Read{Table: p.Table, Range: p.Span.Tokens(), Now: c.opts.Now().Unix(), Level: dberr.Quorum,
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

// leftBatches is a visitor that collects them, those of one table only if that is not 0. full says that there may be
// more.
type leftBatches struct {
	before  int64
	span    topology.Span
	table   uint32
	records []*record
	key     []byte
	bytes   int
	full    bool
}

// Partition implements command.Visitor.
func (l *leftBatches) Partition(t token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if len(key) != 16 || !l.span.Contains(t, key) {
		return command.NextPartition, nil
	}
	l.key = append(l.key[:0], key...)
	return command.More, nil
}

// Row implements command.Visitor.
func (l *leftBatches) Row(_ []byte, r *row.Row) (command.Step, error) {
	for i := range r.Cells {
		v := r.Cells[i]
		if v.Timestamp >= l.before {
			continue
		}
		left, err := decodeRecord([16]byte(l.key), bytes.Clone(v.Value))
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

// finishBatches finishes the batches under way that write to a table, however young they are. A batch that has
// succeeded may still be recorded, and be written again should its coordinator stop: that must not be after the table
// was truncated.
func (c *Coordinator) finishBatches(ctx context.Context, table uint32) error {
	log := c.cluster.Batches
	if log == nil || table == log.Table || len(c.Topology().Partitions(log.Table)) == 0 {
		return nil
	}
	for more := true; more; {
		left, err := c.leftAnywhere(ctx, table)
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

// leftAnywhere returns the records of batches under way that write to a table, some twice if the map has changed
// meanwhile.
func (c *Coordinator) leftAnywhere(ctx context.Context, table uint32) ([]*leftBatches, error) {
	var mu sync.Mutex
	var all []*leftBatches
	_, err := c.everywhere(ctx, c.cluster.Batches.Table, &tableCommand{
		what: "Reading unfinished batches from", level: dberr.Quorum, limit: c.opts.TruncateTimeout,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			left := &leftBatches{before: math.MaxInt64, span: p.Span, table: table}
			q := &command.Read{
				Table: p.Table, Range: p.Span.Tokens(), Now: c.opts.Now().Unix(), Level: dberr.Quorum, Epoch: p.Epoch,
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

// replay carries out a record and removes it. Whoever wrote it may have done some or all of that: it changes nothing.
func (c *Coordinator) replay(ctx context.Context, r *record) error {
	ctx, cancel := c.sched.WithTimeout(ctx, c.opts.WriteTimeout)
	defer cancel()
	by := byLeader
	if c.abandoned(r) {
		by = byBatch
	}
	if err := c.carryOut(ctx, r, c.errand(dberr.Quorum, c.opts.WriteTimeout), by, nil); err != nil {
		return fmt.Errorf("replay batch %x: %w", r.id, err)
	}
	return c.removeBatch(nil, r)
}
