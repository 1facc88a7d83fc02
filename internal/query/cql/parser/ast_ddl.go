// SPDX-License-Identifier: Apache-2.0

package parser

// Property is one `name = value` property in a WITH clause. The names in a clause are unique.
type Property struct {
	Name Ident
	// IsMap reports whether the value is a map. For a map, Map holds the entries in source order. Otherwise, Value
	// holds the value. An unquoted, unreserved keyword is represented by a StringConstant.
	IsMap bool
	Value Constant
	Map   []PropertyEntry
}

// PropertyEntry is one entry of a map property. Key and Value are the texts of constants without quotes. The keys of a
// map are unique.
type PropertyEntry struct{ Key, Value string }

// CreateKeyspace is the CREATE KEYSPACE statement.
type CreateKeyspace struct {
	IfNotExists bool
	Name        Ident
	Properties  []Property
}

// AlterKeyspace is the ALTER KEYSPACE statement.
type AlterKeyspace struct {
	IfExists   bool
	Name       Ident
	Properties []Property
}

// DropKeyspace is the DROP KEYSPACE statement.
type DropKeyspace struct {
	IfExists bool
	Name     Ident
}

// CreateTable is the CREATE TABLE statement. The parser does not check the number of primary keys or the uniqueness of
// names.
type CreateTable struct {
	IfNotExists bool
	Name        QualifiedName
	Columns     []ColumnDef
	// PrimaryKeys holds the PRIMARY KEY (..) clauses in source order. If a column definition contains PRIMARY KEY,
	// Columns marks the column.
	PrimaryKeys []PrimaryKey
	Options     TableOptions
}

// ColumnDef declares a column.
type ColumnDef struct {
	Name       Ident
	Type       *TypeName
	Static     bool
	PrimaryKey bool
	// Mask is the column's data mask (Cassandra 5.0), or nil.
	Mask *Mask
}

// Mask is the clause MASKED WITH DEFAULT or MASKED WITH function(args). For MASKED WITH DEFAULT, Function.Name.Name is
// empty.
type Mask struct {
	Function QualifiedName
	Args     []Term
}

// PrimaryKey is the clause PRIMARY KEY ((partition), clustering).
type PrimaryKey struct {
	Partition  []Ident
	Clustering []Ident
}

// TableOptions holds the WITH clause of a table or materialized view.
type TableOptions struct {
	CompactStorage  bool
	ClusteringOrder []ClusteringOrder
	Properties      []Property
}

// ClusteringOrder is one column of CLUSTERING ORDER BY.
type ClusteringOrder struct {
	Column     Ident
	Descending bool
}

// AlterTableKind is the kind of an ALTER TABLE statement.
type AlterTableKind uint8

// These are the kinds of ALTER TABLE statements.
const (
	// AlterColumnType is ALTER c TYPE t, which Cassandra parses and rejects.
	AlterColumnType AlterTableKind = iota + 1
	AddColumns
	DropColumns
	RenameColumns
	AlterOptions
	DropCompactStorage
	// MaskColumn and UnmaskColumn are Cassandra 5.0's ALTER c MASKED WITH .. and ALTER c DROP MASKED.
	MaskColumn
	UnmaskColumn
)

// AlterTable is the ALTER TABLE statement. Kind determines which fields are set.
type AlterTable struct {
	IfExists bool
	Name     QualifiedName
	Kind     AlterTableKind
	// IfColumn reports whether the statement contains IF EXISTS or IF NOT EXISTS after ADD, DROP, RENAME, or ALTER
	// (Cassandra 4.1).
	IfColumn bool
	// Column is set for AlterColumnType, MaskColumn, and UnmaskColumn. AlterColumnType also sets Type, and MaskColumn
	// also sets Mask.
	Column Ident
	Type   *TypeName
	Mask   *Mask
	// Added is set for AddColumns, and Dropped is set for DropColumns.
	Added   []ColumnDef
	Dropped []Ident
	// DropTimestamp is the value of DROP .. USING TIMESTAMP in microseconds. It is an integer *Constant or nil.
	DropTimestamp Term
	Renames       []Rename
	Properties    []Property
}

// Rename is the renaming of a column or a field.
type Rename struct{ From, To Ident }

// DropTable is the DROP TABLE statement.
type DropTable struct {
	IfExists bool
	Name     QualifiedName
}

// CreateType is the CREATE TYPE statement.
type CreateType struct {
	IfNotExists bool
	Name        QualifiedName
	Fields      []FieldDef
}

// FieldDef declares a field of a user-defined type.
type FieldDef struct {
	Name Ident
	Type *TypeName
}

// AlterTypeKind is the kind of an ALTER TYPE statement.
type AlterTypeKind uint8

// These are the kinds of ALTER TYPE statements.
const (
	AddField AlterTypeKind = iota + 1
	RenameFields
	// AlterFieldType is ALTER f TYPE t, which Cassandra parses and rejects.
	AlterFieldType
)

// AlterType is the ALTER TYPE statement. Field is set for AddField and AlterFieldType. Renames is set for RenameFields.
type AlterType struct {
	IfExists bool
	Name     QualifiedName
	Kind     AlterTypeKind
	// IfField reports whether the statement contains IF EXISTS or IF NOT EXISTS after ADD, RENAME, or ALTER (Cassandra
	// 4.1).
	IfField bool
	Field   FieldDef
	Renames []Rename
}

// DropType is the DROP TYPE statement.
type DropType struct {
	IfExists bool
	Name     QualifiedName
}

// IndexTargetKind is the part of a column that an index covers.
type IndexTargetKind uint8

// These are the kinds of index targets.
const (
	IndexColumn IndexTargetKind = iota
	IndexValues
	IndexKeys
	IndexEntries
	IndexFull
)

// IndexTarget is one target of an index.
type IndexTarget struct {
	Kind   IndexTargetKind
	Column Ident
}

// CreateIndex is the CREATE [CUSTOM] INDEX statement.
type CreateIndex struct {
	Custom      bool
	IfNotExists bool
	// Name is the name of the index, or empty. As in Cassandra, the name may include a keyspace.
	Name       QualifiedName
	Table      QualifiedName
	Targets    []IndexTarget
	Class      string // the class in USING 'class'
	HasClass   bool
	Properties []Property
}

// DropIndex is the DROP INDEX statement.
type DropIndex struct {
	IfExists bool
	Name     QualifiedName
}

// CreateView is the CREATE MATERIALIZED VIEW statement.
type CreateView struct {
	IfNotExists bool
	Name        QualifiedName
	// Selectors is empty for SELECT *.
	Selectors  []Selector
	Table      QualifiedName
	Where      []Relation
	PrimaryKey PrimaryKey
	Options    TableOptions
}

// AlterView is the ALTER MATERIALIZED VIEW statement.
type AlterView struct {
	IfExists   bool
	Name       QualifiedName
	Properties []Property
}

// DropView is the DROP MATERIALIZED VIEW statement.
type DropView struct {
	IfExists bool
	Name     QualifiedName
}

// CreateFunction is the CREATE FUNCTION statement.
type CreateFunction struct {
	OrReplace         bool
	IfNotExists       bool
	Name              QualifiedName
	Args              []FieldDef
	CalledOnNullInput bool
	Returns           *TypeName
	Language          string // in lower case
	Body              string
}

// DropFunction is the DROP FUNCTION statement. HasArgs distinguishes `f()` from `f`.
type DropFunction struct {
	IfExists bool
	Name     QualifiedName
	HasArgs  bool
	Args     []*TypeName
}

// CreateAggregate is the CREATE AGGREGATE statement. If the statement has no FINALFUNC, FinalFunc is empty. If the
// statement has no INITCOND, InitCond is nil.
type CreateAggregate struct {
	OrReplace   bool
	IfNotExists bool
	Name        QualifiedName
	Args        []*TypeName
	StateFunc   Ident
	StateType   *TypeName
	FinalFunc   Ident
	InitCond    Term
}

// DropAggregate is the DROP AGGREGATE statement. HasArgs distinguishes `a()` from `a`.
type DropAggregate struct {
	IfExists bool
	Name     QualifiedName
	HasArgs  bool
	Args     []*TypeName
}

// CreateTrigger is the statement CREATE TRIGGER .. ON .. USING 'class'.
type CreateTrigger struct {
	IfNotExists bool
	Name        Ident
	Table       QualifiedName
	Class       string
}

// DropTrigger is the statement DROP TRIGGER .. ON.
type DropTrigger struct {
	IfExists bool
	Name     Ident
	Table    QualifiedName
}

func (*CreateKeyspace) statement()  {}
func (*AlterKeyspace) statement()   {}
func (*DropKeyspace) statement()    {}
func (*CreateTable) statement()     {}
func (*AlterTable) statement()      {}
func (*DropTable) statement()       {}
func (*CreateType) statement()      {}
func (*AlterType) statement()       {}
func (*DropType) statement()        {}
func (*CreateIndex) statement()     {}
func (*DropIndex) statement()       {}
func (*CreateView) statement()      {}
func (*AlterView) statement()       {}
func (*DropView) statement()        {}
func (*CreateFunction) statement()  {}
func (*DropFunction) statement()    {}
func (*CreateAggregate) statement() {}
func (*DropAggregate) statement()   {}
func (*CreateTrigger) statement()   {}
func (*DropTrigger) statement()     {}
