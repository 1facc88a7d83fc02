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

// Container makes a table a container of items: its partition key are the values of paths in the items' JSON, which
// stand on the ring by hashes of their own. CQL reads such a table and does not change it.
type Container struct {
	// ID is the name that the container was made with; the table's is one that CQL takes.
	ID string `json:"id"`
	// Paths are the partition key paths as they were given.
	Paths []string `json:"paths"`
	// Scheme says how keys are hashed.
	Scheme epk.Scheme `json:"scheme"`
	// Definition is the JSON object that the container was made with, and At when that was, in seconds since the epoch.
	Definition json.RawMessage `json:"definition"`
	At         int64           `json:"at"`
	// Feed says that changes of items are entered in the change log (RFC 0024). Containers from before feature level 4
	// have none.
	Feed bool `json:"feed,omitempty"`
	// Keep is for how many seconds all changes are kept, 0 if they are not. KeptSince is the second since which all
	// changes are kept for as long as the definition says, 0 from the beginning.
	Keep      int64 `json:"keep,omitempty"`
	KeptSince int64 `json:"keptSince,omitempty"`
	// ExpiredOwn and ExpiredDefault describe the items that had expired when the time to live of the container was
	// changed last, as row.Expired does.
	ExpiredOwn     int64 `json:"expiredOwn,omitempty"`
	ExpiredDefault int64 `json:"expiredDefault,omitempty"`
	// Increment is what Database.Increment is.
	Increment int64 `json:"autoscaleIncrement,omitempty"`
	// KeptGeneration and KeptAbove are as in Feed.
	KeptGeneration uint64 `json:"keptGeneration,omitempty"`
	KeptAbove      int64  `json:"keptAbove,omitempty"`
	// Scripts are those that it keeps, in order of their kinds and ids.
	Scripts []Script `json:"scripts,omitempty"`
	// Before are the definitions that were in force since the index of its items was complete last: until it is again,
	// only what all of them include is in it.
	Before []json.RawMessage `json:"before,omitempty"`

	rest rest
}

// Lifetimes returns the setting by which items expire, which the definition has as defaultTtl.
func (c *Container) Lifetimes() row.Lifetimes {
	l := row.Lifetimes{Past: row.Expired{Own: c.ExpiredOwn, Default: c.ExpiredDefault}}
	var members map[string]json.RawMessage // by their exact names
	if err := json.Unmarshal(c.Definition, &members); err != nil {
		return l
	}
	seconds, err := strconv.ParseFloat(string(members["defaultTtl"]), 64)
	if err == nil && seconds >= -1 && seconds <= math.MaxInt32 {
		l.Default = int32(seconds)
	}
	return l
}

// SetDefinition replaces the definition at a time, in seconds since the epoch. Items that have expired by then do not
// come back, whatever the time to live is from then on.
func (c *Container) SetDefinition(definition json.RawMessage, at int64) {
	before := c.Lifetimes()
	if c.Definition = definition; c.Lifetimes().Default != before.Default {
		past := before.At(at)
		c.ExpiredOwn, c.ExpiredDefault = past.Own, past.Default
	}
}

// procedureKind is the kind of scripts that are stored procedures.
const procedureKind = 1

// Procedures are the ids of the stored procedures that a name means in CQL. Without quotes it means them in any case of
// letters, as names of CQL do, but one in lower case above all.
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

// Script is a stored procedure, a trigger or a user-defined function of a container.
type Script struct {
	// Kind is query/container's number of the kind.
	Kind uint8  `json:"kind"`
	ID   string `json:"id"`
	// Number is its own among all ids of the schema; At is when it was made or replaced, in seconds since the epoch.
	Number uint32 `json:"number"`
	At     int64  `json:"at"`
	// Definition is the JSON object that it was made with.
	Definition json.RawMessage `json:"definition"`
	// Revision is Schema.Revision when it was made or replaced.
	Revision uint64 `json:"revision"`
}

// Database makes a keyspace a database of containers.
type Database struct {
	// ID is the name that the database was made with; the keyspace's is one that CQL takes. Number is its own among all
	// ids of the schema, and At when it was made, in seconds since the epoch.
	ID     string `json:"id"`
	Number uint32 `json:"number"`
	At     int64  `json:"at"`
	// Revision is Schema.Revision when the properties of its keyspace were changed, 0 if they were not.
	Revision uint64 `json:"revision,omitempty"`
	// Increment is by how many percent clients want an automatic throughput raised when what is stored needs more than
	// its maximum allows. Storage is not bound to the throughput here, so it is only shown.
	Increment int64 `json:"autoscaleIncrement,omitempty"`
}

// The columns of a container beside those of its partition key paths, which are named as the paths are.
const (
	ItemID   = "id"   // text, the clustering key
	ItemBody = "body" // text, the JSON as it was sent
	ItemEtag = "etag" // uuid, new with each change
	ItemTime = "ts"   // timestamp of the last change, in seconds
)

// Token is where a serialized partition key stands on the table's ring.
func (t *Table) Token(key []byte) token.Token {
	if c := t.Container; c != nil {
		return c.Scheme.KeyToken(key, len(c.Paths))
	}
	return token.Hash(key)
}

// UniqueKind is the kind of the indexes of a container's unique keys. They are of no column: whoever writes an item
// enters it, and knows its values.
const UniqueKind = "UNIQUE"

// UniqueIndex is the index of a container's unique key by its number, from 0.
func (t *Table) UniqueIndex(n int) *Index { return t.Indexes[uniqueName(t.Name, n)] }

// DocumentKind is the kind of the index of a container's items: of no column, with entries of all paths that the
// indexing policy includes, in order of their values.
const DocumentKind = "DOCUMENT"

// policyOption is the option of an index of items that numbers its policies: a new one has it built again.
const policyOption = "policy"

// compositesOption is the option of an index of items that has entries for composite indexes, too: those of earlier
// builds had none.
const compositesOption = "composites"

// DocumentIndex is the index of a container's items, nil if there is none.
func (t *Table) DocumentIndex() *Index { return t.Indexes[documentName(t.Name)] }

// Policy is the number of the policy by which the index is built, or of its newest lists; "" for indexes that have
// none.
func (ix *Index) Policy() string {
	if len(ix.Lists) > 0 && ix.Lists[0].Generation > 0 {
		return strconv.FormatUint(uint64(ix.Lists[0].Generation), 10)
	}
	return ix.Options[policyOption]
}

// Composites reports whether an index of items has entries for the composite indexes of its policy.
func (ix *Index) Composites() bool { return ix.Options[compositesOption] != "" }

// ShownIndexes are the indexes that CQL knows of, by name: those of containers are their own, and hints for views are
// none.
func (t *Table) ShownIndexes() []*Index {
	return slices.DeleteFunc(t.SortedIndexes(), func(ix *Index) bool {
		return ix.Kind == UniqueKind || ix.Kind == DocumentKind || ix.Kind == ViewKind
	})
}

func uniqueName(table string, n int) string { return table + "_unique_" + strconv.Itoa(n) }

func documentName(table string) string { return table + "_document" }

// addDocumentIndex gives a table, which is the caller's own, an index of its items with an id.
func (t *Table) addDocumentIndex(ks *Keyspace, id uint32) error {
	name := documentName(t.Name)
	if _, taken := ks.Index(name); taken != nil {
		return dberr.Invalidf("Index '%s' already exists", name)
	}
	if t.Indexes == nil {
		t.Indexes = map[string]*Index{}
	}
	t.Indexes[name] = &Index{Name: name, ID: id | keys.OrderedIndex, Column: "document", Kind: DocumentKind,
		Options: map[string]string{policyOption: "1", compositesOption: "1"}}
	return nil
}

// CreateContainer makes a container.
type CreateContainer struct {
	Stamp
	Keyspace, Name string
	// ID becomes the table's UUID.
	ID        UUID
	Container Container
	// Unique is how many unique keys it has; Indexed says that its items are indexed.
	Unique     int
	Indexed    bool
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
	t := next.Table(c.Keyspace, c.Name) // it is this change's own
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
		if err := t.addDocumentIndex(next.Keyspaces[c.Keyspace], next.NextID); err != nil {
			return nil, nil, err
		}
		next.NextID++
	}
	return next, events, nil
}

// ReplaceContainer changes the definition, the scripts or the options of a container.
type ReplaceContainer struct {
	Stamp
	Keyspace, Name string
	// Change is called with a copy of the descriptor, and changes it. Its errors are the caller's own.
	Change     func(c *Container, in *Replacing) error
	Properties []Property
	// Check is as of DropTable.
	Check func(s *Schema) error
}

// Replacing is what a change of a container is made in.
type Replacing struct {
	// Table is the id of the container's table, Was the table's revision before the change, and Revision that after it.
	Table         uint32
	Was, Revision uint64
	// Index is the index of its items, nil if there is none.
	Index   *Index
	next    uint32
	taken   bool
	reindex Reindex
}

// Reindex is what becomes of the index of a container's items.
type Reindex uint8

// What may become of it: it stays as it is, is built anew by another policy, made if there is none, or dropped.
const (
	KeepIndex Reindex = iota
	BuildIndex
	DropItemIndex
)

// Reindex says what becomes of the index of the container's items.
func (r *Replacing) Reindex(what Reindex) {
	r.reindex = what
	r.taken = r.taken || what == BuildIndex && r.Index == nil
}

// index carries Reindex out on a table, which is the change's own.
func (r *Replacing) index(t *Table, ks *Keyspace) error {
	switch {
	case r.reindex == DropItemIndex && r.Index != nil:
		delete(t.Indexes, r.Index.Name)
	case r.reindex == BuildIndex && r.Index == nil:
		return t.addDocumentIndex(ks, r.next)
	case r.reindex == BuildIndex:
		ix := *r.Index
		ix.Options = maps.Clone(ix.Options)
		n, _ := strconv.Atoi(ix.Policy())
		ix.Options[policyOption], ix.Options[compositesOption] = strconv.Itoa(n+1), "1"
		t.Indexes[ix.Name] = &ix
	}
	return nil
}

// Number is one that nothing in the schema has had. It is the same for all that a change asks for.
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
	in := Replacing{Table: old.ID, Was: old.Revision, Revision: s.Revision + 1, Index: old.DocumentIndex(),
		next: s.NextID}
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

// notOfContainer refuses what CQL asks for of a container that only its own surface may do.
func notOfContainer(t *Table, what string) error {
	if t.Container == nil {
		return nil
	}
	return dberr.Invalidf("%s is a container of items: CQL reads it, and DROP TABLE drops it, but %s is for the REST "+
		"interface", t, what)
}

// CheckWritable refuses statements that change the rows of a container, or of a view.
func (t *Table) CheckWritable() error {
	if t.View != nil {
		return dberr.Invalidf("Cannot directly modify a materialized view")
	}
	return notOfContainer(t, "changing its items")
}
