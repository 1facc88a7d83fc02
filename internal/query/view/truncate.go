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

// Rows is where rows are read and written.
type Rows interface {
	Coordinator
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
}

// Tables is where tables are truncated, and rows are read and written.
type Tables interface {
	Rows
	Truncate(ctx context.Context, table uint32, indexes ...uint32) error
	Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error
}

// Truncation is a TRUNCATE of a table with materialized views. It takes as long with a million rows as with one:
//
//  1. the base table is truncated;
//  2. Renew gives the views a new schema revision, and their partitions are asked to require it: a delivery that has
//     read a base row before step 1, however late it comes, was planned for an older revision and is refused;
//  3. the views are truncated;
//  4. base rows that were written since step 1 are marked as due: step 3 may have removed what they have in the views.
//
// All steps may be repeated. If one fails, the error says that TRUNCATE has to be.
type Truncation struct {
	Tables Tables
	// Renew returns the schema in which the views of a table have a new revision.
	Renew func(ctx context.Context, keyspace, table string) (*schema.Schema, error)
	// Limit bounds step 2 for each view.
	Limit time.Duration
	// Now is the second of the statement.
	Now int64
}

// Run truncates a table and its views.
func (x *Truncation) Run(ctx context.Context, t *schema.Table) error {
	if err := x.Tables.Truncate(ctx, t.ID, indexesOf(t)...); err != nil {
		return err
	}
	s, err := x.Renew(ctx, t.Keyspace, t.Name)
	if err != nil {
		return unfinished(t, err)
	}
	ks := s.Keyspaces[t.Keyspace]
	if ks == nil || ks.Tables[t.Name] == nil || ks.Tables[t.Name].ID != t.ID {
		return nil // the table was dropped, and its views before it
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

// dueRows is how many rows are marked as due at a time.
const dueRows = 200

// markDue marks the rows of a base table as due for all of its views, as the build of a view does.
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
		done := make(ended, 1)
		x.Tables.Write(ctx, ms, coordinator.WriteOptions{Level: dberr.Quorum, Type: "UNLOGGED_BATCH"}, done)
		if err := <-done; err != nil { // the coordinator's own deadline bounds it
			return err
		}
		last := &found.rows[len(found.rows)-1]
		read.AfterToken, read.AfterKey, read.AfterClustering = last.token, last.key, last.clustering
		read.AfterPartition = len(t.Clustering) == 0
	}
}

// ended is a completion that somebody waits for.
type ended chan error

// Done implements command.Completion.
func (e ended) Done(err error) { e <- err }
