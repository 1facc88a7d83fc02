// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// View makes a table a materialized view. A view is a separate table. Its rows are derived from the rows of a base
// table in the same keyspace (RFC 0030). The view's columns have the names and types of the base columns.
type View struct {
	// Base is the name of the base table.
	Base string `json:"base"`
	// Where holds the relations in the WHERE clause of the view.
	Where []ViewRelation `json:"where"`
	// AllColumns means that the view selects all columns (*). Columns that are added to the base table are also added
	// to the view.
	AllColumns bool `json:"all_columns,omitempty"`
}

// ViewRelation is a relation of a view's WHERE clause.
type ViewRelation struct {
	// Columns lists the names on the left side of the relation. If Multi is set, the names are in parentheses.
	Columns []string `json:"columns"`
	Multi   bool     `json:"multi,omitempty"`
	// Rest is the text of the operator and the right side of the relation.
	Rest string `json:"rest"`
	// NotNull means that the relation is IS NOT NULL.
	NotNull bool `json:"not_null,omitempty"`
}

// ViewKind is the kind of a hint index. A base table has one hint index for each of its views. An option of the index
// names the view.
const ViewKind = "VIEW"

// viewOption is the option of a hint index that names its view.
const viewOption = "view"

// View returns the name of the view to which a hint index belongs.
func (ix *Index) View() string { return ix.Options[viewOption] }

// WhereText returns the WHERE clause in the form of system_schema.views.
func (v *View) WhereText() string {
	texts := make([]string, len(v.Where))
	for i, r := range v.Where {
		names := make([]string, len(r.Columns))
		for n, c := range r.Columns {
			names[n] = cqltype.QuoteName(c)
		}
		left := strings.Join(names, ", ")
		if r.Multi {
			left = "(" + left + ")"
		}
		texts[i] = left + " " + r.Rest
	}
	return strings.Join(texts, " AND ")
}

// ViewsOf returns the materialized views of a table, sorted by name.
func (k *Keyspace) ViewsOf(table string) []*Table {
	var out []*Table
	for _, t := range k.SortedTables() {
		if t.View != nil && t.View.Base == table {
			out = append(out, t)
		}
	}
	return out
}

// Guarded returns the name of the table whose permissions apply to t. The result is the base table of a view, or t
// itself.
func (t *Table) Guarded() string {
	if t.View != nil {
		return t.View.Base
	}
	return t.Name
}

// ViewKey returns the key column of a view that is not a key column of the base table. ViewKey returns nil if no such
// column exists.
func (t *Table) ViewKey(view *Table) *Column {
	for c := range view.Columns() {
		if from := t.ByName[c.Name]; c.Kind.IsKey() && from != nil && from.Kind == Regular {
			return from
		}
	}
	return nil
}

// Hints returns the hint index for a view of the table, or nil if no such index exists.
func (t *Table) Hints(view string) *Index { return t.Indexes[hintsName(view)] }

// hintsName returns an index name that no other index can have.
func hintsName(view string) string { return "view/" + view }

// CreateView represents the statement CREATE MATERIALIZED VIEW.
type CreateView struct {
	Stamp
	Keyspace    string
	Name        string
	IfNotExists bool
	// ID becomes the view's UUID, unless the property "id" specifies one.
	ID                 UUID
	BaseKeyspace, Base string
	// Selected lists the selected columns. It is nil for *.
	Selected                 []string
	Where                    []ViewRelation
	PartitionKey, Clustering []string
	Order                    []OrderSpec
	CompactStorage           bool
	Properties               []Property
	// Check validates the relations against the base table.
	Check func(ks *Keyspace, base *Table) error
	// CheckWhere, if not nil, is called after the restricted columns have been validated.
	CheckWhere func() error
}

// AlterView represents the statement ALTER MATERIALIZED VIEW.
type AlterView struct {
	Stamp
	Keyspace   string
	Name       string
	IfExists   bool
	Properties []Property
}

// DropView represents the statement DROP MATERIALIZED VIEW.
type DropView struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
}

// RenewViews changes only the revision of a table's views. Once the views' partitions require the new revision,
// operations with earlier plans are rejected.
type RenewViews struct {
	Stamp
	Keyspace, Table string
}

func (c *RenewViews) apply(s *Schema) (*Schema, []Event, error) {
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return s, nil, nil
	}
	var events []Event
	for _, v := range ks.ViewsOf(c.Table) {
		ks = ks.withTable(v.clone())
		events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: v.Name})
	}
	if len(events) == 0 {
		return s, nil, nil
	}
	return s.withKeyspace(ks), events, nil
}

func (c *CreateView) apply(s *Schema) (*Schema, []Event, error) {
	if c.CompactStorage {
		return nil, nil, dberr.Syntaxf("COMPACT STORAGE tables are not allowed starting with version 4.0")
	}
	for i := range c.Properties {
		if p := &c.Properties[i]; !knownProperty(p.Name) {
			return nil, nil, dberr.Syntaxf("Unknown property '%s'", p.Name)
		}
	}
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	if c.BaseKeyspace != c.Keyspace && s.Keyspaces[c.Keyspace] != nil {
		return nil, nil, dberr.Invalidf("Cannot create a materialized view on a table in a different keyspace")
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil, noKeyspace(c.Keyspace)
	}
	base := ks.Tables[c.Base]
	if base == nil || base.View != nil {
		return nil, nil, dberr.Invalidf("Base table '%s' doesn't exist", c.Base)
	}
	if err := rejectContainer(base, "making a materialized view of it"); err != nil {
		return nil, nil, err
	}
	if taken := ks.Tables[c.Name]; taken != nil {
		switch {
		case taken.View == nil:
			return nil, nil, dberr.Invalidf("Cannot create materialized view '%s' - a table with the same name already exists",
				c.Name)
		case c.IfNotExists:
			return s, nil, nil
		}
		return nil, nil, &dberr.AlreadyExists{Keyspace: c.Keyspace, Table: c.Name,
			Message: `Cannot add already existing table "` + c.Name + `" to keyspace "` + c.Keyspace + `"`}
	}
	t, err := c.build(ks, base)
	if err != nil {
		return nil, nil, err
	}
	t.ID = s.NextID
	changed := base.clone()
	if changed.Indexes == nil {
		changed.Indexes = map[string]*Index{}
	}
	name := hintsName(c.Name)
	changed.Indexes[name] = &Index{Name: name, ID: s.NextID + 1 | keys.HintSpace, Kind: ViewKind,
		Options: map[string]string{viewOption: c.Name}}
	next := s.withKeyspace(ks.withTable(t).withTable(changed))
	next.NextID += 2
	return next, []Event{
		{Change: Created, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name},
		{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Base},
	}, nil
}

// build returns the view's table without an ID.
func (c *CreateView) build(ks *Keyspace, base *Table) (*Table, error) {
	switch {
	case base.Counter:
		return nil, dberr.Invalidf("Materialized views are not supported on counter tables")
	case base.CompactStorage:
		return nil, dberr.Invalidf("Materialized views of tables with COMPACT STORAGE are not supported: see ALTER TABLE .. " +
			"DROP COMPACT STORAGE")
	case base.Options.GCGrace == 0:
		return nil, dberr.Invalidf("Cannot create materialized view '%s' for base table '%s' with gc_grace_seconds of 0, since "+
			"this value is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered "+
			"updates to expire before being replayed.", c.Name, c.Base)
	}
	columns, err := c.columns(base)
	if err != nil {
		return nil, err
	}
	t := &Table{Keyspace: c.Keyspace, Name: c.Name, NextColumn: 1, Indexes: map[string]*Index{}, Secret: base.Secret,
		View: &View{Base: c.Base, Where: c.Where, AllColumns: c.Selected == nil}}
	if err := c.key(t, base, columns); err != nil {
		return nil, err
	}
	if err := c.Check(ks, base); err != nil {
		return nil, err
	}
	if err := c.restricted(t, base); err != nil {
		return nil, err
	}
	if c.CheckWhere != nil {
		if err := c.CheckWhere(); err != nil {
			return nil, err
		}
	}
	for _, col := range columns {
		if t.ByName[col.Name] == nil {
			t.Regulars = insertColumn(t.Regulars, &Column{Name: col.Name, Type: col.Type, Kind: Regular, Position: -1,
				Mask: col.Mask})
		}
	}
	if err := c.order(t, base); err != nil {
		return nil, err
	}
	if err := c.options(t); err != nil {
		return nil, err
	}
	for col := range t.Columns() {
		col.ID = t.NextColumn
		t.NextColumn++
	}
	t.reindex()
	return t, checkTableName(c.Keyspace, c.Name)
}

// columns returns the selected columns of the base table by name.
func (c *CreateView) columns(base *Table) (map[string]*Column, error) {
	out := map[string]*Column{}
	if c.Selected == nil {
		for col := range base.Columns() {
			out[col.Name] = col
		}
	}
	for _, name := range c.Selected {
		col := base.ByName[name]
		if col == nil {
			return nil, dberr.Invalidf("Undefined column name %s in table %s", name, base)
		}
		out[name] = col
	}
	for _, col := range base.Statics {
		if out[col.Name] != nil {
			return nil, dberr.Invalidf("Cannot include static column '%s' in materialized view '%s'", col.Name, c.Name)
		}
	}
	return out, nil
}

// key builds the primary key from all key columns of the base table and at most one other column.
func (c *CreateView) key(t, base *Table, columns map[string]*Column) error {
	t.ByName = map[string]*Column{}
	names := slices.Concat(c.PartitionKey, c.Clustering)
	for i, name := range names {
		if t.ByName[name] != nil {
			return dberr.Invalidf("Duplicate column '%s' in PRIMARY KEY clause for materialized view '%s'", name, c.Name)
		}
		from := columns[name]
		if from == nil {
			return dberr.Invalidf("Unknown column '%s' referenced in PRIMARY KEY for materialized view '%s'", name, c.Name)
		}
		if from.Type.MultiCell() && from.Type.IsCollection() {
			return dberr.Invalidf("Invalid non-frozen collection type '%s' for PRIMARY KEY column '%s'", from.Type.JavaClass(),
				name)
		}
		if err := checkKeyColumn(from); err != nil {
			return err
		}
		col := &Column{Name: name, Type: from.Type, Kind: PartitionKey, Position: i, Mask: from.Mask}
		if n := len(c.PartitionKey); i >= n {
			col.Kind, col.Position = Clustering, i-n
			t.Clustering = append(t.Clustering, col)
		} else {
			t.PartitionKey = append(t.PartitionKey, col)
		}
		t.ByName[name] = col
	}
	var missing, others []string
	for _, col := range slices.Concat(base.PartitionKey, base.Clustering) {
		if t.ByName[col.Name] == nil {
			missing = append(missing, col.Name)
		}
	}
	if len(missing) > 0 {
		return dberr.Invalidf("Cannot create materialized view '%s' without primary key columns %s from base table '%s'",
			c.Name, strings.Join(missing, ", "), c.Base)
	}
	for _, name := range names {
		if !base.ByName[name].Kind.IsKey() {
			others = append(others, name)
		}
	}
	if len(others) > 1 {
		return dberr.Invalidf("Cannot include more than one non-primary key column in materialized view primary key (got %s)",
			strings.Join(others, ", "))
	}
	return nil
}

// restricted checks that key columns are restricted, and that IS NOT NULL is the only restriction of other columns.
func (c *CreateView) restricted(t, base *Table) error {
	have := map[string]bool{}
	var illegal []string
	for _, r := range c.Where {
		for _, name := range r.Columns {
			have[name] = true
			if col := base.ByName[name]; col != nil && !col.Kind.IsKey() && !r.NotNull {
				illegal = append(illegal, name)
			}
		}
	}
	if len(illegal) > 0 {
		return dberr.Invalidf("Non-primary key columns can only be restricted with 'IS NOT NULL' (got: %s restricted illegally)",
			strings.Join(illegal, ", "))
	}
	var open []string
	for _, col := range slices.Concat(t.PartitionKey, t.Clustering) {
		if !have[col.Name] {
			open = append(open, col.Name)
		}
	}
	if len(open) > 0 {
		return dberr.Invalidf("Primary key columns %s must be restricted with 'IS NOT NULL' or otherwise",
			strings.Join(open, ", "))
	}
	return nil
}

// order sets the sort directions of the clustering columns. The defaults are the directions of the base table.
func (c *CreateView) order(t, base *Table) error {
	if len(c.Order) == 0 {
		for _, col := range t.Clustering {
			col.Desc = base.ByName[col.Name].Desc
		}
		return nil
	}
	wrong := len(c.Order) != len(t.Clustering)
	for i := range c.Order {
		wrong = wrong || t.Clustering[i].Name != c.Order[i].Column
		if wrong {
			return dberr.Invalidf("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive")
		}
		t.Clustering[i].Desc = c.Order[i].Desc
	}
	if wrong {
		return dberr.Invalidf("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive")
	}
	return nil
}

func (c *CreateView) options(t *Table) error {
	var err error
	if t.Options, err = applyProperties(c.release(), DefaultTableOptions(), c.Properties, true); err != nil {
		return err
	}
	if t.Options.DefaultTTL != 0 {
		return dberr.Invalidf("Cannot set default_time_to_live for a materialized view. Data in a materialized view always " +
			"expire at the same time than the corresponding data in the parent table.")
	}
	t.UUID, err = (&CreateTable{ID: c.ID, Properties: c.Properties}).uuid()
	return err
}

// view returns the view to alter or drop. If the view does not exist and the statement has IF EXISTS, view returns nil
// without an error.
func (s *Schema) view(keyspace, name string, ifExists bool) (*Table, error) {
	if err := checkUserKeyspace(keyspace); err != nil {
		return nil, err
	}
	if t := s.Table(keyspace, name); t != nil && t.View != nil {
		return t, nil
	}
	if ifExists {
		return nil, nil
	}
	return nil, dberr.Invalidf("Materialized view '%s.%s' doesn't exist", keyspace, name)
}

func (c *AlterView) apply(s *Schema) (*Schema, []Event, error) {
	old, err := s.view(c.Keyspace, c.Name, c.IfExists)
	if old == nil {
		return s, nil, err
	}
	t := old.clone()
	if t.Options, err = applyProperties(c.release(), old.Options, c.Properties, false); err != nil {
		return nil, nil, err
	}
	switch {
	case slices.ContainsFunc(c.Properties, func(p Property) bool { return p.Name == propertyID }):
		return nil, nil, dberr.Configf("Cannot alter table id.")
	case t.Options.GCGrace == 0:
		return nil, nil, dberr.Invalidf("Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used " +
			"to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire before " +
			"being replayed.")
	case t.Options.DefaultTTL > 0:
		return nil, nil, dberr.Invalidf("Forbidden default_time_to_live detected for a materialized view. Data in a " +
			"materialized view always expire at the same time than the corresponding data in the parent table. " +
			"default_time_to_live must be set to zero, see CASSANDRA-12868 for more information")
	}
	return s.withKeyspace(s.Keyspaces[c.Keyspace].withTable(t)),
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}}, nil
}

func (c *DropView) apply(s *Schema) (*Schema, []Event, error) {
	t, err := s.view(c.Keyspace, c.Name, c.IfExists)
	if t == nil {
		return s, nil, err
	}
	ks := s.Keyspaces[c.Keyspace].withoutTable(c.Name)
	events := []Event{{Change: Dropped, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}}
	if base := ks.Tables[t.View.Base]; base != nil {
		base = base.clone()
		delete(base.Indexes, hintsName(c.Name))
		ks = ks.withTable(base)
		events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: base.Name})
	}
	return s.withKeyspace(ks), events, nil
}

// withoutTable returns a keyspace without the table with the given name.
func (k *Keyspace) withoutTable(name string) *Keyspace {
	next := *k
	next.Tables = make(map[string]*Table, len(k.Tables))
	for n, t := range k.Tables {
		if n != name {
			next.Tables[n] = t
		}
	}
	return &next
}

// checkAlter rejects changes of a base table that are incompatible with its views.
func (c *AlterTable) checkAlter(ks *Keyspace, t *Table) error {
	views := ks.ViewsOf(c.Name)
	if len(views) == 0 {
		return nil
	}
	if c.Op == SetOptions && t.Options.GCGrace == 0 {
		return dberr.Invalidf("Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value " +
			"is used to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire " +
			"before being replayed.")
	}
	for _, v := range views {
		for i := range c.Add {
			if c.Op == AddColumns && v.View.AllColumns && c.Add[i].Static && t.ByName[c.Add[i].Name] != nil {
				return dberr.Invalidf("Cannot add static column '%s' to base table '%s' because its materialized view '%s' "+
					"selects all columns", c.Add[i].Name, c.Name, v.Name)
			}
		}
	}
	return nil
}

// followMask gives a view's column the mask of the base table's column.
func (c *AlterTable) alterViews(ks *Keyspace, t *Table) (*Keyspace, []Event, error) {
	var events []Event
	for _, old := range ks.ViewsOf(c.Name) {
		v := old.clone()
		changed := false
		if c.Op == AddColumns && old.View.AllColumns {
			for i := range c.Add {
				from := t.ByName[c.Add[i].Name]
				if from == nil || v.ByName[from.Name] != nil {
					continue
				}
				col := &Column{Name: from.Name, ID: v.NextColumn, Type: from.Type, Kind: Regular, Position: -1,
					Mask: from.Mask}
				v.NextColumn++
				v.Regulars = insertColumn(v.Regulars, col)
				v.ByName[col.Name] = col
				changed = true
			}
		}
		if c.Op == RenameColumns {
			changed = renameKeys(v, c.Rename)
		}
		if c.Op == AlterMask {
			changed = followMask(v, t.ByName[c.Column])
		}
		if !changed {
			continue
		}
		v.Secret = t.Secret
		if err := checkTableSize(v); err != nil {
			return nil, nil, err
		}
		ks = ks.withTable(v)
		events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: v.Name})
	}
	return ks, events, nil
}

// followMask sets the mask of a view's column to the mask of the base table's column. The view must not be shared.
func followMask(t *Table, from *Column) (changed bool) {
	if from == nil {
		return false
	}
	for _, part := range [][]*Column{t.PartitionKey, t.Clustering, t.Regulars} {
		for i, col := range part {
			if col.Name == from.Name {
				masked := *col
				masked.Mask = from.Mask
				part[i], changed = &masked, true
			}
		}
	}
	t.reindex()
	return changed
}

// renameKeys renames key columns of a view. The view must not be shared.
func renameKeys(t *Table, renames []RenameSpec) (changed bool) {
	view := *t.View
	view.Where = slices.Clone(view.Where)
	for _, r := range renames {
		for _, part := range [][]*Column{t.PartitionKey, t.Clustering} {
			for i, col := range part {
				if col.Name == r.From {
					renamed := *col
					renamed.Name = r.To
					part[i], changed = &renamed, true
				}
			}
		}
		for i := range view.Where {
			columns := slices.Clone(view.Where[i].Columns)
			for n, name := range columns {
				if name == r.From {
					columns[n] = r.To
				}
			}
			view.Where[i].Columns = columns
		}
	}
	t.View = &view
	t.reindex()
	return changed
}
