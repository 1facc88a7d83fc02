// SPDX-License-Identifier: Apache-2.0

// Package release says in what the answers of Cassandra's releases differ: one field for each choice, decided here and
// nowhere else. Whoever answers asks its field; nobody compares releases. What a later release only adds (a function, a
// statement, a type) is no choice: it is there in all of them. See docs/rfcs/0026-cassandra-releases.md.
package release

import "fmt"

// Release is whose answers are given. It is immutable; Cassandra40 and Cassandra50 are the ones there are.
type Release struct {
	// Name is what the option compatibility says, such as 4.0.
	Name string
	// Version and CQLVersion are what clients are told that the server is.
	Version, CQLVersion string

	// OldTimeFunctions: there are dateOf and unixTimestampOf.
	OldTimeFunctions bool
	// CamelCasts: texts name the function behind CAST castAsInt, else cast_as_int.
	CamelCasts bool
	// CastsToDisambiguate: the text about operands whose types are not known says so, else it asks for a type hint.
	CastsToDisambiguate bool
	// CamelCellMeta: texts name the functions writeTime and maxWriteTime, else as results do, in lower case.
	CamelCellMeta bool
	// LiteralTexts: the text about a list literal for what is no list names the column, else the kinds of types.
	LiteralTexts bool
	// RefusesIn: regular and static columns are not restricted by IN, else ALLOW FILTERING is needed for it.
	RefusesIn bool
	// OneCellMeta: writetime and ttl are refused for collections and null for user-defined types; else, where a column
	// has several cells, they are lists.
	OneCellMeta bool
	// BlobExtremes: min and max of collections, tuples and user-defined types compare bytes and give a blob, else they
	// compare values and give the type.
	BlobExtremes bool
	// SnapshotOptions: DESCRIBE shows allow_auto_snapshot, incremental_backups and memtable at their defaults, too.
	SnapshotOptions bool
	// OldCompression: sstable_compression names the class of compression, and crc_check_chance is an option of it.
	OldCompression bool
	// FactorRequired: a replication strategy without a factor is refused, else it has one replica.
	FactorRequired bool
	// OldOrderTexts: the texts about CLUSTERING ORDER BY what is no clustering column do not name it.
	OldOrderTexts bool
	// VirtualTexts: texts tell virtual keyspaces from system keyspaces.
	VirtualTexts bool
	// Misspells: the text about altering the type of a field says Alterting, and that about an unknown field names the
	// keyspace for the type.
	Misspells bool
	// LooseReAdd: a dropped column may be added again with a type whose values have another length.
	LooseReAdd bool
	// OldJSON: toJson is for SELECT only, errors of fromJson say whose they are, and texts are of an older parser.
	OldJSON bool
	// RefusesContains: an UPDATE by CONTAINS is refused as such, else for what column it is.
	RefusesContains bool
	// LaterTables: the system keyspaces have the tables and columns of 5.0, and system_schema.column_masks among them.
	LaterTables bool
	// FiltersVirtual: computed tables are filtered without ALLOW FILTERING.
	FiltersVirtual bool
	// DateTiered: there is DateTieredCompactionStrategy.
	DateTiered bool
	// LocalIsConfiguration: LocalStrategy is refused as a bad configuration, else as an invalid request.
	LocalIsConfiguration bool
	// OneDefinition: the text about a property that is given twice says Multiple definition, else definitions.
	OneDefinition bool
	// NoEntryLists: the text about restricting the element of a list says that it is no map, else that such elements
	// are not indexed.
	NoEntryLists bool
	// WarnsOfUse: the first PREPARE of a connection after USE that names a table without its keyspace has a warning.
	WarnsOfUse bool
	// CustomByWord: an index is a custom one if CUSTOM says so, and then has to have a class; else if it has a class.
	CustomByWord bool
	// PlainOrderText: the text about ORDER BY beside an index does not speak of nearest vectors.
	PlainOrderText bool
	// ExecutionOf: the text about a user-defined function that failed names it, else it is what was thrown alone.
	ExecutionOf bool
	// CellSizes: of the size of a batch only cells and clustering columns count.
	CellSizes bool
	// FixedCompact: a table WITH COMPACT STORAGE gets no columns, and stays one unless DROP COMPACT STORAGE is enabled.
	FixedCompact bool
	// FunctionsDisabled and UnknownLanguage are the texts where user-defined functions are switched off, and about a
	// language that they cannot be written in.
	FunctionsDisabled, UnknownLanguage string
}

// The releases.
var (
	Cassandra40 = &Release{
		Name:                 "4.0",
		Version:              "4.0.11",
		CQLVersion:           "3.4.5",
		OldTimeFunctions:     true,
		CamelCasts:           true,
		CastsToDisambiguate:  true,
		CamelCellMeta:        true,
		LiteralTexts:         true,
		RefusesIn:            true,
		OneCellMeta:          true,
		BlobExtremes:         true,
		OldCompression:       true,
		FactorRequired:       true,
		LooseReAdd:           true,
		OldOrderTexts:        true,
		VirtualTexts:         true,
		Misspells:            true,
		OldJSON:              true,
		CustomByWord:         true,
		PlainOrderText:       true,
		ExecutionOf:          true,
		DateTiered:           true,
		LocalIsConfiguration: true,
		OneDefinition:        true,
		NoEntryLists:         true,
		CellSizes:            true,
		FunctionsDisabled: "User-defined functions are disabled in cassandra.yaml - set " +
			"enable_user_defined_functions=true to enable",
		UnknownLanguage: "Functions are written in the languages java and javascript",
	}
	Cassandra50 = &Release{
		Name:            "5.0",
		Version:         "5.0.0", // what cqlsh 6.2 was built against: it warns of all others
		CQLVersion:      "3.4.7",
		RefusesContains: true,
		LaterTables:     true,
		FiltersVirtual:  true,
		SnapshotOptions: true,
		WarnsOfUse:      true,
		FixedCompact:    true,
		FunctionsDisabled: "User-defined functions are disabled in cassandra.yaml - set " +
			"user_defined_functions_enabled=true to enable",
		UnknownLanguage: "Currently only Java UDFs are available in Cassandra. For more information - CASSANDRA-18252 " +
			"and CASSANDRA-17281",
	}
)

// Parse finds a release by its name; the empty name is 5.0. The error says which there are.
func Parse(name string) (*Release, error) {
	switch name {
	case Cassandra40.Name:
		return Cassandra40, nil
	case "", Cassandra50.Name:
		return Cassandra50, nil
	}
	return nil, fmt.Errorf(`compatibility %q is none of "4.0" and "5.0"`, name)
}
