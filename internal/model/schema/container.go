// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Container makes a table a container of items. The partition key consists of values at paths in the items' JSON.
// Container-specific hashes determine the ring positions. CQL can read such a table but not change it.
type Container struct {
	// ID is the original name of the container. The table's name is a valid CQL name.
	ID string `json:"id"`
	// Paths are the partition key paths as specified by the client.
	Paths []string `json:"paths"`
	// Scheme is the hash scheme of the keys.
	Scheme epk.Scheme `json:"scheme"`
	// Definition is the JSON object that created the container. At is the creation time, in seconds since the epoch.
	Definition json.RawMessage `json:"definition"`
	At         int64           `json:"at"`
	// Feed means that the change log contains the changes of items (RFC 0024). Containers created below feature level
	// 4 have no change log.
	Feed bool `json:"feed,omitempty"`
	// Keep is the number of seconds for which all changes are kept, or 0 if changes are not kept. KeptSince is the
	// second since which all changes have been kept for Keep seconds. KeptSince is 0 if all changes have always been
	// kept.
	Keep      int64 `json:"keep,omitempty"`
	KeptSince int64 `json:"keptSince,omitempty"`
	// ExpiredOwn and ExpiredDefault describe the items that had expired when the time to live of the container was
	// last changed (see row.Expired).
	ExpiredOwn     int64 `json:"expiredOwn,omitempty"`
	ExpiredDefault int64 `json:"expiredDefault,omitempty"`
	// Increment has the same meaning as in Database.
	Increment int64 `json:"autoscaleIncrement,omitempty"`
	// KeptGeneration and KeptAbove have the same meaning as in Feed.
	KeptGeneration uint64 `json:"keptGeneration,omitempty"`
	KeptAbove      int64  `json:"keptAbove,omitempty"`
	// Scripts lists the container's scripts, sorted by kind and ID.
	Scripts []Script `json:"scripts,omitempty"`
	// Before lists the definitions that have been in effect since the item index was last complete. Until the index is
	// complete again, it contains only paths that all of these definitions include.
	Before []json.RawMessage `json:"before,omitempty"`

	rest rest
}

// Lifetimes returns the setting that determines when items expire. This setting corresponds to defaultTtl in the
// definition.
func (c *Container) Lifetimes() row.Lifetimes {
	l := row.Lifetimes{Past: row.Expired{Own: c.ExpiredOwn, Default: c.ExpiredDefault}}
	var members map[string]json.RawMessage // a struct would match member names in any case
	if err := json.Unmarshal(c.Definition, &members); err != nil {
		return l
	}
	seconds, err := strconv.ParseFloat(string(members["defaultTtl"]), 64)
	if err == nil && seconds >= -1 && seconds <= math.MaxInt32 {
		l.Default = int32(seconds)
	}
	return l
}

// SetDefinition replaces the definition at the given time, in seconds since the epoch. Items that have already expired
// do not reappear, regardless of the new time to live.
func (c *Container) SetDefinition(definition json.RawMessage, at int64) {
	before := c.Lifetimes()
	if c.Definition = definition; c.Lifetimes().Default != before.Default {
		past := before.At(at)
		c.ExpiredOwn, c.ExpiredDefault = past.Own, past.Default
	}
}

// procedureKind is the kind of stored procedures among scripts.
const procedureKind = 1

// Procedures returns the IDs of the stored procedures that match a CQL name. An unquoted name matches IDs in any case,
// like all CQL names. An ID that equals the lowercase name has precedence.
func (c *Container) Procedures(name string, quoted bool) (ids []string) {
	if c == nil {
		return nil
	}
	for i := range c.Scripts {
		s := &c.Scripts[i]
		if s.Kind != procedureKind {
			continue
		}
		if s.ID == name {
			return []string{s.ID}
		}
		if !quoted && strings.EqualFold(s.ID, name) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Script is a stored procedure, a trigger, or a user-defined function of a container.
type Script struct {
	// Kind is the number of the kind, as assigned by query/container.
	Kind uint8  `json:"kind"`
	ID   string `json:"id"`
	// Number is unique among all IDs of the schema. At is the time of the script's creation or last replacement, in
	// seconds since the epoch.
	Number uint32 `json:"number"`
	At     int64  `json:"at"`
	// Definition is the JSON object that created the script.
	Definition json.RawMessage `json:"definition"`
	// Revision is the Schema.Revision of the script's creation or last replacement.
	Revision uint64 `json:"revision"`
}

// Database makes a keyspace a database of containers.
type Database struct {
	// ID is the original name of the database. The keyspace's name is a valid CQL name. Number is unique among all IDs
	// of the schema. At is the creation time, in seconds since the epoch.
	ID     string `json:"id"`
	Number uint32 `json:"number"`
	At     int64  `json:"at"`
	// Revision is the Schema.Revision at the last change of the keyspace's properties, or 0 if the properties have not
	// been changed.
	Revision uint64 `json:"revision,omitempty"`
	// Increment is the percentage by which clients raise an autoscale throughput if the stored data requires more than
	// the maximum allows. Ilion does not limit storage by throughput, so it stores this value only for clients.
	Increment int64 `json:"autoscaleIncrement,omitempty"`
}

// These are the columns of a container in addition to the partition key columns, which are named after their paths.
const (
	ItemID   = "id"   // the clustering key, of type text
	ItemBody = "body" // the JSON as received, of type text
	ItemEtag = "etag" // of type uuid, changes with every write
	ItemTime = "ts"   // timestamp of the last change, in seconds
)

// Token returns the ring position of a serialized partition key.
func (t *Table) Token(key []byte) token.Token {
	if c := t.Container; c != nil {
		return c.Scheme.KeyToken(key, len(c.Paths))
	}
	return token.Hash(key)
}

// UniqueKind is the kind of the indexes of a container's unique keys. These indexes do not belong to a column. The
// writer of an item computes the values and writes the entries.
const UniqueKind = "UNIQUE"

// UniqueIndex returns the index of a container's unique key by its number, starting at 0.
func (t *Table) UniqueIndex(n int) *Index { return t.Indexes[uniqueName(t.Name, n)] }

// DocumentKind is the kind of a container's item index. The index does not belong to a column. It has entries for all
// paths that the indexing policy includes, ordered by value.
const DocumentKind = "DOCUMENT"

// policyOption is the option of an item index that contains the number of its policy. A new policy causes the index to
// be rebuilt.
const policyOption = "policy"

// compositesOption is the option of an item index that contains entries for composite indexes. Indexes of earlier
// builds do not have this option.
const compositesOption = "composites"

// textsOption is the option of an item index that also has entries for full-text indexes.
const textsOption = "texts"

// DocumentIndex returns the container's item index, or nil if none exists.
func (t *Table) DocumentIndex() *Index { return t.Indexes[documentName(t.Name)] }

// Policy returns the number of the policy with which an item index or the newest lists of a vector index were built.
// The number is empty for other indexes.
func (ix *Index) Policy() string {
	if len(ix.Lists) > 0 && ix.Lists[0].Generation > 0 {
		return strconv.FormatUint(uint64(ix.Lists[0].Generation), 10)
	}
	return ix.Options[policyOption]
}

// Composites reports whether an item index has entries for the composite indexes of its policy.
func (ix *Index) Composites() bool { return ix.Options[compositesOption] != "" }

// Texts reports whether an item index has entries for the full-text indexes of its policy.
func (ix *Index) Texts() bool { return ix.Options[textsOption] != "" }

// HasTexts reports whether an item index of the schema has entries for full-text indexes.
func (s *Schema) HasTexts() bool {
	for ks := range s.All() {
		for _, t := range ks.Tables {
			if ix := t.DocumentIndex(); ix != nil && ix.Texts() {
				return true
			}
		}
	}
	return false
}

// ShownIndexes returns the indexes that are visible in CQL, sorted by name. Indexes of containers and hint indexes of
// views are not visible.
func (t *Table) ShownIndexes() []*Index {
	return slices.DeleteFunc(t.SortedIndexes(), func(ix *Index) bool {
		return ix.Kind == UniqueKind || ix.Kind == DocumentKind || ix.Kind == ViewKind
	})
}

func uniqueName(table string, n int) string { return table + "_unique_" + strconv.Itoa(n) }

func documentName(table string) string { return table + "_document" }

// addDocumentIndex adds an item index with an ID to a table. texts reports whether the index has entries for full-text
// indexes. The table must not be shared.
func (t *Table) addDocumentIndex(ks *Keyspace, id uint32, texts bool) error {
	name := documentName(t.Name)
	if _, taken := ks.Index(name); taken != nil {
		return dberr.Invalidf("Index '%s' already exists", name)
	}
	if t.Indexes == nil {
		t.Indexes = map[string]*Index{}
	}
	t.Indexes[name] = &Index{Name: name, ID: id | keys.OrderedIndex, Column: "document", Kind: DocumentKind,
		Options: map[string]string{policyOption: "1", compositesOption: "1"}}
	if texts {
		t.Indexes[name].Options[textsOption] = "1"
	}
	return nil
}

// CreateContainer creates a container.
type CreateContainer struct {
	Stamp
	Keyspace, Name string
	// ID becomes the table's UUID.
	ID        UUID
	Container Container
	// Unique is the number of unique keys of the container. Indexed means that the container has an item index. Texts
	// means that the item index has entries for full-text indexes.
	Unique     int
	Indexed    bool
	Texts      bool
	Properties []Property
}

func (c *CreateContainer) apply(s *Schema) (*Schema, []Event, error) {
	column := func(name string, k cqltype.Kind) ColumnSpec {
		return ColumnSpec{Name: name, Type: SpecOf(cqltype.Native(k))}
	}
	create := CreateTable{
		Stamp: c.Stamp, Keyspace: c.Keyspace, Name: c.Name, ID: c.ID, Properties: c.Properties,
		PartitionKey: c.Container.Paths, Clustering: []string{ItemID},
		Columns: []ColumnSpec{column(ItemID, cqltype.Text), column(ItemBody, cqltype.Text),
			column(ItemEtag, cqltype.UUID), column(ItemTime, cqltype.Timestamp)},
	}
	for _, path := range c.Container.Paths {
		create.Columns = append(create.Columns, column(path, cqltype.Text))
	}
	next, events, err := create.apply(s)
	if err != nil {
		return nil, nil, err
	}
	t := next.Table(c.Keyspace, c.Name) // this change created the table, so it is not shared
	descriptor := c.Container
	t.Container = &descriptor
	for n := range c.Unique {
		name := uniqueName(c.Name, n)
		if _, taken := next.Keyspaces[c.Keyspace].Index(name); taken != nil {
			return nil, nil, dberr.Invalidf("Index '%s' already exists", name)
		}
		t.Indexes[name] = &Index{Name: name, ID: next.NextID, Column: "unique(" + strconv.Itoa(n) + ")",
			Kind: UniqueKind}
		next.NextID++
	}
	if c.Indexed {
		if err := t.addDocumentIndex(next.Keyspaces[c.Keyspace], next.NextID, c.Texts); err != nil {
			return nil, nil, err
		}
		next.NextID++
	}
	return next, events, nil
}

// ReplaceContainer changes the definition, the scripts, or the options of a container.
type ReplaceContainer struct {
	Stamp
	Keyspace, Name string
	// Change modifies a copy of the descriptor. It defines its own errors.
	Change     func(c *Container, in *Replacing) error
	Properties []Property
	// Check has the same meaning as in DropTable.
	Check func(s *Schema) error
}

// Replacing is the context of a container change.
type Replacing struct {
	// Revision is the revision of the container's table after the change.
	Revision uint64
	// Index is the item index, or nil if none exists. Texts means that an index that is built has entries for full-text
	// indexes.
	Index   *Index
	Texts   bool
	next    uint32
	taken   bool
	reindex Reindex
}

// Reindex specifies how a container change treats the item index.
type Reindex uint8

// These are the treatments. The change keeps the index, rebuilds it with another policy, or drops it.
const (
	KeepIndex Reindex = iota
	BuildIndex
	DropItemIndex
)

// Reindex sets how the change treats the container's item index.
func (r *Replacing) Reindex(what Reindex) {
	r.reindex = what
	r.taken = r.taken || what == BuildIndex && r.Index == nil
}

// index applies the treatment to a table. The table must not be shared.
func (r *Replacing) index(t *Table, ks *Keyspace) error {
	switch {
	case r.reindex == DropItemIndex && r.Index != nil:
		delete(t.Indexes, r.Index.Name)
	case r.reindex == BuildIndex && r.Index == nil:
		return t.addDocumentIndex(ks, r.next, r.Texts)
	case r.reindex == BuildIndex:
		ix := *r.Index
		ix.Options = maps.Clone(ix.Options)
		n, _ := strconv.Atoi(ix.Policy())
		ix.Options[policyOption], ix.Options[compositesOption] = strconv.Itoa(n+1), "1"
		if delete(ix.Options, textsOption); r.Texts {
			ix.Options[textsOption] = "1"
		}
		t.Indexes[ix.Name] = &ix
	}
	return nil
}

// Number returns an ID that has never been used in the schema. All calls within a change return the same ID.
func (r *Replacing) Number() uint32 {
	r.taken = true
	return r.next
}

func (c *ReplaceContainer) apply(s *Schema) (*Schema, []Event, error) {
	if c.Check != nil {
		if err := c.Check(s); err != nil {
			return nil, nil, err
		}
	}
	old := s.Table(c.Keyspace, c.Name)
	if old == nil || old.Container == nil {
		return nil, nil, noTable(c.Keyspace, c.Name)
	}
	t := old.clone()
	descriptor := *old.Container
	descriptor.Scripts = slices.Clone(descriptor.Scripts)
	t.Container = &descriptor
	in := Replacing{Revision: s.Revision + 1, Index: old.DocumentIndex(), next: s.NextID}
	var err error
	if c.Change != nil {
		if err := c.Change(&descriptor, &in); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Properties) > 0 {
		if t.Options, err = applyProperties(c.release(), t.Options, c.Properties, false); err != nil {
			return nil, nil, err
		}
	}
	if err := in.index(t, s.Keyspaces[c.Keyspace]); err != nil {
		return nil, nil, err
	}
	next := s.withKeyspace(s.Keyspaces[c.Keyspace].withTable(t))
	if in.taken {
		next.NextID++
	}
	return next, []Event{{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Name}}, nil
}

// rejectContainer rejects a CQL operation on a container if the operation requires the REST interface.
func rejectContainer(t *Table, what string) error {
	if t.Container == nil {
		return nil
	}
	return dberr.Invalidf("%s is a container of items: CQL can read or drop it, but %s requires the REST "+
		"interface", t, what)
}

// CheckWritable rejects statements that change the rows of a container or of a view.
func (t *Table) CheckWritable() error {
	if t.View != nil {
		return dberr.Invalidf("Cannot directly modify a materialized view")
	}
	return rejectContainer(t, "changing its items")
}
