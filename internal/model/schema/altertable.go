// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"reflect"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// AlterOp is the operation of an AlterTable or AlterType.
type AlterOp string

// These are the operations. AlterValueType is always rejected if the object exists.
const (
	AddColumns         AlterOp = "add"
	DropColumns        AlterOp = "drop"
	RenameColumns      AlterOp = "rename"
	SetOptions         AlterOp = "options"
	DropCompactStorage AlterOp = "drop_compact_storage"
	AlterValueType     AlterOp = "alter_type"
	AlterMask          AlterOp = "mask"
)

// RenameSpec renames a column or field.
type RenameSpec struct {
	From string
	To   string
}

// AlterTable represents the statement ALTER TABLE. Op determines which of the following fields are used.
type AlterTable struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
	Op       AlterOp
	// IfColumn ignores existing columns if columns are added, and missing columns if columns are dropped or renamed.
	IfColumn bool
	Add      []ColumnSpec
	Drop     []string
	// DroppedAt is the time of the drop in microseconds, or 0 for Stamp.At.
	DroppedAt  int64
	Rename     []RenameSpec
	Properties []Property
	// Column is the column that receives Mask. If Mask is nil, the mask of Column is removed.
	Column string
	Mask   *MaskSpec
	// FixedCompact rejects new columns in a table WITH COMPACT STORAGE. KeepsCompact rejects DROP COMPACT STORAGE.
	FixedCompact, KeepsCompact bool
	// NoDropTimes rejects DroppedAt, because a node may not support columns that were dropped up to a timestamp.
	NoDropTimes bool
	// NoFeeds means that a node may not support the change log of CQL tables. In that case, cdc = true has no effect.
	NoFeeds bool
}

func (c *AlterTable) apply(s *Schema) (*Schema, []Event, error) {
	old := s.Table(c.Keyspace, c.Name)
	if old == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, noTable(c.Keyspace, c.Name)
	}
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	if err := rejectContainer(old, "altering it"); err != nil {
		return nil, nil, err
	}
	if old.View != nil {
		return nil, nil, dberr.Invalidf("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW " +
			"instead")
	}
	ks := s.Keyspaces[c.Keyspace]
	t := old.clone()
	var err error
	switch c.Op {
	case AddColumns:
		err = c.add(t, ks)
	case DropColumns:
		err = c.drop(t, ks)
	case RenameColumns:
		err = c.rename(t)
	case SetOptions:
		err = c.setOptions(t, s.Revision+1)
	case DropCompactStorage:
		err = c.dropCompact(t)
	case AlterMask:
		err = c.remask(ks, t)
	default:
		err = dberr.Invalidf("Altering column types is no longer supported")
	}
	if err == nil {
		err = c.checkAlter(ks, t)
	}
	if err != nil {
		return nil, nil, err
	}
	if reflect.DeepEqual(t, old) {
		return s, nil, nil
	}
	ks, events, err := c.alterViews(ks.withTable(t), t)
	if err != nil {
		return nil, nil, err
	}
	own := Event{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}
	return s.withKeyspace(ks), append([]Event{own}, events...), nil
}

func (c *AlterTable) add(t *Table, ks *Keyspace) error {
	for i := range c.Add {
		spec := &c.Add[i]
		if c.IfColumn && t.ByName[spec.Name] != nil {
			continue
		}
		typ, err := spec.Type.Bind(c.Keyspace, ks.Types)
		if err != nil {
			return err
		}
		if err := c.checkAdded(t, spec, typ); err != nil {
			return err
		}
		col := &Column{Name: spec.Name, ID: t.NextColumn, Type: typ, Kind: Regular, Position: -1}
		if err := t.mask(ks, col, spec.Mask); err != nil {
			return err
		}
		if d := t.LastDropped(spec.Name); d != nil && d.ByTime {
			col.ID = d.ID
		} else {
			t.NextColumn++
		}
		if spec.Static {
			col.Kind = Static
			t.Statics = insertColumn(t.Statics, col)
		} else {
			t.Regulars = insertColumn(t.Regulars, col)
		}
		t.ByName[col.Name] = col
	}
	return checkTableSize(t)
}

func (c *AlterTable) dropCompact(t *Table) error {
	switch {
	case c.KeepsCompact:
		return dberr.Invalidf("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.")
	case !t.CompactStorage:
		return dberr.Invalidf("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE")
	}
	t.CompactStorage = false
	return nil
}

func (c *AlterTable) checkAdded(t *Table, spec *ColumnSpec, typ *cqltype.Type) error {
	if t.ByName[spec.Name] != nil {
		return dberr.Invalidf("Column with name '%s' already exists", spec.Name)
	}
	if t.dense() || c.FixedCompact && t.CompactStorage {
		return dberr.Invalidf("Cannot add new column to a COMPACT STORAGE table")
	}
	if err := checkColumnType(typ); err != nil {
		return err
	}
	if spec.Static && len(t.Clustering) == 0 {
		return dberr.Invalidf("Static columns are only useful (and thus allowed) if the table has at least one " +
			"clustering column")
	}
	if d := t.LastDropped(spec.Name); d != nil {
		again := expandUDTs(typ)
		if !valueCompatible(again, d.Type) || !c.release().LooseReAdd && !sameLengths(again, d.Type) {
			return dberr.Invalidf("Cannot re-add previously dropped column '%s' of type %s, incompatible with "+
				"previous type %s", spec.Name, typ, d.Type)
		}
		if spec.Static != (d.Kind == Static) {
			kind, previous := "REGULAR", "STATIC"
			if spec.Static {
				kind, previous = previous, kind
			}
			return dberr.Invalidf("Cannot re-add previously dropped column '%s' of kind %s, incompatible with "+
				"previous kind %s", spec.Name, kind, previous)
		}
		if t.Counter {
			return dberr.Invalidf("Cannot re-add previously dropped counter column %s", spec.Name)
		}
	}
	if t.Counter && typ.Kind != cqltype.Counter {
		return dberr.Configf("%s: Cannot have a non counter column (\"%s\") in a counter table", t, spec.Name)
	}
	if !t.Counter && typ.Kind == cqltype.Counter {
		return dberr.Configf("%s: Cannot have a counter column (\"%s\") in a non counter table", t, spec.Name)
	}
	return nil
}

// valueCompatible reports whether every value of old is a value of t. In that case, a dropped column of type old can
// be added again with type t.
func valueCompatible(t, old *cqltype.Type) bool {
	if t.Equal(old) {
		return true
	}
	switch t.Kind {
	case cqltype.Blob:
		return !old.MultiCell() && old.Kind != cqltype.Counter
	case cqltype.Text:
		return old.Kind == cqltype.Ascii
	case cqltype.Varint:
		return old.Kind == cqltype.Int || old.Kind == cqltype.Bigint || old.Kind == cqltype.Timestamp
	case cqltype.UUID:
		return old.Kind == cqltype.Timeuuid
	case cqltype.Bigint:
		return old.Kind == cqltype.Timestamp
	case cqltype.Timestamp:
		return old.Kind == cqltype.Bigint
	}
	return t.Kind == old.Kind && t.Frozen == old.Frozen && t.Dimension == old.Dimension && t.Name == old.Name &&
		len(t.Elems) > 0 && len(t.Elems) == len(old.Elems) &&
		slices.EqualFunc(t.Elems, old.Elems, valueCompatible)
}

// sameLengths reports whether the values of two compatible types, and of their elements, have the same fixed length or
// are variable-length. Otherwise, Cassandra 5.0 would have to rewrite the values.
func sameLengths(t, old *cqltype.Type) bool {
	if fixedLength(t) != fixedLength(old) {
		return false
	}
	for i := range min(len(t.Elems), len(old.Elems)) {
		if !sameLengths(t.Elems[i], old.Elems[i]) {
			return false
		}
	}
	return true
}

// fixedLength returns the length of every value of a type that Cassandra treats as fixed-length, or 0 for other types.
func fixedLength(t *cqltype.Type) int {
	switch t.Kind {
	case cqltype.Boolean:
		return 1
	case cqltype.Int, cqltype.Float:
		return 4
	case cqltype.Bigint, cqltype.Double, cqltype.Timestamp:
		return 8
	case cqltype.UUID, cqltype.Timeuuid:
		return 16
	case cqltype.Vector:
		return t.Dimension * fixedLength(t.Elems[0])
	}
	return 0
}

// expandUDTs replaces user-defined types with tuples. The type of a dropped column must not refer to types that can be
// dropped.
func expandUDTs(t *cqltype.Type) *cqltype.Type {
	if len(t.Elems) == 0 {
		return t
	}
	elems := make([]*cqltype.Type, len(t.Elems))
	for i, e := range t.Elems {
		elems[i] = expandUDTs(e)
	}
	if t.Kind == cqltype.UDT {
		return cqltype.TupleOf(elems...)
	}
	expanded := *t
	expanded.Elems = elems
	return &expanded
}

func (c *AlterTable) drop(t *Table, ks *Keyspace) error {
	at := c.DroppedAt
	if at == 0 {
		at = c.At
	} else if c.NoDropTimes {
		return dberr.Invalidf("DROP .. USING TIMESTAMP requires feature level %d. When all nodes run a version that "+
			"supports it, "+
			"run \"ilion upgrade\"", feature.DropTimes)
	}
	for _, name := range c.Drop {
		col := t.ByName[name]
		switch {
		case col == nil && c.IfColumn:
			continue
		case col == nil:
			return dberr.Invalidf("Column %s was not found in table '%s'", name, t)
		case col.Kind.IsKey():
			return dberr.Invalidf("Cannot drop PRIMARY KEY column %s", name)
		case t.dense():
			return dberr.Invalidf("Cannot drop columns from a COMPACT STORAGE table")
		case col.Type.Kind == cqltype.UDT && col.Type.MultiCell():
			return dberr.Invalidf("Cannot drop non-frozen column %s of user type %s", name, col.Type)
		}
		if len(ks.ViewsOf(t.Name)) > 0 {
			return dberr.Invalidf("Cannot drop column %s on base table %s with materialized views", name, t.Name)
		}
		if names := indexNames(t.IndexesOn(name)); names != "" {
			return dberr.Invalidf("Cannot drop column %s because it has dependent secondary indexes (%s)", name, names)
		}
		t.Dropped = append(t.Dropped, DroppedColumn{Name: name, ID: col.ID, Type: expandUDTs(col.Type), Kind: col.Kind,
			DroppedAt: at, ByTime: c.DroppedAt != 0})
		is := func(o *Column) bool { return o == col }
		t.Statics, t.Regulars = slices.DeleteFunc(t.Statics, is), slices.DeleteFunc(t.Regulars, is)
		delete(t.ByName, name)
	}
	return nil
}

func indexNames(indexes []*Index) string {
	names := make([]string, len(indexes))
	for i, ix := range indexes {
		names[i] = ix.Name
	}
	return strings.Join(names, ", ")
}

func (c *AlterTable) rename(t *Table) error {
	for _, r := range c.Rename {
		col := t.ByName[r.From]
		switch {
		case col == nil && c.IfColumn:
			continue
		case col == nil:
			return dberr.Invalidf("Undefined column name %s in table %s", r.From, t)
		case !col.Kind.IsKey():
			return dberr.Invalidf("Cannot rename non PRIMARY KEY column %s", r.From)
		case t.ByName[r.To] != nil:
			return dberr.Invalidf("Cannot rename column %s to %s in table '%s'; another column with that name "+
				"already exists", r.From, r.To, t)
		}
		if names := indexNames(t.IndexesOn(r.From)); names != "" {
			return dberr.Invalidf("Can't rename column %s because it has dependent secondary indexes (%s)", r.From,
				names)
		}
		renamed := *col
		renamed.Name = r.To
		key := t.PartitionKey
		if col.Kind == Clustering {
			key = t.Clustering
		}
		key[col.Position] = &renamed
		t.reindex()
	}
	return nil
}

func (c *AlterTable) setOptions(t *Table, revision uint64) error {
	options, err := applyProperties(c.release(), t.Options, c.Properties, false)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.Properties, func(p Property) bool { return p.Name == propertyID }) {
		return dberr.Configf("Cannot alter table id.")
	}
	was := *t
	t.Options = options
	t.setFeed(&was, c.At/1e6, revision, !c.NoFeeds)
	return t.checkCounterTTL()
}
