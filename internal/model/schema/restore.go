// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Restored is a table that is restored from another schema, such as the schema of a backup.
type Restored struct {
	Keyspace, Name string
	// AsKeyspace and As are the new names of the keyspace and of the table. ID becomes the UUID of the table.
	AsKeyspace, As string
	ID             UUID
}

// Restore creates tables with the column IDs of another schema, so that rows can be copied. Missing keyspaces are
// created with their types and functions. Views and indexes are omitted, because RestoreIndexes creates them once the
// rows exist. The change log is also omitted, because it would start before the rows exist.
type Restore struct {
	Stamp
	From   *Schema
	Tables []Restored
}

func (c *Restore) apply(s *Schema) (*Schema, []Event, error) {
	next := s
	var events []Event
	for _, r := range c.Tables {
		t := c.From.Table(r.Keyspace, r.Name)
		if t == nil || t.View != nil {
			return nil, nil, dberr.Invalidf("Table %s.%s is not in the backup", r.Keyspace, r.Name)
		}
		if err := checkUserKeyspace(r.AsKeyspace); err != nil {
			return nil, nil, err
		}
		if next.Keyspaces[r.AsKeyspace] == nil {
			with, err := next.withRestored(c.From.Keyspaces[r.Keyspace], r.AsKeyspace)
			if err != nil {
				return nil, nil, err
			}
			next = with
			events = append(events, Event{Change: Created, Target: TargetKeyspace, Keyspace: r.AsKeyspace})
		}
		if next.Keyspaces[r.AsKeyspace].Tables[r.As] != nil {
			return nil, nil, &dberr.AlreadyExists{Keyspace: r.AsKeyspace, Table: r.As,
				Message: `Cannot add already existing table "` + r.As + `" to keyspace "` + r.AsKeyspace + `"`}
		}
		with, err := next.withRestoredTable(t, r)
		if err != nil {
			return nil, nil, err
		}
		next = with
		events = append(events, Event{Change: Created, Target: TargetTable, Keyspace: r.AsKeyspace, Name: r.As})
	}
	return next, events, nil
}

// withRestored returns a schema with a copy of the keyspace ks that contains none of its tables.
func (s *Schema) withRestored(ks *Keyspace, name string) (*Schema, error) {
	if err := checkKeyspaceName(name); err != nil {
		return nil, err
	}
	j := ks.encode()
	j.Name = name
	b, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	made := New()
	if err := made.decodeKeyspace(b); err != nil {
		return nil, err
	}
	for _, f := range ks.Functions {
		fj := f.encode()
		fj.Keyspace = name
		if err := made.decodeFunction(&fj); err != nil {
			return nil, err
		}
	}
	fresh, number := made.Keyspaces[name], s.NextID
	if fresh.Database != nil {
		d := *fresh.Database
		d.Number = number
		fresh.Database, number = &d, number+1
	}
	next := s.withKeyspace(fresh)
	next.NextID = number
	return next, nil
}

// withRestoredTable returns a schema with a copy of the table t.
func (s *Schema) withRestoredTable(t *Table, r Restored) (*Schema, error) {
	j := t.encode()
	j.Keyspace, j.Name, j.UUID = r.AsKeyspace, r.As, r.ID
	j.ID = s.NextID | t.ID&(keys.WideRing|keys.WholeKey)
	j.Indexes, j.Feed, j.Options.CDC = nil, nil, false
	ks := *s.Keyspaces[r.AsKeyspace]
	ks.Tables = maps.Clone(ks.Tables)
	made := &Schema{Keyspaces: map[string]*Keyspace{ks.Name: &ks}}
	if err := made.decodeTable(&j); err != nil {
		return nil, dberr.Invalidf("Cannot create table %s.%s of the backup in keyspace %s: %v", r.Keyspace, r.Name,
			r.AsKeyspace, err)
	}
	next := s.withKeyspace(&ks)
	next.NextID++
	return next, nil
}

// RestoreIndexes creates the indexes and views of tables that Restore has created. Existing indexes and views are kept.
type RestoreIndexes struct {
	Stamp
	From   *Schema
	Tables []Restored
}

func (c *RestoreIndexes) apply(s *Schema) (*Schema, []Event, error) {
	next := s
	var events []Event
	for _, r := range c.Tables {
		from, ks := c.From.Table(r.Keyspace, r.Name), next.Keyspaces[r.AsKeyspace]
		if from == nil || ks == nil || ks.Tables[r.As] == nil {
			return nil, nil, dberr.Invalidf("Table %s.%s does not exist: it was dropped during the restore",
				r.AsKeyspace,
				r.As)
		}
		t := ks.Tables[r.As].clone()
		t.Indexes = maps.Clone(t.Indexes)
		if t.Indexes == nil {
			t.Indexes = map[string]*Index{}
		}
		id, made := next.NextID, 0
		for _, ix := range from.SortedIndexes() {
			if ix.Kind == ViewKind {
				continue
			}
			like, have := *ix, false
			for _, other := range t.Indexes {
				have = have || other.Column == ix.Column && other.Target == ix.Target && other.Kind == ix.Kind &&
					maps.Equal(other.Options, ix.Options)
			}
			if have {
				continue
			}
			if like.Name = ix.Name; ix.Kind == UniqueKind || ix.Kind == DocumentKind {
				like.Name = r.As + strings.TrimPrefix(ix.Name, r.Name)
			} else if _, taken := ks.Index(ix.Name); taken != nil {
				like.Name = unusedIndexName(ks, r.As, ix.Column)
			}
			like.ID, like.Lists = id|ix.ID&(keys.OrderedIndex|keys.HintSpace), nil
			t.Indexes[like.Name] = &like
			id++
			made++
		}
		if made == 0 {
			continue
		}
		next = next.withKeyspace(ks.withTable(t))
		next.NextID = id
		events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: r.AsKeyspace, Name: r.As})
	}
	return next, events, nil
}

// RestoreView creates a view of a restored table from the definition in another schema.
type RestoreView struct {
	Stamp
	From *Schema
	// View is the view with its new names. Base is the new name of its base table.
	View Restored
	Base string
}

func (c *RestoreView) apply(s *Schema) (*Schema, []Event, error) {
	v, ks := c.From.Table(c.View.Keyspace, c.View.Name), s.Keyspaces[c.View.AsKeyspace]
	if v == nil || v.View == nil || ks == nil || ks.Tables[c.Base] == nil {
		return nil, nil, dberr.Invalidf("View %s.%s cannot be created: its base table does not exist",
			c.View.AsKeyspace,
			c.View.As)
	}
	if ks.Tables[c.View.As] != nil {
		return s, nil, nil
	}
	next, err := s.withRestoredTable(v, c.View)
	if err != nil {
		return nil, nil, err
	}
	t := next.Table(c.View.AsKeyspace, c.View.As) // this change created the table, so it is not shared
	t.View = &View{Base: c.Base, Where: v.View.Where, AllColumns: v.View.AllColumns}
	base := ks.Tables[c.Base].clone()
	base.Indexes = maps.Clone(base.Indexes)
	if base.Indexes == nil {
		base.Indexes = map[string]*Index{}
	}
	name := hintsName(c.View.As)
	base.Indexes[name] = &Index{Name: name, ID: next.NextID | keys.HintSpace, Kind: ViewKind,
		Options: map[string]string{viewOption: c.View.As}}
	id := next.NextID + 1
	next = next.withKeyspace(next.Keyspaces[c.View.AsKeyspace].withTable(base))
	next.NextID = id
	return next, []Event{
		{Change: Created, Target: TargetTable, Keyspace: c.View.AsKeyspace, Name: c.View.As},
		{Change: Updated, Target: TargetTable, Keyspace: c.View.AsKeyspace, Name: c.Base},
	}, nil
}
