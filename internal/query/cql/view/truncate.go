// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Rows reads and writes rows.
type Rows interface {
	Coordinator
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
}

// Tables truncates tables and reads and writes rows.
type Tables interface {
	Rows
	Truncate(ctx context.Context, table uint32, indexes ...uint32) error
	Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error
}

// SchemaChanger changes the schema. *ddl.Executor implements it.
type SchemaChanger interface {
	// RenewViews returns a schema in which the views of a table have a new revision.
	RenewViews(ctx context.Context, keyspace, table string) (*schema.Schema, error)
}

// Truncation executes TRUNCATE for a table with materialized views. The duration does not depend on the number of rows.
// The steps are:
//
//  1. Truncate the base table.
//  2. Call RenewViews, which assigns a new schema revision to the views, and make the view partitions require this
//     revision. A delivery that has read a base row before step 1 was planned for an older revision and is rejected.
//  3. Truncate the views.
//  4. Mark base rows that were written after step 1 as due, because step 3 may have removed the view data of these
//     rows.
//
// All steps are idempotent. If a step fails, the error tells the client to repeat TRUNCATE.
type Truncation struct {
	Tables Tables
	Schema SchemaChanger
	// Limit is the time limit of step 2 for each view.
	Limit time.Duration
	// Now is the time of the statement in Unix seconds.
	Now int64
}

// Run truncates a table and its views.
func (x *Truncation) Run(ctx context.Context, t *schema.Table) error {
	if err := x.Tables.Truncate(ctx, t.ID, indexesOf(t)...); err != nil {
		return err
	}
	s, err := x.Schema.RenewViews(ctx, t.Keyspace, t.Name)
	if err != nil {
		return unfinished(t, err)
	}
	ks := s.Keyspaces[t.Keyspace]
	if ks == nil || ks.Tables[t.Name] == nil || ks.Tables[t.Name].ID != t.ID {
		return nil // the table was dropped
	}
	t = ks.Tables[t.Name]
	for _, v := range ks.ViewsOf(t.Name) {
		if err := x.Tables.Require(ctx, v.ID, v.Revision, x.Limit); err != nil {
			return unfinished(t, err)
		}
		if err := x.Tables.Truncate(ctx, v.ID, indexesOf(v)...); err != nil {
			return unfinished(t, err)
		}
	}
	if err := x.markDue(ctx, ks, t); err != nil {
		return unfinished(t, err)
	}
	return nil
}

func unfinished(t *schema.Table, err error) error {
	return &dberr.Truncate{Message: fmt.Sprintf("Error during truncate: table %s is truncated, but not all of its "+
		"materialized views are: %v. Run TRUNCATE again", t, err)}
}

func indexesOf(t *schema.Table) (ids []uint32) {
	for _, ix := range t.SortedIndexes() {
		ids = append(ids, ix.ID)
	}
	return ids
}

// dueRows is the number of rows that are marked as due together.
const dueRows = 200

// markDue marks the rows of a base table as due for all views of the table.
func (x *Truncation) markDue(ctx context.Context, ks *schema.Keyspace, t *schema.Table) error {
	views, err := Of(ks, t)
	if err != nil {
		return err
	}
	read := command.Read{Table: t.ID, Range: token.Full, Level: dberr.Quorum, Now: x.Now, Dropped: t.Hidden()}
	for {
		var ms []command.Mutation
		found := &rowsOf{limit: dueRows}
		found.each = func(clustering []byte, r *row.Row) error {
			m := command.Mutation{Table: t.ID, Token: found.tok, Key: found.key, SchemaVersion: t.Revision}
			for _, v := range views {
				m.Ops = append(m.Ops, v.Ops(bytes.Clone(clustering), r)...)
			}
			ms = append(ms, m)
			return nil
		}
		if err := x.Tables.Read(ctx, &read, found); err != nil || len(ms) == 0 {
			return err
		}
		done := make(command.OutcomeChannel, 1)
		x.Tables.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
		if err := (<-done).Err; err != nil { // the coordinator has a deadline
			return err
		}
		last := &found.rows[len(found.rows)-1]
		read.AfterToken, read.AfterKey, read.AfterClustering = last.token, last.key, last.clustering
		read.AfterPartition = len(t.Clustering) == 0
	}
}
