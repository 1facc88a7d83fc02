// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// restoreMutationBytes is the size, in bytes, above which the rows of a logical partition are divided into several
	// mutations.
	restoreMutationBytes = 256 << 10
	// restoreConcurrency is the maximum number of mutations of a file that are in flight.
	restoreConcurrency = 32
	// restoreRetryLimit is the maximum time for which a mutation is retried. restoreRetryPause is the pause between
	// two attempts.
	restoreRetryLimit = 30 * time.Second
	restoreRetryPause = 50 * time.Millisecond
)

// WriteRows writes the rows of a file with their original timestamps.
func (r *Restorer) WriteRows(ctx context.Context, table uint32, plain []byte) error {
	w := rowWriter{r: r, slots: make(chan struct{}, restoreConcurrency), failed: make(chan error, 1)}
	var m command.Mutation
	size := 0
	level := r.Level()
	err := eachRow(table, plain, func(p *parsedRecord) error {
		if err := writable(level, p.op.Operand); err != nil {
			return err
		}
		if m.Key != nil && (!bytes.Equal(m.Key, p.Key) || m.Token != p.Token || size >= restoreMutationBytes) {
			if err := w.write(ctx, m); err != nil {
				return err
			}
			m, size = command.Mutation{}, 0
		}
		if m.Key == nil {
			m = command.Mutation{Table: table, Token: p.Token, Low: p.Low, Key: append([]byte{}, p.Key...)}
		}
		m.Ops = append(m.Ops, p.op)
		size += len(p.op.Operand) + len(p.op.Clustering)
		return nil
	})
	if err == nil && m.Key != nil {
		err = w.write(ctx, m)
	}
	if failed := w.wait(); failed != nil {
		return failed
	}
	return err
}

// rowWriter writes mutations concurrently. The number of mutations in flight is limited.
type rowWriter struct {
	r      *Restorer
	slots  chan struct{}
	failed chan error
}

func (w *rowWriter) write(ctx context.Context, m command.Mutation) error {
	select {
	case err := <-w.failed:
		w.failed <- err
		return err
	case w.slots <- struct{}{}:
	}
	go func() {
		defer func() { <-w.slots }()
		if err := w.r.writeWithIndexes(ctx, &m); err != nil {
			select {
			case w.failed <- err:
			default: // another error occurred first
			}
		}
	}()
	return nil
}

// wait waits until all mutations have been written and returns the first error.
func (w *rowWriter) wait() error {
	for range cap(w.slots) {
		w.slots <- struct{}{}
	}
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}

// parsedRecord is a record of a backup in the form of an operation.
type parsedRecord struct {
	keys.Parts
	op command.Op
}

// eachRow calls fn for the rows and deletions in a file. It skips dedupe records and the change log, which only the
// original cluster can use.
func eachRow(table uint32, plain []byte, fn func(p *parsedRecord) error) error {
	whole := binary.BigEndian.AppendUint32(nil, table)
	return archive.EachRecord(plain, func(key, value []byte) error {
		whole = append(whole[:4], key...)
		parts, ok := keys.Parse(slices.Clone(whole))
		if !ok {
			return fmt.Errorf("key %x: %w", key, archive.ErrDamaged)
		}
		p := parsedRecord{Parts: parts}
		switch parts.Kind {
		case keys.Deletions, keys.Range, keys.Static:
			p.op = command.Op{Kind: command.OpHeader, Operand: slices.Clone(value)}
		case keys.Row:
			p.op = command.Op{Kind: command.OpRow, Clustering: parts.Rest, Operand: slices.Clone(value)}
		default:
			return nil
		}
		return fn(&p)
	})
}

// writable returns an error if the format of a row requires a higher feature level.
func writable(level feature.Level, operand []byte) error {
	if row.HasLifetime(operand) && level < feature.Lifetimes {
		return fmt.Errorf("cannot restore items with lifetimes: they require feature level %d, but the cluster has %d. "+
			"Raise the level with \"ilion upgrade\" and repeat the restore", feature.Lifetimes, level)
	}
	return nil
}

// writeWithIndexes applies a mutation with the entries of the table's current indexes. A client may create an index
// during a restore. writeWithIndexes retries the mutation if a retry may succeed. A second application of the mutation
// has no further effect.
func (r *Restorer) writeWithIndexes(ctx context.Context, m *command.Mutation) error {
	ctx, cancel := context.WithTimeout(ctx, restoreRetryLimit)
	defer cancel()
	for {
		planned := command.Conditional{Mutation: *m}
		if err := write.Replan(r.Catalog.Snapshot(), &planned); err != nil {
			return fmt.Errorf("cannot plan restored rows: %w", err)
		}
		done := make(command.OutcomeChannel, 1)
		r.Coordinator.Write(ctx, []command.Mutation{planned.Mutation}, coordinator.WriteOptions{Level: dberr.Quorum},
			done)
		err := (<-done).Err
		var invalid *dberr.Invalid
		if err == nil || errors.As(err, &invalid) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot write restored rows: %w", err)
		case <-time.After(restoreRetryPause):
		}
	}
}

// restoreBatches finishes the batches in a file of the batchlog.
func (r *Restorer) restoreBatches(ctx context.Context, o *archive.BatchReplay, plain []byte) error {
	if o == nil {
		return errors.New("the request does not contain the parts of the batches to apply")
	}
	log := write.NewBatchLog(r.Catalog)
	return eachRow(log.Table(), plain, func(p *parsedRecord) error {
		var values row.Row
		exists, err := values.Resolve(p.op.Operand, row.NotDeleted, time.Now().Unix(), nil)
		if err != nil || !exists {
			return err
		}
		id, _, data, ok := log.Decode(p.Key, &values)
		if !ok {
			return nil
		}
		return r.Coordinator.RestoreBatch(ctx, id, data,
			func(was uint32) (uint32, bool) { is, ok := o.Tables[was]; return is, ok },
			func(part uint64) bool { return slices.Contains(o.Applied, archive.BatchPartName(id, part)) })
	})
}

// batchlogTable returns the description of the batchlog table.
func batchlogTable(c *catalog.Catalog) archive.Table {
	return archive.Table{Keyspace: "system", Name: "batches", ID: write.NewBatchLog(c).Table()}
}
