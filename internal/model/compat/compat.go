// SPDX-License-Identifier: Apache-2.0

// Package compat defines the behavioral differences between Cassandra releases that Ilion can emulate. Each difference
// is one field of Release. Code that depends on a difference reads the field. The code never compares releases. All
// emulated releases have the features that a later release only adds, such as functions, statements, and types. See
// docs/rfcs/0026-cassandra-releases.md.
package compat

import "fmt"

// Release is an emulated Cassandra release. A Release is immutable. Cassandra40 and Cassandra50 are the supported
// releases.
type Release struct {
	// Name is the value of the option compatibility, such as 4.0.
	Name string
	// Version and CQLVersion are the versions that the server reports to clients.
	Version, CQLVersion string

	// OldTimeFunctions enables dateOf and unixTimestampOf.
	OldTimeFunctions bool
	// CamelCasts makes error texts name the function of a CAST castAsInt instead of cast_as_int.
	CamelCasts bool
	// CastsToDisambiguate makes the error for operands of unknown types suggest a cast instead of a type hint.
	CastsToDisambiguate bool
	// CamelCellMeta makes error texts name the functions writeTime and maxWriteTime. Otherwise, error texts use lower
	// case, as results do.
	CamelCellMeta bool
	// LiteralTexts changes the error for a list literal of a type other than list. The error names the column instead
	// of the kinds of types.
	LiteralTexts bool
	// RejectsIn rejects IN restrictions on regular and static columns. Otherwise, such a restriction requires ALLOW
	// FILTERING.
	RejectsIn bool
	// SingleCellMeta makes writetime and ttl return an error for collections and null for user-defined types.
	// Otherwise, they return lists for columns with several cells.
	SingleCellMeta bool
	// MinMaxAsBlob makes min and max of collections, tuples, and user-defined types compare bytes and return a blob.
	// Otherwise, they compare values and return the column's type.
	MinMaxAsBlob bool
	// SnapshotOptions makes DESCRIBE also show allow_auto_snapshot, incremental_backups, and memtable with their
	// defaults.
	SnapshotOptions bool
	// OldCompression makes sstable_compression the name of the compression class, and crc_check_chance a compression
	// option.
	OldCompression bool
	// FactorRequired rejects a replication strategy without a replication factor. Otherwise, the factor defaults to 1.
	FactorRequired bool
	// OldOrderTexts changes the error for CLUSTERING ORDER BY on a column that is not a clustering column. The error
	// does not name the column.
	OldOrderTexts bool
	// VirtualTexts makes error texts distinguish between virtual keyspaces and system keyspaces.
	VirtualTexts bool
	// MisspelledTexts makes the error for a change of a field's type contain "Alterting". It also makes the error for
	// an unknown field name the keyspace instead of the type.
	MisspelledTexts bool
	// LooseReAdd allows a dropped column to be added again with a type whose values have a different length.
	LooseReAdd bool
	// WideFloatCasts makes CAST(f AS decimal) convert a float to a double first, so 1.1 becomes 1.100000023841858.
	WideFloatCasts bool
	// OldJSON restricts toJson to SELECT and makes errors of fromJson name the function. It also selects the error
	// texts of an older JSON parser.
	OldJSON bool
	// RejectsContains makes an UPDATE with CONTAINS fail because of CONTAINS. Otherwise, the error depends on the
	// column.
	RejectsContains bool
	// Tables50 makes the system keyspaces contain the tables and columns of 5.0, including system_schema.column_masks.
	Tables50 bool
	// FiltersVirtual allows filtering of virtual tables without ALLOW FILTERING.
	FiltersVirtual bool
	// DateTiered enables DateTieredCompactionStrategy.
	DateTiered bool
	// LocalIsConfiguration makes LocalStrategy a configuration error instead of an invalid request.
	LocalIsConfiguration bool
	// OneDefinition makes the error for a duplicate property say "Multiple definition" instead of "Multiple
	// definitions".
	OneDefinition bool
	// NoEntryLists makes the error for a restriction on a list element report that the column is not a map. Otherwise,
	// it reports that list elements are not indexed.
	NoEntryLists bool
	// WarnsOfUse returns a warning for a connection's first PREPARE after USE if the statement names a table without
	// its keyspace.
	WarnsOfUse bool
	// CustomKeyword makes an index a custom index if CUSTOM is specified. In this case, a class is required.
	// Otherwise, an index is a custom index if it has a class.
	CustomKeyword bool
	// PlainOrderText makes the error for ORDER BY with an index omit nearest vectors.
	PlainOrderText bool
	// NamesFailedFunction makes the error of a failed user-defined function name the function. Otherwise, the error
	// text contains only the exception.
	NamesFailedFunction bool
	// CellSizes makes the size of a batch count only cells and clustering columns.
	CellSizes bool
	// FixedCompact rejects new columns in a table WITH COMPACT STORAGE. To convert such a table, DROP COMPACT STORAGE
	// must be enabled.
	FixedCompact bool
	// FunctionsDisabled is the error text for functions if user-defined functions are disabled. UnknownLanguage is the
	// error text for an unsupported language.
	FunctionsDisabled, UnknownLanguage string
}

// These are the supported releases.
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
		RejectsIn:            true,
		SingleCellMeta:       true,
		MinMaxAsBlob:         true,
		OldCompression:       true,
		FactorRequired:       true,
		LooseReAdd:           true,
		WideFloatCasts:       true,
		OldOrderTexts:        true,
		VirtualTexts:         true,
		MisspelledTexts:      true,
		OldJSON:              true,
		CustomKeyword:        true,
		PlainOrderText:       true,
		NamesFailedFunction:  true,
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
		Version:         "5.0.0", // cqlsh 6.2 was built for this version and returns a warning for all other versions
		CQLVersion:      "3.4.7",
		RejectsContains: true,
		Tables50:        true,
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

// Parse returns the release with the given name. The empty name selects 5.0. The error lists the supported names.
func Parse(name string) (*Release, error) {
	switch name {
	case Cassandra40.Name:
		return Cassandra40, nil
	case "", Cassandra50.Name:
		return Cassandra50, nil
	}
	return nil, fmt.Errorf(`invalid compatibility %q: expected "4.0" or "5.0"`, name)
}
