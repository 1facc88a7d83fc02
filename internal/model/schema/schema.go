// SPDX-License-Identifier: Apache-2.0

// Package schema defines the immutable descriptors of keyspaces, tables, types, and indexes. DDL transitions are pure
// functions. A transition takes a Schema and a change, and returns a new Schema or a dberr error.
//
// Guarantees:
//
//   - (SM1) A descriptor that is reachable from a Schema never changes.
//   - (SM2) A table ID, index ID, or column ID is never reused. Data of a dropped column therefore cannot reappear in
//     a new column. The exception is a column that was dropped up to a timestamp and is added again, because it keeps
//     its later cells.
//   - (SM3) A transition reads no clock and generates no random numbers. UUIDs and times are part of the change, and
//     IDs come from counters in the Schema.
//
// Start reading at Schema, and continue with Change and Apply.
package schema

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// UUID is a 16-byte RFC 4122 identifier in network order.
type UUID [16]byte

// Schema is one version of all objects that DDL statements can change.
type Schema struct {
	// Version changes with every DDL statement. Drivers poll it for schema agreement.
	Version UUID
	// Revision counts DDL changes from 1. A command contains the revision as its schema version.
	Revision uint64
	// NextID is the next table or index ID.
	NextID uint32
	// Keyspaces maps names to keyspaces.
	Keyspaces map[string]*Keyspace

	rest rest
}

// Keyspace is a namespace of tables and types.
type Keyspace struct {
	Name string
	// Replication is the replication declared by CREATE KEYSPACE, including "class". The replication is stored and
	// returned, but does not affect placement.
	Replication   map[string]string
	DurableWrites bool
	// Options holds additional options (cosmosdb_*) by name.
	Options map[string]string
	Tables  map[string]*Table
	// Types maps names to the unfrozen user-defined types.
	Types map[string]*cqltype.Type
	// Functions holds the user-defined functions and aggregates, sorted by name and argument types.
	Functions []*Function
	// typeRest maps the names of types to the members that a later build has added to the types.
	typeRest map[string]rest
	// Virtual is true for keyspaces with computed rows (system, system_schema, ...). Package catalog creates them, and
	// they are not encoded.
	Virtual bool
	// Database is not nil if the keyspace is a database of containers.
	Database *Database

	rest rest
}

// ColumnKind is the part of a row to which a column belongs.
type ColumnKind uint8

// These are the kinds, in the order of `SELECT *`.
const (
	PartitionKey ColumnKind = iota
	Clustering
	Static
	Regular
)

// Column is a column of a table.
type Column struct {
	Name string
	// ID identifies the column in stored rows. It is never reused in the table. Key columns also have an ID, but rows
	// do not contain it.
	ID   uint32
	Type *cqltype.Type
	Kind ColumnKind
	// For key columns, Position is the index among the columns of the same kind. For static and regular columns, it is
	// -1.
	Position int
	// Desc is true for a clustering column in descending order.
	Desc bool
	// Mask hides the column's values from users without permission to see the values. It is nil if the column has no
	// mask.
	Mask *Mask

	rest rest
}

// DroppedColumn records a dropped column.
type DroppedColumn struct {
	Name string
	ID   uint32
	Type *cqltype.Type
	Kind ColumnKind
	// DroppedAt is the time of the drop in microseconds since the epoch.
	DroppedAt int64
	// ByTime means that the statement specified DroppedAt. Cells with later timestamps are kept, so the column can be
	// added again with its ID.
	ByTime bool

	rest rest
}

// IndexTarget is the indexed part of a column's value.
type IndexTarget uint8

// These are the targets of an index. `CREATE INDEX ON t (c)` uses the target IndexValue unless c is a collection.
const (
	IndexValue   IndexTarget = iota // the whole value of a single-cell column
	IndexValues                     // each element of a list or set, or each value of a map
	IndexKeys                       // each key of a map
	IndexEntries                    // each pair of key and value in a map
	IndexFull                       // the whole value of a frozen collection
)

// Index is a local secondary index.
type Index struct {
	Name   string
	ID     uint32
	Column string
	Target IndexTarget
	// Kind is COMPOSITES or CUSTOM, as in system_schema.indexes, or a kind that clients cannot see.
	Kind    string
	Options map[string]string
	// Lists holds the lists of a vector index, newest first. An index without lists contains no entries for vectors.
	Lists Lists

	rest rest
}

// Table describes a table. Column slices are in storage order. Key columns are sorted by position, and static and
// regular columns are sorted by name.
type Table struct {
	Keyspace, Name string
	// ID is the first component of every key of the table. Package keys defines the meaning of its bits.
	ID   uint32
	UUID UUID
	// Revision is the Schema.Revision at the table's last change. Plans made for another revision are invalid.
	Revision uint64

	PartitionKey []*Column
	Clustering   []*Column
	Statics      []*Column
	Regulars     []*Column
	// ByName contains all columns.
	ByName map[string]*Column
	// NextColumn is the next column ID.
	NextColumn uint32
	Dropped    []DroppedColumn
	// Indexes maps names to indexes.
	Indexes map[string]*Index
	// Counter is true if the non-key columns are counters.
	Counter bool
	// CompactStorage is true if the table was declared WITH COMPACT STORAGE.
	CompactStorage bool
	Options        TableOptions
	Virtual        bool
	// Secret is the 32-byte key that encrypts paging states if key columns are masked. Secret is nil in tables that
	// have never had a mask.
	Secret []byte
	// Container is not nil if the table is a container of items.
	Container *Container
	// Feed is not nil if changes to the rows of a CQL table are logged.
	Feed *Feed
	// View is not nil if the table is a materialized view.
	View *View

	rest rest
}

// TableOptions are the options in the WITH clause. Options without an effect are stored because clients can read them.
type TableOptions struct {
	Comment               string
	DefaultTTL            int32 // in seconds, or 0 for no default
	GCGrace               int32 // seconds
	BloomFilterFPChance   float64
	CRCCheckChance        float64
	AdditionalWritePolicy string
	SpeculativeRetry      string
	ReadRepair            string
	MemtableFlushPeriod   int32 // milliseconds
	MinIndexInterval      int32
	MaxIndexInterval      int32
	CDC                   bool
	Caching               map[string]string
	Compaction            map[string]string
	Compression           map[string]string
	Extensions            map[string][]byte
	// Cosmos maps the names of the specified cosmosdb_* options to their values.
	Cosmos map[string]string
	// StorageCapGB is the value of storage_cap_gb, or 0 if it is not set. See StorageCap.
	StorageCapGB float64 `json:",omitempty"`
	// MergesOff disables automatic merges of small partitions (automatic_merges = false).
	MergesOff bool `json:",omitempty"`
	// SnapshotsOff and BackupsOff represent allow_auto_snapshot = false and incremental_backups = false of Cassandra
	// 4.1 and 5.0.
	SnapshotsOff bool `json:",omitempty"`
	BackupsOff   bool `json:",omitempty"`
	// CDCRetention is the value of cdc_retention_seconds, or 0 for the default. See Retention.
	CDCRetention int32 `json:",omitempty"`

	rest rest
}

// FirstTableID is the first ID that a Schema assigns. Lower IDs belong to the store and to tables that every schema
// contains.
const FirstTableID = 1024

// New returns a schema without keyspaces.
func New() *Schema {
	return &Schema{NextID: FirstTableID, Keyspaces: map[string]*Keyspace{}}
}
