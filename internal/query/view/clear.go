// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Rows is where rows are read and written.
type Rows interface {
	Coordinator
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
}

// clearPartitions is how many logical partitions are deleted at a time.
const clearPartitions = 200

// Clear is TRUNCATE of a table with views. Its logical partitions are deleted one by one, so that each deletion leaves
// its hints; what is written meanwhile may stay. now is the second of the deletions.
func Clear(ctx context.Context, c Rows, ks *schema.Keyspace, t *schema.Table, now int64) error {
	views, err := Of(ks, t)
	if err != nil {
		return dberr.Serverf("%s", err)
	}
	read := command.Read{Table: t.ID, Range: token.Full, Level: dberr.Quorum, NoRows: true,
		Statics: len(t.Statics) > 0, Now: now, Dropped: t.DroppedIDs()}
	for {
		v := &keysOf{}
		if err := c.Read(ctx, &read, v); err != nil {
			return err
		}
		if len(v.keys) == 0 {
			return nil
		}
		ms := make([]command.Mutation, len(v.keys))
		for i, key := range v.keys {
			var b row.Builder
			b.Reset(row.Unstamped)
			b.DeleteRow(now)
			ms[i] = command.Mutation{Table: t.ID, Token: t.Token(key), Key: key, SchemaVersion: t.Revision,
				Ops: []command.Op{{Kind: command.OpHeader, Operand: b.Append(nil)}}}
			for _, v := range views {
				ms[i].Ops = v.Range(ms[i].Ops, nil, nil)
			}
		}
		done := make(ended, 1)
		c.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
		if err := <-done; err != nil { // the coordinator's own deadline bounds it
			return err
		}
		last := v.keys[len(v.keys)-1]
		read.AfterKey, read.AfterToken, read.AfterPartition = last, t.Token(last), true
	}
}

// ended is a completion that somebody waits for.
type ended chan error

// Done implements command.Completion.
func (e ended) Done(err error) { e <- err }

// keysOf collects partition keys.
type keysOf struct{ keys [][]byte }

// Partition implements command.Visitor.
func (k *keysOf) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	k.keys = append(k.keys, bytes.Clone(key))
	if len(k.keys) == clearPartitions {
		return command.Stop, nil
	}
	return command.NextPartition, nil
}

// Row implements command.Visitor.
func (k *keysOf) Row([]byte, *row.Row) (command.Step, error) { return command.NextPartition, nil }
