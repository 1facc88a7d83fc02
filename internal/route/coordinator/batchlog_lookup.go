// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// recordedMax is the maximum number of batches that RecordedBatches returns.
const recordedMax = 1 << 16

var errManyBatches = fmt.Errorf("the batchlog contains more than %d batches", recordedMax)

// Recorded reports whether an atomic batch is in the batch log.
func (c *Coordinator) Recorded(ctx context.Context, batch [16]byte) (bool, error) {
	if c.cluster.Batches == nil {
		return false, nil
	}
	m := c.cluster.Batches.Remove(batch, 0)
	e := c.newRequest(dberr.Quorum, c.opts.WriteTimeout)
	ctx, cancel := c.sched.WithDeadline(ctx, e.deadline)
	defer cancel()
	var found *batchIDs
	err := e.run(ctx, "Reading a batchlog entry from", locator(&m),
		func(ctx context.Context, t *target, p *topology.Partition) error {
			found = &batchIDs{span: p.Span}
			return t.member.Read(ctx, &command.Read{Table: m.Table, Token: m.Token, Key: m.Key, Level: dberr.Quorum,
				Now: c.opts.Clock.Wall().Unix(), Epoch: p.Epoch}, found)
		})
	return err == nil && len(found.ids) > 0, err
}

// RecordedBatches returns the IDs of all batches in the batch log. The result includes every batch that remains in the
// log for the whole duration of the call.
func (c *Coordinator) RecordedBatches(ctx context.Context) (map[[16]byte]bool, error) {
	all := map[[16]byte]bool{}
	if c.cluster.Batches == nil {
		return all, nil
	}
	var mu sync.Mutex
	_, err := c.onAllPartitions(ctx, c.cluster.Batches.Table(), &tableCommand{
		what: "Listing the batchlog entries of", level: dberr.Quorum, limit: c.opts.TruncateTimeout,
		do: func(ctx context.Context, t *target, p *topology.Partition, _ *command.Mutation) (uint64, error) {
			found := &batchIDs{span: p.Span}
			err := t.member.Read(ctx, &command.Read{Table: p.Table, Range: p.Span.Tokens(), Level: dberr.Quorum,
				Now: c.opts.Clock.Wall().Unix(), Epoch: p.Epoch}, found)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range found.ids {
				all[id] = true
			}
			if err == nil && (found.full || len(all) > recordedMax) {
				err = errManyBatches
			}
			return 0, err
		},
	})
	if errors.Is(err, ErrUnknownTable) {
		err = nil
	}
	return all, err
}

// batchIDs is a visitor that collects batch IDs.
type batchIDs struct {
	span topology.Span
	key  [16]byte
	ids  [][16]byte
	full bool
}

// Partition implements command.Visitor.
func (b *batchIDs) Partition(t token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if len(key) != len(b.key) || !b.span.Contains(t, key) {
		return command.NextPartition, nil
	}
	b.key = [16]byte(key)
	return command.More, nil
}

// Row implements command.Visitor.
func (b *batchIDs) Row([]byte, *row.Row) (command.Step, error) {
	if b.full = len(b.ids) >= recordedMax; b.full {
		return command.Stop, nil
	}
	b.ids = append(b.ids, b.key)
	return command.More, nil
}
