// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Restorer serves the requests of the restore tool. Set its exported fields before use.
type Restorer struct {
	Metadata    *meta.Keeper
	Catalog     *catalog.Catalog
	Coordinator *coordinator.Coordinator
	Changer     *schemachange.Changer
	Builder     *backfill.Builder
	Release     *compat.Release
	// Level returns the feature level with which nodes write.
	Level func() feature.Level

	restoring atomic.Pointer[restoringTables]
}

// restoringTables holds, for one metadata state, the names of the settings of tables that are being restored.
type restoringTables struct {
	of    *meta.State
	names map[string]bool
}

// Restoring reports whether a table is being restored from a backup. If no table is being restored, the check only
// compares two pointers.
func (r *Restorer) Restoring(t *schema.Table) bool {
	state, known := r.Metadata.State(), r.restoring.Load()
	if known == nil || known.of != state {
		known = &restoringTables{state, state.Restoring()}
		r.restoring.Store(known)
	}
	return len(known.names) > 0 && known.names[meta.RestoreSetting(t.Keyspace, t.Name)]
}

// Execute executes a request of the restore tool. The request is tables, rows, batches, or end.
func (r *Restorer) Execute(ctx context.Context, what string, body []byte) ([]byte, error) {
	switch what {
	case "rows", "batches":
		page, err := archive.DecodeFileResponse(body)
		if err != nil {
			return nil, err
		}
		plain, err := archive.Unpack(page.File.Name, page.Data)
		if err != nil {
			return nil, err
		}
		if what == "rows" {
			return []byte("{}"), r.WriteRows(ctx, page.Table, plain)
		}
		return []byte("{}"), r.restoreBatches(ctx, page.Batches, plain)
	}
	var o archive.Restore
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("malformed restore request: %w", err)
	}
	from, err := stateOf(o.Metadata)
	if err != nil {
		return nil, err
	}
	switch what {
	case "tables":
		if o.Tables, err = r.CreateTables(ctx, from, &o); err != nil {
			return nil, err
		}
		return json.Marshal(o)
	case "end":
		return []byte("{}"), r.Finish(ctx, from, &o)
	}
	return nil, fmt.Errorf("unknown restore request %q", what)
}

// sortedRecords sorts records by their keys.
func sortedRecords(records []command.Record) []command.Record {
	slices.SortFunc(records, func(a, b command.Record) int { return bytes.Compare(a.Key, b.Key) })
	return records
}

// stateOf decodes the metadata in a backup.
func stateOf(plain []byte) (*meta.State, error) {
	return meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
		return 1, archive.EachRecord(plain, fn)
	})
}

func (r *Restorer) stamp() schema.Stamp {
	return schema.Stamp{Version: schema.UUID(uuid.New()), At: time.Now().UnixMicro(), Release: r.Release}
}

func settingOf(t *archive.RestoredTable) string { return meta.RestoreSetting(t.NewKeyspace, t.NewName) }

func restored(t *archive.RestoredTable) schema.Restored {
	return schema.Restored{Keyspace: t.Keyspace, Name: t.Name, AsKeyspace: t.NewKeyspace, As: t.NewName,
		ID: schema.UUID(uuid.New())}
}

// CreateTables creates missing tables and returns all tables with their IDs. It accepts an existing table only if an
// earlier restore from the same backup has created the table.
func (r *Restorer) CreateTables(ctx context.Context, from *meta.State, o *archive.Restore) ([]archive.RestoredTable,
	error) {
	now, err := r.Metadata.ReadBarrier(ctx)
	if err != nil {
		return nil, err
	}
	change := &schema.Restore{Stamp: r.stamp(), From: from.Schema}
	for i := range o.Tables {
		t := &o.Tables[i]
		if now.Schema.Table(t.NewKeyspace, t.NewName) == nil {
			change.Tables = append(change.Tables, restored(t))
			continue
		}
		if t.Resumed = now.Settings[settingOf(t)] == o.Backup; !t.Resumed {
			return nil, fmt.Errorf("there is a table %s.%s already: drop it, or restore under another name (--as)",
				t.NewKeyspace, t.NewName)
		}
	}
	// The settings must be written first. Without its setting, a restored table would look like a client's table.
	_, err = r.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		for i := range o.Tables {
			s = s.WithSetting(settingOf(&o.Tables[i]), o.Backup)
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	if len(change.Tables) > 0 {
		if _, _, err := r.Changer.Apply(ctx, change, ""); err != nil {
			return nil, err
		}
	}
	if now, err = r.Metadata.ReadBarrier(ctx); err != nil {
		return nil, err
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		was, is := from.Schema.Table(t.Keyspace, t.Name), now.Schema.Table(t.NewKeyspace, t.NewName)
		if was == nil || is == nil {
			return nil, fmt.Errorf("table %s.%s was dropped during the restore", t.NewKeyspace, t.NewName)
		}
		t.OldID, t.NewID = was.ID, is.ID
	}
	return o.Tables, nil
}

// Finish creates indexes, views, roles, and the resources of databases after the rows have been restored.
func (r *Restorer) Finish(ctx context.Context, from *meta.State, o *archive.Restore) error {
	indexes := &schema.RestoreIndexes{Stamp: r.stamp(), From: from.Schema}
	for i := range o.Tables {
		indexes.Tables = append(indexes.Tables, restored(&o.Tables[i]))
	}
	if _, _, err := r.Changer.Apply(ctx, indexes, ""); err != nil {
		return err
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		for _, v := range from.Schema.Keyspaces[t.Keyspace].ViewsOf(t.Name) {
			as := archive.RestoredTable{Keyspace: t.Keyspace, Name: v.Name, NewKeyspace: t.NewKeyspace, NewName: v.Name}
			if t.NewName != t.Name {
				as.NewName = t.NewName + "_" + v.Name
			}
			view := &schema.RestoreView{Stamp: r.stamp(), From: from.Schema, View: restored(&as), Base: t.NewName}
			if _, _, err := r.Changer.Apply(ctx, view, ""); err != nil {
				return err
			}
		}
	}
	if err := r.awaitUnique(ctx, o.Tables); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, schemachange.Timeout)
	defer cancel()
	_, err := r.Metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		roles := s.Roles
		for _, role := range from.Roles.Roles() {
			if o.Roles && roles.Role(role.Name) == nil && !role.Configured {
				roles = roles.WithRole(role)
			}
		}
		if roles != s.Roles {
			s = s.WithRoles(roles)
		}
		s = withResources(s, from, o.Tables, r.Level())
		for i := range o.Tables {
			s = s.WithSetting(settingOf(&o.Tables[i]), "")
		}
		return s, nil
	})
	return err
}

// uniquePause is the pause between two checks for complete indexes of unique keys.
const uniquePause = 50 * time.Millisecond

// awaitUnique waits until the indexes of the unique keys of restored containers are complete. Until then, two items
// could have the same values of a unique key.
func (r *Restorer) awaitUnique(ctx context.Context, tables []archive.RestoredTable) error {
	for i := range tables {
		for {
			t := r.Metadata.State().Schema.Table(tables[i].NewKeyspace, tables[i].NewName)
			if t == nil {
				return fmt.Errorf("table %s.%s was dropped during the restore", tables[i].NewKeyspace,
					tables[i].NewName)
			}
			if !slices.ContainsFunc(t.SortedIndexes(), func(ix *schema.Index) bool {
				return ix.Kind == schema.UniqueKind && r.Builder.Building(ix)
			}) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the unique keys of %s are still being indexed: run the same command again to resume: %w", t,
					ctx.Err())
			case <-time.After(uniquePause):
			}
		}
	}
	return nil
}
