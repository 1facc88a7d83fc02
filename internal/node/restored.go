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
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// parsed is a record of a backup as what writes it.
type parsed struct {
	keys.Parts
	op command.Op
}

// eachRow passes on the rows of a file, and what deletes some. What only a cluster that runs has use for is left out:
// records of commands that were carried out, and the change log.
func eachRow(table uint32, plain []byte, fn func(p *parsed) error) error {
	whole := binary.BigEndian.AppendUint32(nil, table)
	return archive.EachRecord(plain, func(key, value []byte) error {
		whole = append(whole[:4], key...)
		parts, ok := keys.Parse(slices.Clone(whole))
		if !ok {
			return fmt.Errorf("key %x: %w", key, archive.ErrDamaged)
		}
		p := parsed{Parts: parts}
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

// writable refuses to restore a row in a form that nodes of a feature level need not know.
func writable(level feature.Level, operand []byte) error {
	if row.HasLifetime(operand) && level < feature.Lifetimes {
		return fmt.Errorf("restore items with lifetimes: they need feature level %d, and the cluster has %d: raise the "+
			"level with \"ilion upgrade\" and repeat the restore", feature.Lifetimes, level)
	}
	return nil
}

// writeAgain applies a mutation with the entries of the indexes that the table has by now: a client may create one
// while the table is being restored. It sends the mutation again where that may help: applying it twice has the effect
// of applying it once.
func (n *Node) writeAgain(ctx context.Context, m *command.Mutation) error {
	ctx, cancel := context.WithTimeout(ctx, restoredTry)
	defer cancel()
	for {
		planned := command.Conditional{Mutation: *m}
		if err := write.Replan(n.catalog.Snapshot(), &planned); err != nil {
			return fmt.Errorf("plan restored rows: %w", err)
		}
		done := make(told, 1)
		n.coordinator.Write(ctx, []command.Mutation{planned.Mutation}, coordinator.WriteOptions{Level: dberr.Quorum},
			done)
		err := <-done
		var invalid *dberr.Invalid
		if err == nil || errors.As(err, &invalid) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("write restored rows: %w", err)
		case <-time.After(restoredPause):
		}
	}
}

// told is a completion that somebody waits for.
type told chan error

// Done implements command.Completion.
func (t told) Done(err error) { t <- err }

// restoreBatches finishes the atomic batches of a file.
func (n *Node) restoreBatches(ctx context.Context, o *archive.BatchReplay, plain []byte) error {
	if o == nil {
		return errors.New("nothing says which parts of the batches are to be done")
	}
	log := write.NewBatchLog(n.catalog.Snapshot())
	return eachRow(log.Table(), plain, func(p *parsed) error {
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

// batchTable is the table of the atomic batches that are under way.
func (n *Node) batchTable() archive.Table {
	return archive.Table{Keyspace: "system", Name: "batches", ID: write.NewBatchLog(n.catalog.Snapshot()).Table()}
}

// orderArchive carries out an order of a backup or a restore, such as backup/begin.
func (n *Node) orderArchive(ctx context.Context, what string, body []byte) ([]byte, error) {
	if order, ok := strings.CutPrefix(what, "restore/"); ok {
		return n.orderRestore(ctx, order, body)
	}
	return n.orderBackup(ctx, strings.TrimPrefix(what, "backup/"), body)
}
