// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// parsedRecord is a record of a backup as an operation.
type parsedRecord struct {
	keys.Parts
	op command.Op
}

// eachRow calls fn for the rows and deletions in a file. It skips data that only the original cluster can use: dedupe
// records and the change log.
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

// writable returns an error if a row's format requires a higher feature level.
func writable(level feature.Level, operand []byte) error {
	if row.HasLifetime(operand) && level < feature.Lifetimes {
		return fmt.Errorf("restore items with lifetimes: they need feature level %d, and the cluster has %d: raise the "+
			"level with \"ilion upgrade\" and repeat the restore", feature.Lifetimes, level)
	}
	return nil
}

// writeWithIndexes applies a mutation with the entries of the table's current indexes, because a client may create an
// index during a restore. It retries the mutation if that may help; applying it twice has no further effect.
func (n *Node) writeWithIndexes(ctx context.Context, m *command.Mutation) error {
	ctx, cancel := context.WithTimeout(ctx, restoreRetryLimit)
	defer cancel()
	for {
		planned := command.Conditional{Mutation: *m}
		if err := write.Replan(n.catalog.Snapshot(), &planned); err != nil {
			return fmt.Errorf("cannot plan restored rows: %w", err)
		}
		done := make(command.OutcomeChannel, 1)
		n.coordinator.Write(ctx, []command.Mutation{planned.Mutation}, coordinator.WriteOptions{Level: dberr.Quorum},
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
func (n *Node) restoreBatches(ctx context.Context, o *archive.BatchReplay, plain []byte) error {
	if o == nil {
		return errors.New("the request does not contain the parts of the batches to apply")
	}
	log := write.NewBatchLog(n.catalog.Snapshot())
	return eachRow(log.Table(), plain, func(p *parsedRecord) error {
		var r row.Row
		exists, err := r.Resolve(p.op.Operand, row.NotDeleted, time.Now().Unix(), nil)
		if err != nil || !exists {
			return err
		}
		id, _, data, ok := log.Decode(p.Key, &r)
		if !ok {
			return nil
		}
		return n.coordinator.RestoreBatch(ctx, id, data,
			func(was uint32) (uint32, bool) { is, ok := o.Tables[was]; return is, ok },
			func(part uint64) bool { return slices.Contains(o.Applied, archive.BatchPartName(id, part)) })
	})
}

// batchTable returns the description of the batchlog table.
func (n *Node) batchTable() archive.Table {
	return archive.Table{Keyspace: "system", Name: "batches", ID: write.NewBatchLog(n.catalog.Snapshot()).Table()}
}

// archiveCommand executes a backup or restore request, such as backup/begin.
func (n *Node) archiveCommand(ctx context.Context, what string, body []byte) ([]byte, error) {
	if order, ok := strings.CutPrefix(what, "restore/"); ok {
		return n.restoreCommand(ctx, order, body)
	}
	return n.backupCommand(ctx, strings.TrimPrefix(what, "backup/"), body)
}
