// SPDX-License-Identifier: Apache-2.0

// Package schema holds the immutable descriptors of keyspaces, tables, types and indexes, and the DDL transitions
// between them as pure functions: a Schema and a change give a new Schema or a dberr.
//
// Guarantees: (SM1) a descriptor reachable from a Schema never changes; (SM2) a table id, index id or column id is
// never used twice, so data of a dropped column can never surface under a new one, except that a column that was
// dropped by a time, and is added again, has its later cells; (SM3) a transition reads no clock
// and draws no random number: UUIDs and times come with the change, ids from counters in the Schema. Start at Schema,
// then Change and Apply.
package schema

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// UUID is a 16-byte RFC 4122 identifier in network order.
type UUID [16]byte

// Schema is one version of everything that DDL can change.
type Schema struct {
	// Version changes with every DDL and is what drivers poll for agreement.
	Version UUID
	// Revision counts DDL changes from 1; a command carries it as its schema version.
	Revision uint64
	// NextID is the next table or index id.
	NextID uint32
	// Keyspaces by name.
	Keyspaces map[string]*Keyspace

	rest rest
}

// Keyspace is a namespace of tables and types.
type Keyspace struct {
	Name string
	// Replication is what CREATE KEYSPACE declared, "class" included; it is kept and shown, see blueprint D12.
	Replication   map[string]string
	DurableWrites bool
	// Options holds further options that were given (cosmosdb_*), by name.
	Options map[string]string
	Tables  map[string]*Table
	// Types holds the user-defined types, Frozen = false.
	Types map[string]*cqltype.Type
	// Functions are the user-defined functions and aggregates, by name and then by the types of their arguments.
	Functions []*Function
	// typeRest has what a later build has added to the types, by name.
	typeRest map[string]rest
	// Virtual is true for keyspaces whose rows are computed (system, system_schema, ...). Package catalog makes them;
	// they are not encoded.
	Virtual bool
	// Database is not nil if the keyspace is a database of containers.
	Database *Database

	rest rest
}

// ColumnKind says which part of a row a column belongs to.
type ColumnKind uint8

// The kinds, in the order in which `SELECT *` lists them.
const (
	PartitionKey ColumnKind = iota
	Clustering
	Static
	Regular
)

// Column is a column of a table.
type Column struct {
	Name string
	// ID names the column inside stored rows; unique in its table for ever. Key columns have one too, though it is not
	// stored.
	ID   uint32
	Type *cqltype.Type
	Kind ColumnKind
	// Position is the place among the columns of the same kind for key columns, -1 for static and regular ones.
	Position int
	// Desc is true for a clustering column in descending order.
	Desc bool
	// Mask hides the column's values from those who may not see them; nil if there is none.
	Mask *Mask

	rest rest
}

// DroppedColumn remembers a column that was removed.
type DroppedColumn struct {
	Name string
	ID   uint32
	Type *cqltype.Type
	Kind ColumnKind
	// DroppedAt is in microseconds since the epoch.
	DroppedAt int64
	// ByTime says that DroppedAt was given: cells with later timestamps are kept, for the column to be added again with
	// its ID.
	ByTime bool

	rest rest
}

// IndexTarget says what of a column's value is indexed.
type IndexTarget uint8

// The targets; the plain one is written `CREATE INDEX ON t (c)` for non-collections.
const (
	IndexValue   IndexTarget = iota // the whole value of a single-cell column
	IndexValues                     // each element of a list or set, each value of a map
	IndexKeys                       // each key of a map
	IndexEntries                    // each (key, value) of a map
	IndexFull                       // the whole of a frozen collection
)

// Index is a local secondary index.
type Index struct {
	Name   string
	ID     uint32
	Column string
	Target IndexTarget
	// Kind is COMPOSITES or CUSTOM, as system_schema.indexes shows it, or one of those that are not shown.
	Kind    string
	Options map[string]string
	// Lists are those of an index of vectors, the newest first. Where there are none its vectors have no entries.
	Lists Lists

	rest rest
}

// Table describes a table. Column slices are in storage order: keys by position, statics and regulars by name.
type Table struct {
	Keyspace, Name string
	// ID is the first component of every key of the table; see package keys for the bits it carries.
	ID   uint32
	UUID UUID
	// Revision is Schema.Revision at the table's last change; plans made at another revision are void.
	Revision uint64

	PartitionKey []*Column
	Clustering   []*Column
	Statics      []*Column
	Regulars     []*Column
	// ByName holds all columns.
	ByName map[string]*Column
	// NextColumn is the next column id.
	NextColumn uint32
	Dropped    []DroppedColumn
	// Indexes by name.
	Indexes map[string]*Index
	// Counter is true if the non-key columns are counters.
	Counter bool
	// CompactStorage is true if the table was declared WITH COMPACT STORAGE.
	CompactStorage bool
	Options        TableOptions
	Virtual        bool
	// Secret is what paging states are sealed with where key columns are masked, 32 bytes; nil in tables that never had
	// a mask.
	Secret []byte
	// Container is not nil if the table is a container of items.
	Container *Container
	// Feed is not nil if changes of the rows of a CQL table are logged.
	Feed *Feed
	// View is not nil if the table is a materialized view.
	View *View

	rest rest
}

// TableOptions are the options after WITH. Those without an effect here are kept to be shown.
type TableOptions struct {
	Comment               string
	DefaultTTL            int32 // seconds, 0 = none
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
	// Cosmos holds cosmosdb_* options as given, by name.
	Cosmos map[string]string
	// StorageCapGB is storage_cap_gb, 0 if it is not set; see StorageCap.
	StorageCapGB float64 `json:",omitempty"`
	// MergesOff says that small partitions are not merged by themselves (automatic_merges = false).
	MergesOff bool `json:",omitempty"`
	// SnapshotsOff and BackupsOff are allow_auto_snapshot = false and incremental_backups = false of Cassandra 4.1 and
	// 5.0.
	SnapshotsOff bool `json:",omitempty"`
	BackupsOff   bool `json:",omitempty"`
	// CDCRetention is cdc_retention_seconds, 0 if it is the default; see Retention.
	CDCRetention int32 `json:",omitempty"`

	rest rest
}

// FirstTableID is the first id that a Schema gives away; smaller ones belong to the store and to tables that are part
// of every schema.
const FirstTableID = 1024

// New is the schema without any keyspace.
func New() *Schema {
	return &Schema{NextID: FirstTableID, Keyspaces: map[string]*Keyspace{}}
}
