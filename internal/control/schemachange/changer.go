// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Wait bounds a change of the schema.
const Wait = 10 * time.Second

// Changer makes changes of the schema and of roles: it computes the next state, and has the difference recorded. What
// follows from a change on every node is the Installer's business. Its fields are set before it is used.
type Changer struct {
	Records *meta.Keeper
	// Schema is the schema by which statements are planned on this node now.
	Schema func() *schema.Schema
	// Whole adds the system keyspaces, which are part of every schema, to that of the records.
	Whole func(*schema.Schema) *schema.Schema
	// Place says how a new table is cut and where its parts live.
	Place func(s *meta.State, t *schema.Table) ([]topology.Piece, error)
	// Agree waits until the other nodes have a version of the records, nil if there are none.
	Agree func(ctx context.Context, version uint64)
	// Require makes all partitions of a table refuse mutations that were planned for an older revision of it; nil where
	// the Installer sees to that.
	Require func(ctx context.Context, table uint32, revision uint64) error
	// Built waits a moment for indexes to be complete.
	Built func(ctx context.Context, indexes []*schema.Index)
	// Datacenters lists those of the cluster. Configured reports whether a name is a user of this node's configuration.
	Datacenters func() []string
	Configured  func(name string) bool
	// Level is the feature level by which the nodes of a state write.
	Level func(s *meta.State) feature.Level
	// Sched is what waits go by, nil outside simulations.
	Sched *sched.Scheduler
}

// Apply makes a schema change for a role, empty if nobody had to log in: what is made is granted to the role, and what
// is dropped is granted to nobody any more. What it refuses, or finds done already, is judged by a schema that has
// every change which was acknowledged before (SC4). When Apply returns, the change is durable and every later statement
// sees it, on all nodes that answer.
func (c *Changer) Apply(ctx context.Context, change schema.Change, role string) (*schema.Schema, []schema.Event,
	error) {
	ctx, cancel := c.Sched.WithTimeout(ctx, Wait)
	defer cancel()
	var events []schema.Event
	var fresh []*schema.Index
	var logged []*schema.Table
	if _, err := c.Records.Refresh(ctx); err != nil {
		return nil, nil, changeError("schema was", err)
	}
	state, err := c.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		old := c.Whole(s.Schema)
		if err := c.allowed(s, change); err != nil {
			return s, err
		}
		next, happened, err := schema.Apply(old, change)
		events, fresh, logged = happened, nil, nil
		if err != nil || next == old {
			return s, err
		}
		if err := c.understood(s, next); err != nil {
			return s, err
		}
		tables := tableChanges(old, next)
		fresh, logged = newIndexes(tables), newlyLogged(tables)
		_, restores := change.(*schema.Restore)
		return c.next(withoutRestores(s.WithRoles(granted(s.Roles, next, happened, role)), tables, restores), next,
			tables, fresh)
	})
	if err != nil {
		return nil, nil, changeError("schema was", err)
	}
	if c.Agree != nil {
		c.Agree(ctx, state.Version)
	}
	if err := c.requireLogged(ctx, logged); err != nil {
		return nil, nil, err
	}
	if c.Built(ctx, fresh); c.Agree != nil && len(fresh) > 0 {
		c.Agree(ctx, c.Records.State().Version) // that the index can be used is told like any change
	}
	return c.Schema(), events, nil
}

// The feature levels from which on there are containers, vectors, change logs, masks, change logs of CQL tables, views,
// user-defined functions, storage-attached indexes and lists of vectors: older builds do not know them in the records.
const (
	containersLevel = 3
	vectorsLevel    = 4
	feedsLevel      = 4
	masksLevel      = 5
	tableFeedsLevel = 5
	viewsLevel      = 5
	functionsLevel  = 5
	attachedLevel   = 5

	// ListsLevel is that of lists of vectors.
	ListsLevel = 6
)

// allowed refuses what nodes of an older build could not follow.
func (c *Changer) allowed(s *meta.State, change schema.Change) error {
	without := c.Level != nil && c.Level(s) < tableFeedsLevel
	switch table := change.(type) {
	case *schema.CreateTable:
		table.NoFeeds = without
	case *schema.AlterTable:
		table.NoFeeds = without
	case *schema.CreateView:
		if c.Level != nil && c.Level(s) < viewsLevel {
			return dberr.Invalidf("Materialized views need feature level %d: when all nodes run a build that has them, "+
				"raise the level with \"ilion upgrade\"", viewsLevel)
		}
	}
	create, ok := change.(*schema.CreateContainer)
	if !ok || c.Level == nil {
		return nil
	}
	create.Container.Feed = c.Level(s) >= feedsLevel
	if c.Level(s) >= containersLevel {
		return nil
	}
	return dberr.Invalidf("Containers need feature level %d: when all nodes run a build that has them, raise the level "+
		"with \"ilion upgrade\"", containersLevel)
}

// understood refuses a schema with vectors or functions, which nodes of an older build could not read, one with masks,
// which they would not heed, one with storage-attached indexes, whose entries they would write in another form, and one
// with lists of vectors, for which they would write no entries.
func (c *Changer) understood(s *meta.State, next *schema.Schema) error {
	what, least := "", feature.Level(0)
	switch {
	case c.Level == nil:
	case c.Level(s) < vectorsLevel && next.HasVectors():
		what, least = "Vectors", vectorsLevel
	case c.Level(s) < masksLevel && next.HasMasks():
		what, least = "Masked columns", masksLevel
	case c.Level(s) < functionsLevel && next.HasFunctions():
		what, least = "User-defined functions", functionsLevel
	case c.Level(s) < attachedLevel && next.HasAttached():
		what, least = "Storage-attached indexes", attachedLevel
	case c.Level(s) < ListsLevel && next.HasLists():
		what, least = "Lists of vectors", ListsLevel
	}
	if what == "" {
		return nil
	}
	return dberr.Invalidf("%s need feature level %d: when all nodes run a build that has them, raise the level with "+
		"\"ilion upgrade\"", what, least)
}

// next is the state with another schema, a map that fits to it, and the indexes that are to be built.
func (c *Changer) next(s *meta.State, next *schema.Schema, tables []tableChange, fresh []*schema.Index) (*meta.State,
	error) {
	out := *s
	out.Schema = next
	for _, t := range tables {
		switch {
		case t.was == nil:
			m, err := c.cut(s, out.Map, t.is)
			if err != nil {
				return nil, err
			}
			out.Map = m
		case t.is == nil:
			out.Map = out.Map.DropTable(t.was.ID)
		}
	}
	building := &out
	if len(s.Building) > 0 {
		known := indexIDs(next)
		for id := range s.Building {
			if !known[id] {
				building = building.WithBuilding(id, false)
			}
		}
	}
	for _, ix := range fresh {
		building = building.WithBuilding(ix.ID, true)
	}
	return building, nil
}

// cut adds a table to a map that was made from a state.
func (c *Changer) cut(s *meta.State, m *topology.Snapshot, t *schema.Table) (*topology.Snapshot, error) {
	pieces, err := c.Place(s, t)
	if err == nil {
		m, err = m.CutTable(t.ID, pieces)
	}
	if err != nil {
		return nil, fmt.Errorf("create table %s: %w", t, err)
	}
	return m, nil
}

// Ensure makes the partitions of the stored tables that are part of every schema, if they are not there yet.
func (c *Changer) Ensure(ctx context.Context) error {
	_, err := c.Records.Update(ctx, func(s *meta.State) (*meta.State, error) {
		out := *s
		for _, t := range sortedTables(c.Whole(s.Schema)) {
			if s.Map.Partitions(t.ID) != nil {
				continue
			}
			m, err := c.cut(s, out.Map, t)
			if err != nil {
				return nil, err
			}
			out.Map = m
		}
		if out.Map == s.Map {
			return s, nil
		}
		return &out, nil
	})
	return err
}

// changeError is what a client is told about a change that was not made, or perhaps was.
func changeError(what string, err error) error {
	switch {
	case errors.Is(err, meta.ErrUncertain), errors.Is(err, meta.ErrUnseen):
		return dberr.Serverf("It is not known whether the %s changed: %s. Look before you repeat the statement.", what,
			err)
	case errors.Is(err, context.DeadlineExceeded):
		return dberr.Serverf("The %s not changed: the meta partition has no leader that answers. "+
			"Data can be read and written meanwhile.", what)
	}
	return err
}

// newlyLogged lists the tables whose changes are to be logged from now on.
func newlyLogged(tables []tableChange) (out []*schema.Table) {
	for _, t := range tables {
		if t.was != nil && t.is != nil && !t.was.Logged() && t.is.Logged() {
			out = append(out, t.is)
		}
	}
	return out
}

// requireLogged returns when no write of the tables is under way any more that was planned before their changes were
// logged.
func (c *Changer) requireLogged(ctx context.Context, tables []*schema.Table) error {
	if c.Require == nil {
		return nil
	}
	for _, t := range tables {
		now := c.Schema().TableByID(t.ID)
		if now == nil {
			continue
		}
		if err := c.Require(ctx, t.ID, now.Revision); err != nil {
			return dberr.Serverf("The changes of %s are logged from now on, but a write that is under way may be missing: not "+
				"all of its physical partitions have confirmed it (%v). Set cdc = false and then true again", t, err)
		}
	}
	return nil
}
