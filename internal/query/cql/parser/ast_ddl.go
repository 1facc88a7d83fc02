// SPDX-License-Identifier: Apache-2.0

package parser

// Property is one `name = value` of a WITH clause. Names are unique within a clause.
type Property struct {
	Name Ident
	// IsMap reports whether the value is a map. Map then holds the entries of the map in the order in which they are
	// written. Otherwise Value holds the value. A Value of kind StringConstant may also have been written as an
	// unquoted, unreserved keyword.
	IsMap bool
	Value Constant
	Map   []PropertyEntry
}

// PropertyEntry is one entry of a map property. Key and Value are the texts of constants without quotes. Keys are
// unique.
type PropertyEntry struct{ Key, Value string }

// CreateKeyspace is CREATE KEYSPACE.
type CreateKeyspace struct {
	IfNotExists bool
	Name        Ident
	Properties  []Property
}

// AlterKeyspace is ALTER KEYSPACE.
type AlterKeyspace struct {
	IfExists   bool
	Name       Ident
	Properties []Property
}

// DropKeyspace is DROP KEYSPACE.
type DropKeyspace struct {
	IfExists bool
	Name     Ident
}

// CreateTable is CREATE TABLE. The parser does not check the number of primary keys or the uniqueness of names.
type CreateTable struct {
	IfNotExists bool
	Name        QualifiedName
	Columns     []ColumnDef
	// PrimaryKeys holds the PRIMARY KEY (..) clauses in order. A column definition that contains a primary key is
	// marked in Columns.
	PrimaryKeys []PrimaryKey
	Options     TableOptions
}

// ColumnDef declares a column.
type ColumnDef struct {
	Name       Ident
	Type       *TypeName
	Static     bool
	PrimaryKey bool
	// Mask is the data mask of Cassandra 5.0, or nil.
	Mask *Mask
}

// Mask is MASKED WITH DEFAULT (Function.Name.Name is empty) or MASKED WITH function(args).
type Mask struct {
	Function QualifiedName
	Args     []Term
}

// PrimaryKey is PRIMARY KEY ((partition), clustering).
type PrimaryKey struct {
	Partition  []Ident
	Clustering []Ident
}

// TableOptions is the WITH clause of a table or a materialized view.
type TableOptions struct {
	CompactStorage  bool
	ClusteringOrder []ClusteringOrder
	Properties      []Property
}

// ClusteringOrder is one part of CLUSTERING ORDER BY.
type ClusteringOrder struct {
	Column     Ident
	Descending bool
}

// AlterTableKind is the kind of an ALTER TABLE.
type AlterTableKind uint8

// The kinds of ALTER TABLE.
const (
	// AlterColumnType is ALTER c TYPE t, which Cassandra parses and rejects.
	AlterColumnType AlterTableKind = iota + 1
	AddColumns
	DropColumns
	RenameColumns
	AlterOptions
	DropCompactStorage
	// MaskColumn and UnmaskColumn are ALTER c MASKED WITH .. and ALTER c DROP MASKED of Cassandra 5.0.
	MaskColumn
	UnmaskColumn
)

// AlterTable is ALTER TABLE. Kind determines which fields are set.
type AlterTable struct {
	IfExists bool
	Name     QualifiedName
	Kind     AlterTableKind
	// IfColumn is ADD IF NOT EXISTS, DROP IF EXISTS, RENAME IF EXISTS, or ALTER IF EXISTS of Cassandra 4.1.
	IfColumn bool
	// Column is set by AlterColumnType (with Type), MaskColumn (with Mask), and UnmaskColumn.
	Column Ident
	Type   *TypeName
	Mask   *Mask
	// Added is set by AddColumns, and Dropped by DropColumns.
	Added   []ColumnDef
	Dropped []Ident
	// DropTimestamp is the value of DROP .. USING TIMESTAMP in microseconds, an integer *Constant, or nil.
	DropTimestamp Term
	Renames       []Rename
	Properties    []Property
}

// Rename is a new name for a column or a field.
type Rename struct{ From, To Ident }

// DropTable is DROP TABLE.
type DropTable struct {
	IfExists bool
	Name     QualifiedName
}

// CreateType is CREATE TYPE.
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

// AlterTypeKind is the kind of an ALTER TYPE.
type AlterTypeKind uint8

// The kinds of ALTER TYPE.
const (
	AddField AlterTypeKind = iota + 1
	RenameFields
	// AlterFieldType is ALTER f TYPE t, which Cassandra parses and rejects.
	AlterFieldType
)

// AlterType is ALTER TYPE. Field is set by AddField and AlterFieldType, and Renames by RenameFields.
type AlterType struct {
	IfExists bool
	Name     QualifiedName
	Kind     AlterTypeKind
	// IfField is ADD IF NOT EXISTS, RENAME IF EXISTS, or ALTER IF EXISTS of Cassandra 4.1.
	IfField bool
	Field   FieldDef
	Renames []Rename
}

// DropType is DROP TYPE.
type DropType struct {
	IfExists bool
	Name     QualifiedName
}

// IndexTargetKind is the part of a column that an index covers.
type IndexTargetKind uint8

// The kinds of index targets.
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

// CreateIndex is CREATE [CUSTOM] INDEX.
type CreateIndex struct {
	Custom      bool
	IfNotExists bool
	// Name is empty if the statement does not contain a name. As in Cassandra, the name may be qualified with a
	// keyspace.
	Name       QualifiedName
	Table      QualifiedName
	Targets    []IndexTarget
	Class      string // class in USING 'class'
	HasClass   bool
	Properties []Property
}

// DropIndex is DROP INDEX.
type DropIndex struct {
	IfExists bool
	Name     QualifiedName
}

// CreateView is CREATE MATERIALIZED VIEW.
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

// AlterView is ALTER MATERIALIZED VIEW.
type AlterView struct {
	IfExists   bool
	Name       QualifiedName
	Properties []Property
}

// DropView is DROP MATERIALIZED VIEW.
type DropView struct {
	IfExists bool
	Name     QualifiedName
}

// CreateFunction is CREATE FUNCTION.
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

// DropFunction is DROP FUNCTION. HasArgs distinguishes `f()` from `f`.
type DropFunction struct {
	IfExists bool
	Name     QualifiedName
	HasArgs  bool
	Args     []*TypeName
}

// CreateAggregate is CREATE AGGREGATE. FinalFunc is empty and InitCond is nil if the statement does not contain them.
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

// DropAggregate is DROP AGGREGATE. HasArgs distinguishes `a()` from `a`.
type DropAggregate struct {
	IfExists bool
	Name     QualifiedName
	HasArgs  bool
	Args     []*TypeName
}

// CreateTrigger is CREATE TRIGGER .. ON .. USING 'class'.
type CreateTrigger struct {
	IfNotExists bool
	Name        Ident
	Table       QualifiedName
	Class       string
}

// DropTrigger is DROP TRIGGER .. ON.
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
