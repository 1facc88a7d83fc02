// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// batchVersion is the version of the records of batches written here.
const batchVersion = 1

// appendBatch encodes the mutations of a batch, whose operands carry the stamp.
func appendBatch(dst []byte, stamp int64, ms []command.Mutation) []byte {
	dst = binary.AppendVarint(append(dst, batchVersion), stamp)
	dst = binary.AppendUvarint(dst, uint64(len(ms)))
	for i := range ms {
		m := command.AppendMutation(nil, &ms[i])
		dst = append(binary.AppendUvarint(dst, uint64(len(m))), m...)
	}
	return dst
}

// decodeBatch reads what appendBatch wrote. Mutations are views over src.
func decodeBatch(src []byte) (stamp int64, ms []command.Mutation, err error) {
	malformed := fmt.Errorf("record of a batch: %w", command.ErrMalformed)
	if len(src) == 0 || src[0] != batchVersion {
		return 0, nil, malformed
	}
	src = src[1:]
	stamp, n := binary.Varint(src)
	if n <= 0 {
		return 0, nil, malformed
	}
	src = src[n:]
	count, n := binary.Uvarint(src)
	if n <= 0 || count > uint64(len(src)) {
		return 0, nil, malformed
	}
	src = src[n:]
	for range count {
		size, n := binary.Uvarint(src)
		if n <= 0 || size > uint64(len(src)-n) {
			return 0, nil, malformed
		}
		var m command.Mutation
		if err := command.DecodeMutation(&m, src[n:n+int(size)]); err != nil {
			return 0, nil, err
		}
		ms, src = append(ms, m), src[n+int(size):]
	}
	if len(src) > 0 {
		return 0, nil, malformed
	}
	return stamp, ms, nil
}

// The bounds of one ReplayBatches.
const (
	replayedMax      = 256
	replayedBytesMax = 16 << 20
)

// ReplayBatches finishes the atomic batches whose coordinators did not: those recorded in partitions that a replica on this node leads, and whose stamp is
// older than olderThan, which has to be well above Options.WriteTimeout. It does some of them and returns how many; call it every few seconds. An
// error leaves the record for the next time.
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
		left := &leftBatches{before: time.Now().Add(-olderThan).UnixMicro(), span: p.Span}
		q := &command.Read{Table: p.Table, Range: p.Span.Tokens(), Now: time.Now().Unix(), Level: dberr.Quorum, Epoch: p.Epoch}
		if err := here.Read(ctx, q, left); err != nil {
			failures = append(failures, err)
			continue
		}
		for i := range left.records {
			if err := c.replay(ctx, &left.records[i]); err != nil {
				failures = append(failures, err)
				continue
			}
			done++
			c.stats.replayed.Add(1)
		}
	}
	return done, errors.Join(failures...)
}

// leftBatch is a record that somebody has left behind.
type leftBatch struct {
	id      [16]byte
	stamp   int64
	encoded []byte
}

// leftBatches is a visitor that collects them.
type leftBatches struct {
	before  int64
	span    topology.Span
	records []leftBatch
	key     []byte
	bytes   int
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
		if v := r.Cells[i]; v.Timestamp < l.before {
			l.records = append(l.records, leftBatch{id: [16]byte(l.key), stamp: v.Timestamp, encoded: bytes.Clone(v.Value)})
			l.bytes += len(v.Value)
		}
	}
	if len(l.records) >= replayedMax || l.bytes >= replayedBytesMax {
		return command.Stop, nil
	}
	return command.More, nil
}

// replay writes all of a record and removes it. Who wrote it may have done some or all of that: it changes nothing.
func (c *Coordinator) replay(ctx context.Context, l *leftBatch) error {
	stamp, ms, err := decodeBatch(l.encoded)
	if err != nil {
		return fmt.Errorf("replay batch %x: %w", l.id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.WriteTimeout)
	defer cancel()
	err = inParallel(8, len(ms), func(i int) error {
		e := c.errand(dberr.Quorum, c.opts.WriteTimeout)
		return e.putAny(ctx, &ms[i])
	})
	if err != nil {
		return fmt.Errorf("replay batch %x: %w", l.id, err)
	}
	return c.removeBatch(nil, l.id, stamp)
}
