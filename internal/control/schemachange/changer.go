// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Timeout is the default of Changer.Timeout.
const Timeout = 10 * time.Second

// Changer changes the schema and the roles. It computes the next state and records the difference. The Installer
// applies the change on every node. The caller must set the exported fields before use.
type Changer struct {
	Metadata *meta.Keeper
	// Catalog holds the schema with which this node plans statements. It is a *catalog.Catalog.
	Catalog interface {
		Snapshot() *schema.Schema
		// WithSystem adds the system keyspaces to a schema from the metadata.
		WithSystem(s *schema.Schema) *schema.Schema
		// Datacenters returns the data centers of the cluster.
		Datacenters() []string
	}
	// Placer places new tables. It is a membership.TablePlacer.
	Placer interface {
		// Place returns the partitions of a new table and their nodes.
		Place(s *meta.State, t *schema.Table) ([]topology.Piece, error)
	}
	// Partitions sends requests to the leaders of partitions. *coordinator.Coordinator implements it.
	Partitions interface {
		// Require makes all partitions of a table reject mutations that were planned for an older revision.
		Require(ctx context.Context, table uint32, revision uint64, limit time.Duration) error
		// Newest returns a timestamp that is not lower than any previous timestamp of the table's partitions.
		Newest(ctx context.Context, table uint32, limit time.Duration) (stamp int64, err error)
	}
	Builder *backfill.Builder
	// Member is nil on a standalone node. The Installer of a standalone node makes partitions require a revision.
	Member  *membership.Member
	Release *compat.Release
	// Users are the users of this node's configuration.
	Users access.ConfiguredUsers
	// Levels determines the feature level with which nodes write.
	Levels membership.Levels
	// Timeout is the time limit of a change. The default is 10 s.
	Timeout time.Duration
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// timeout returns the timeout of a change.
func (c *Changer) timeout() time.Duration { return cmp.Or(c.Timeout, Timeout) }

// Apply makes a schema change for a role. role is empty if authentication is off. The role gets all permissions on
// created objects, and all permissions on dropped objects are revoked. Apply rejects a change, or treats it as a no-op,
// based on a schema that contains every change acknowledged before the call (SC4). When Apply returns, the change is
// durable, and every later statement on a live node sees the change.
func (c *Changer) Apply(ctx context.Context, change schema.Change, role string) (*schema.Schema, []schema.Event,
	error) {
	ctx, cancel := c.Sched.WithTimeout(ctx, c.timeout())
	defer cancel()
	var events []schema.Event
	var fresh []*schema.Index
	var logged []*schema.Table
	if _, err := c.Metadata.ReadBarrier(ctx); err != nil {
		return nil, nil, changeError("schema was", err)
	}
	above := newest{}
	update := func(s *meta.State) (*meta.State, error) {
		old := c.Catalog.WithSystem(s.Schema)
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
		if err := c.beginFeeds(s, tables, above); err != nil {
			return s, err
		}
		fresh, logged = newIndexes(tables), newlyLogged(tables)
		_, restores := change.(*schema.Restore)
		s = s.WithRoles(granted(s.Roles, next, happened, role)).
			WithResources(withoutDropped(s.Resources, old, next))
		return c.next(withoutRestores(s, tables, restores), next, tables, fresh)
	}
	state, err := c.Metadata.Update(ctx, update)
	for unknown := (*unknownNewest)(nil); errors.As(err, &unknown); {
		if err = c.askNewest(ctx, unknown.table, above); err == nil {
			state, err = c.Metadata.Update(ctx, update)
		}
	}
	if err != nil {
		return nil, nil, changeError("schema was", err)
	}
	if c.Member != nil {
		c.Member.AwaitAgreement(ctx, state.Version)
	}
	if err := c.requireLogged(ctx, logged); err != nil {
		return nil, nil, err
	}
	if c.Builder.Await(ctx, fresh); c.Member != nil && len(fresh) > 0 {
		c.Member.AwaitAgreement(ctx,
			c.Metadata.State().Version) // the other nodes must know that the index is complete
	}
	return c.Catalog.Snapshot(), events, nil
}

// SetLists assigns lists to a vector index.
func (c *Changer) SetLists(ctx context.Context, lists *schema.SetLists) error {
	lists.Stamp = schema.Stamp{Version: schema.UUID(uuid.New()), At: c.Sched.Wall().UnixMicro(), Release: c.Release}
	_, _, err := c.Apply(ctx, lists, "")
	return err
}

// SupportsLists reports whether all nodes support lists of vectors.
func (c *Changer) SupportsLists() bool { return c.Levels.Current() >= listsLevel }

// These are the feature levels that schema objects require. Older versions cannot read these objects in the metadata.
const (
	containersLevel      = 3
	vectorsLevel         = 4
	changeLogsLevel      = 4
	masksLevel           = 5
	tableChangeLogsLevel = 5
	viewsLevel           = 5
	functionsLevel       = 5
	saiLevel             = 5
	listsLevel           = 6
)

// allowed rejects changes that nodes of older versions do not support.
func (c *Changer) allowed(s *meta.State, change schema.Change) error {
	without := c.Levels.Of(s) < tableChangeLogsLevel
	switch table := change.(type) {
	case *schema.CreateTable:
		table.NoFeeds = without
	case *schema.AlterTable:
		table.NoFeeds = without
		table.NoDropTimes = c.Levels.Of(s) < feature.DropTimes
	case *schema.CreateView:
		if c.Levels.Of(s) < viewsLevel {
			return dberr.Invalidf("Materialized views require feature level %d. When all nodes run a version that "+
				"supports them, "+
				"run \"ilion upgrade\"", viewsLevel)
		}
	}
	create, ok := change.(*schema.CreateContainer)
	if !ok {
		return nil
	}
	create.Container.Feed = c.Levels.Of(s) >= changeLogsLevel
	if c.Levels.Of(s) >= containersLevel {
		return nil
	}
	return dberr.Invalidf("Containers require feature level %d. When all nodes run a version that supports them, "+
		"run \"ilion upgrade\"", containersLevel)
}

// understood rejects schemas that nodes of older versions do not support. Older versions cannot read schemas with
// vectors or functions. They ignore masks, write entries of storage-attached indexes in another format, and write no
// entries for vector lists and full-text indexes.
func (c *Changer) understood(s *meta.State, next *schema.Schema) error {
	what, least := "", feature.Level(0)
	switch {
	case c.Levels.Of(s) < vectorsLevel && next.HasVectors():
		what, least = "Vectors", vectorsLevel
	case c.Levels.Of(s) < masksLevel && next.HasMasks():
		what, least = "Masked columns", masksLevel
	case c.Levels.Of(s) < functionsLevel && next.HasFunctions():
		what, least = "User-defined functions", functionsLevel
	case c.Levels.Of(s) < saiLevel && next.HasAttached():
		what, least = "Storage-attached indexes", saiLevel
	case c.Levels.Of(s) < listsLevel && next.HasLists():
		what, least = "Lists of vectors", listsLevel
	case c.Levels.Of(s) < feature.FullTextIndexes && next.HasTexts():
		what, least = "Full-text indexes", feature.FullTextIndexes
	}
	if what == "" {
		return nil
	}
	return dberr.Invalidf("%s require feature level %d. When all nodes run a version that supports them, run "+
		"\"ilion upgrade\"", what, least)
}

// next returns the state with the schema next, a matching topology, and the indexes to build.
func (c *Changer) next(s *meta.State, next *schema.Schema, tables []tableChange, fresh []*schema.Index) (*meta.State,
	error) {
	out := *s
	out.Schema = next
	for _, t := range tables {
		switch {
		case t.was == nil:
			m, err := c.addTable(s, out.Topology, t.is)
			if err != nil {
				return nil, err
			}
			out.Topology = m
		case t.is == nil:
			out.Topology = out.Topology.DropTable(t.was.ID)
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

// addTable adds a table to a topology that was derived from a state.
func (c *Changer) addTable(s *meta.State, m *topology.Snapshot, t *schema.Table) (*topology.Snapshot, error) {
	pieces, err := c.Placer.Place(s, t)
	if err == nil {
		m, err = m.CutTable(t.ID, pieces)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot create table %s: %w", t, err)
	}
	return m, nil
}

// Ensure creates the partitions of the stored system tables if they do not exist.
func (c *Changer) Ensure(ctx context.Context) error {
	_, err := c.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		out := *s
		for _, t := range sortedTables(c.Catalog.WithSystem(s.Schema)) {
			if s.Topology.Partitions(t.ID) != nil {
				continue
			}
			m, err := c.addTable(s, out.Topology, t)
			if err != nil {
				return nil, err
			}
			out.Topology = m
		}
		if out.Topology == s.Topology {
			return s, nil
		}
		return &out, nil
	})
	return err
}

// changeError returns the client's error for a change that has failed or has an unknown outcome.
func changeError(what string, err error) error {
	switch {
	case errors.Is(err, meta.ErrUncertain), errors.Is(err, meta.ErrNotVisible):
		return dberr.Serverf("The outcome of the change is unknown: %[2]s. Check whether the %[1]s changed before "+
			"you repeat the statement.", what,
			err)
	case errors.Is(err, context.DeadlineExceeded):
		return dberr.Serverf("The %s not changed: the leader of the meta partition is unreachable. "+
			"You can still read and write data.", what)
	}
	return err
}
