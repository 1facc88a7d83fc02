// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// ColumnSpec declares a column.
type ColumnSpec struct {
	Name   string
	Type   *TypeSpec
	Static bool
	Mask   *MaskSpec
}

// OrderSpec is one column in CLUSTERING ORDER BY.
type OrderSpec struct {
	Column string
	Desc   bool
}

// CreateTable represents the statement CREATE TABLE.
type CreateTable struct {
	Stamp
	Keyspace    string
	Name        string
	IfNotExists bool
	// ID becomes the table's UUID, unless the property "id" specifies one.
	ID             UUID
	Columns        []ColumnSpec
	PartitionKey   []string
	Clustering     []string
	Order          []OrderSpec
	CompactStorage bool
	Properties     []Property
	// NoFeeds has the same meaning as in AlterTable.
	NoFeeds bool
}

// DropTable represents the statement DROP TABLE.
type DropTable struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
	// Check, if not nil, can reject the change. Its argument is the schema to which the change is applied.
	Check func(s *Schema) error
}

func (c *CreateTable) apply(s *Schema) (*Schema, []Event, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil, noKeyspace(c.Keyspace)
	}
	if ks.Tables[c.Name] != nil {
		if c.IfNotExists {
			return s, nil, nil
		}
		return nil, nil, &dberr.AlreadyExists{
			Keyspace: c.Keyspace, Table: c.Name,
			Message: `Cannot add already existing table "` + c.Name + `" to keyspace "` + c.Keyspace + `"`,
		}
	}
	t, err := c.build(ks)
	if err != nil {
		return nil, nil, err
	}
	for other := range s.All() {
		for _, o := range other.Tables {
			if o.UUID == t.UUID {
				return nil, nil, dberr.Configf("Table ID %s is already used by %s", t.UUID, o)
			}
		}
	}
	t.ID = s.NextID
	t.setFeed(nil, c.At/1e6, 0, !c.NoFeeds)
	next := s.withKeyspace(ks.withTable(t))
	next.NextID++
	return next, []Event{{Change: Created, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}}, nil
}

func (c *DropTable) apply(s *Schema) (*Schema, []Event, error) {
	if c.Check != nil {
		if err := c.Check(s); err != nil {
			return nil, nil, err
		}
	}
	t := s.Table(c.Keyspace, c.Name)
	if t == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, noTable(c.Keyspace, c.Name)
	}
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if t.View != nil {
		return nil, nil, dberr.Invalidf("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED " +
			"VIEW instead.")
	}
	if len(ks.ViewsOf(c.Name)) > 0 {
		return nil, nil, dberr.Invalidf("Cannot drop a table when materialized views still depend on it (%s)",
			c.Keyspace)
	}
	return s.withKeyspace(ks.withoutTable(c.Name)),
		[]Event{{Change: Dropped, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}}, nil
}

func noTable(keyspace, name string) error {
	return dberr.Invalidf("Table '%s.%s' doesn't exist", keyspace, name)
}

// build returns the table without its ID.
func (c *CreateTable) build(ks *Keyspace) (*Table, error) {
	options, err := applyProperties(c.release(), DefaultTableOptions(), c.Properties, true)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Keyspace: c.Keyspace, Name: c.Name, UUID: c.ID, Options: options, CompactStorage: c.CompactStorage,
		NextColumn: 1,
		Indexes:    map[string]*Index{},
	}
	if t.UUID, err = c.uuid(); err != nil {
		return nil, err
	}
	columns, err := c.bindColumns(t, ks)
	if err != nil {
		return nil, err
	}
	if err := c.splitColumns(t, columns); err != nil {
		return nil, err
	}
	for _, check := range []func(*Table) error{c.checkStatics, c.checkCounters, c.checkOrder, c.checkCompact,
		checkTableSize} {
		if err := check(t); err != nil {
			return nil, err
		}
	}
	if err := checkTableName(c.Keyspace, c.Name); err != nil {
		return nil, err
	}
	for col := range t.Columns() {
		col.ID = t.NextColumn
		t.NextColumn++
	}
	t.reindex()
	return t, nil
}

func checkTableName(keyspace, name string) error {
	if len(name) <= TableNameMax && wordCharacters.MatchString(name) {
		return nil
	}
	limit := KeyspaceNameMax
	if len(name) > TableNameMax {
		limit = TableNameMax
	}
	return dberr.Configf("%s.%s: Table name must not be empty, more than %d characters long, or contain "+
		"non-alphanumeric-underscore characters (got \"%s\")",
		keyspace, name, limit, name)
}

func (c *CreateTable) uuid() (UUID, error) {
	for i := range c.Properties {
		if p := &c.Properties[i]; p.Name == propertyID {
			id, ok := ParseUUID(strings.ToLower(p.Value))
			if !ok {
				return UUID{}, dberr.Configf("Invalid table id")
			}
			return id, nil
		}
	}
	return c.ID, nil
}

// bindColumns resolves the types of the columns in the order of the column names, as in Cassandra. The order
// determines which error is returned first.
func (c *CreateTable) bindColumns(t *Table, ks *Keyspace) (map[string]*Column, error) {
	sorted := slices.Clone(c.Columns)
	slices.SortStableFunc(sorted, func(a, b ColumnSpec) int { return cmp.Compare(a.Name, b.Name) })
	columns := make(map[string]*Column, len(sorted))
	for _, spec := range sorted {
		if columns[spec.Name] != nil {
			return nil, dberr.Invalidf("Duplicate column '%s' declaration for table '%s'", spec.Name, c.Name)
		}
		typ, err := spec.Type.Bind(c.Keyspace, ks.Types)
		if err != nil {
			return nil, err
		}
		if err := checkColumnType(typ); err != nil {
			return nil, err
		}
		col := &Column{Name: spec.Name, Type: typ, Kind: Regular, Position: -1}
		if spec.Static {
			col.Kind = Static
		}
		if err := t.mask(ks, col, spec.Mask); err != nil {
			return nil, err
		}
		columns[spec.Name] = col
	}
	return columns, nil
}

// checkColumnType rejects a multi-cell UDT that contains a multi-cell type.
func checkColumnType(t *cqltype.Type) error {
	if t.Kind == cqltype.UDT && t.MultiCell() && slices.ContainsFunc(t.Elems, (*cqltype.Type).MultiCell) {
		return dberr.Invalidf("Non-frozen UDTs with nested non-frozen collections are not supported")
	}
	return nil
}

// splitColumns validates the primary key and assigns every column to its part.
func (c *CreateTable) splitColumns(t *Table, columns map[string]*Column) error {
	if len(c.PartitionKey) == 0 {
		return dberr.Invalidf("No PRIMARY KEY specifed for table '%s' (exactly one required)", c.Name)
	}
	seen := map[string]bool{}
	keys := slices.Concat(c.PartitionKey, c.Clustering)
	for _, name := range keys {
		if columns[name] == nil {
			return dberr.Invalidf("Unknown column '%s' referenced in PRIMARY KEY for table '%s'", name, c.Name)
		}
		if seen[name] {
			return dberr.Invalidf("Duplicate column '%s' in PRIMARY KEY clause for table '%s'", name, c.Name)
		}
		seen[name] = true
	}
	for i, name := range keys {
		col := columns[name]
		if err := checkKeyColumn(col); err != nil {
			return err
		}
		if i < len(c.PartitionKey) {
			col.Kind, col.Position = PartitionKey, i
			t.PartitionKey = append(t.PartitionKey, col)
		} else {
			col.Kind, col.Position = Clustering, i-len(c.PartitionKey)
			t.Clustering = append(t.Clustering, col)
		}
	}
	for _, col := range columns {
		switch col.Kind {
		case Static:
			t.Statics = insertColumn(t.Statics, col)
		case Regular:
			t.Regulars = insertColumn(t.Regulars, col)
		}
	}
	return nil
}

func checkKeyColumn(col *Column) error {
	t := col.Type
	switch {
	case col.Kind == Static:
		return dberr.Invalidf("Static column '%s' cannot be part of the PRIMARY KEY", col.Name)
	case t.Kind == cqltype.Counter:
		return dberr.Invalidf("counter type is not supported for PRIMARY KEY column '%s'", col.Name)
	case t.Contains(cqltype.Duration):
		return dberr.Invalidf("duration type is not supported for PRIMARY KEY column '%s'", col.Name)
	case t.MultiCell() && t.IsCollection():
		return dberr.Invalidf("Invalid non-frozen collection type %s for PRIMARY KEY column '%s'", t, col.Name)
	case t.MultiCell():
		return dberr.Invalidf("Invalid non-frozen user-defined type \"%s.%s\" for PRIMARY KEY column '%s'", t.Keyspace,
			t.Name, col.Name)
	}
	return nil
}

// insertColumn adds a column to a slice sorted by name.
func insertColumn(columns []*Column, col *Column) []*Column {
	i, _ := slices.BinarySearchFunc(columns, col.Name, func(c *Column, name string) int {
		return strings.Compare(c.Name, name)
	})
	return slices.Insert(columns, i, col)
}

func (c *CreateTable) checkStatics(t *Table) error {
	if len(t.Statics) > 0 && len(t.Clustering) == 0 {
		return dberr.Invalidf("Static columns are only useful (and thus allowed) if the table has at least one " +
			"clustering column")
	}
	return nil
}

func (c *CreateTable) checkCounters(t *Table) error {
	values := slices.Concat(t.Statics, t.Regulars)
	counters := 0
	for _, col := range values {
		if col.Type.Kind == cqltype.Counter {
			counters++
		}
	}
	if counters == 0 {
		return nil
	}
	if counters < len(values) {
		return dberr.Invalidf("Cannot mix counter and non counter columns in the same table")
	}
	t.Counter = true
	return t.checkCounterTTL()
}

func (t *Table) checkCounterTTL() error {
	if t.Counter && t.Options.DefaultTTL > 0 {
		return dberr.Invalidf("Cannot set default_time_to_live on a table with counters")
	}
	return nil
}

// checkOrder validates CLUSTERING ORDER BY and sets the directions of the columns.
func (c *CreateTable) checkOrder(t *Table) error {
	if !c.release().OldOrderTexts {
		var other []string
		for _, o := range c.Order {
			if !slices.ContainsFunc(t.Clustering, func(col *Column) bool { return col.Name == o.Column }) {
				other = append(other, o.Column)
			}
		}
		if len(other) > 0 {
			return dberr.Invalidf("Only clustering key columns can be defined in CLUSTERING ORDER directive: [%s] "+
				"are not "+
				"clustering columns", strings.Join(other, ", "))
		}
	}
	if len(c.Order) > len(t.Clustering) {
		return dberr.Invalidf("Only clustering columns can be defined in CLUSTERING ORDER directive")
	}
	for i, o := range c.Order {
		col := t.Clustering[i]
		if o.Column == col.Name {
			col.Desc = o.Desc
			continue
		}
		if slices.ContainsFunc(c.Order, func(o OrderSpec) bool { return o.Column == col.Name }) {
			return dberr.Invalidf("The order of columns in the CLUSTERING ORDER directive must match that of the "+
				"clustering columns (%s must appear before %s)",
				col.Name, o.Column)
		}
		return dberr.Invalidf("Missing CLUSTERING ORDER for column %s", col.Name)
	}
	return nil
}

func (c *CreateTable) checkCompact(t *Table) error {
	if !c.CompactStorage {
		return nil
	}
	for col := range t.Columns() {
		if col.Type.MultiCell() {
			return dberr.Invalidf("Non-frozen collections and UDTs are not supported with COMPACT STORAGE")
		}
	}
	if len(t.Statics) > 0 {
		return dberr.Invalidf("Static columns are not supported in COMPACT STORAGE tables")
	}
	if len(t.Clustering) == 0 && len(t.Regulars) == 0 {
		return dberr.Invalidf("No definition found that is not part of the PRIMARY KEY")
	}
	if len(t.Clustering) > 0 && len(t.Regulars) > 1 {
		return dberr.Invalidf("COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part "+
			"of the PRIMARY KEY (got: %s)",
			joinNames(t.Regulars))
	}
	return nil
}

func joinNames(columns []*Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// Flags returns the sorted flags of the table in system_schema.tables.
func (t *Table) Flags() []string {
	var flags []string
	if !t.CompactStorage || len(t.Clustering) > 1 {
		flags = append(flags, "compound")
	}
	if t.Counter {
		flags = append(flags, "counter")
	}
	if t.dense() {
		flags = append(flags, "dense")
	}
	return flags
}

// dense reports whether the table has COMPACT STORAGE and clustering columns.
func (t *Table) dense() bool { return t.CompactStorage && len(t.Clustering) > 0 }

// RowsAreCells reports whether a row of the table exists only while the row has a cell. In such a table, an INSERT
// writes no row marker. In contrast, a compact table whose columns are all in the primary key has rows without cells,
// and therefore has row markers.
func (t *Table) RowsAreCells() bool { return t.CompactStorage && len(t.Regulars) > 0 }
