// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// TargetSpec is an index target as written in a statement.
type TargetSpec struct {
	Column string
	Target IndexTarget
}

// CreateIndex represents CREATE INDEX and CREATE CUSTOM INDEX.
type CreateIndex struct {
	Stamp
	Keyspace    string
	Table       string
	IfNotExists bool
	// Name is empty if the index must be named after its table and column.
	Name    string
	Targets []TargetSpec
	Custom  bool
	// Class is the class of a custom index. Class must be empty for any other index.
	Class      string
	HasClass   bool
	Properties []Property
	// Apply sets Examined to the number of storage-attached vector indexes that were accepted before the first
	// rejection, including the new index. Cassandra returns a warning for each of these indexes.
	Examined int
}

// DropIndex represents the statement DROP INDEX.
type DropIndex struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
}

// target returns the table to index. target rejects tables that cannot have an index, and invalid options.
func (c *CreateIndex) target(s *Schema) (*Keyspace, *Table, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	if err := c.checkOptions(); err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil, noKeyspace(c.Keyspace)
	}
	t := ks.Tables[c.Table]
	if t == nil {
		return nil, nil, dberr.Invalidf("Table '%s' doesn't exist", c.Table)
	}
	if err := rejectContainer(t, "indexing it"); err != nil {
		return nil, nil, err
	}
	if t.View != nil {
		return nil, nil, dberr.Invalidf("Secondary indexes on materialized views aren't supported")
	}
	return ks, t, nil
}

func (c *CreateIndex) apply(s *Schema) (*Schema, []Event, error) {
	c.Examined = 0
	ks, t, err := c.target(s)
	if err != nil {
		return nil, nil, err
	}
	if c.Name != "" {
		if _, taken := ks.Index(c.Name); taken != nil {
			if c.IfNotExists {
				return s, nil, nil
			}
			return nil, nil, dberr.Invalidf("Index '%s' already exists", c.Name)
		}
	}
	index, err := c.build(ks, t)
	if err != nil {
		return nil, nil, err
	}
	for _, other := range t.SortedIndexes() {
		if other.Column == index.Column && other.Target == index.Target && other.Kind == index.Kind &&
			maps.Equal(other.Options, index.Options) {
			if c.IfNotExists {
				return s, nil, nil
			}
			return nil, nil, dberr.Invalidf("Index %s is a duplicate of existing index %s", index.Name, other.Name)
		}
	}
	c.Examined = t.VectorIndexes()
	if nonWord.MatchString(index.Name) {
		return nil, nil, dberr.Configf("Illegal index name %s", index.Name)
	}
	if c.Custom {
		if !IsAttachedClass(c.Class) {
			return nil, nil, c.rejectCustomClass()
		}
		if err := c.checkAttached(t, index); err != nil {
			return nil, nil, err
		}
		if t.OfVectors(index) {
			c.Examined++
		}
	}
	index.ID = s.NextID
	if index.Attached() {
		index.ID |= keys.OrderedIndex
	}
	changed := t.clone()
	if changed.Indexes == nil {
		changed.Indexes = map[string]*Index{}
	}
	changed.Indexes[index.Name] = index
	next := s.withKeyspace(ks.withTable(changed))
	next.NextID++
	return next, []Event{{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: c.Table}}, nil
}

func (c *CreateIndex) checkOptions() error {
	for i := range c.Properties {
		if c.Properties[i].Name != "options" {
			return dberr.Syntaxf("Unknown property '%s'", c.Properties[i].Name)
		}
	}
	switch {
	case c.Custom && !c.HasClass:
		return dberr.Invalidf("CUSTOM index requires specifiying the index class")
	case !c.Custom && c.HasClass:
		return dberr.Invalidf("Cannot specify index class for a non-CUSTOM index")
	case !c.Custom && len(c.Properties) > 0:
		return dberr.Invalidf("Cannot specify options for a non-CUSTOM index")
	}
	for i := range c.Properties {
		if !c.Properties[i].IsMap {
			return dberr.Syntaxf("Invalid value for property 'options'. It should be a map.")
		}
	}
	for _, e := range c.options() {
		if e.Key == classOption || e.Key == targetOption {
			return dberr.Invalidf("Cannot specify %s as a CUSTOM option", e.Key)
		}
	}
	return nil
}

// options returns the options in WITH OPTIONS.
func (c *CreateIndex) options() (out []Entry) {
	for i := range c.Properties {
		out = append(out, c.Properties[i].Map...)
	}
	return out
}

// rejectCustomClass returns the error for an unsupported class. SASI is disabled, which is Cassandra's default, and
// other classes are not found.
func (c *CreateIndex) rejectCustomClass() error {
	if c.Class == "org.apache.cassandra.index.sasi.SASIIndex" {
		return dberr.Invalidf("SASI indexes are disabled. Enable in cassandra.yaml to use.")
	}
	return dberr.Configf("Unable to find custom indexer class '%s'", c.Class)
}

func (c *CreateIndex) build(ks *Keyspace, t *Table) (*Index, error) {
	if t.Counter {
		return nil, dberr.Invalidf("Secondary indexes on counter tables aren't supported")
	}
	targets := make([]TargetSpec, len(c.Targets))
	for i, target := range c.Targets {
		col := t.ByName[target.Column]
		if col == nil {
			return nil, dberr.Invalidf("Undefined column name %s in table %s", target.Column, t)
		}
		if target.Target == IndexValue && col.Type.IsCollection() {
			target.Target = IndexValues
		}
		targets[i] = target
	}
	if err := c.checkTargets(t, targets); err != nil {
		return nil, err
	}
	target := targets[0]
	index := &Index{Name: c.Name, Column: target.Column, Target: target.Target, Kind: "COMPOSITES"}
	if c.Custom {
		index.Kind = CustomKind
		index.Options = map[string]string{classOption: c.Class}
		for _, e := range c.options() {
			index.Options[e.Key] = e.Value
		}
	}
	if index.Name == "" {
		index.Name = unusedIndexName(ks, c.Table, target.Column)
	}
	return index, nil
}

// checkTargets requires exactly one target that can be indexed. Custom indexes of other classes could have a different
// number of targets, but Ilion does not support these classes.
func (c *CreateIndex) checkTargets(t *Table, targets []TargetSpec) error {
	switch {
	case len(targets) == 0 && !c.Custom:
		return dberr.Invalidf("Only CUSTOM indexes can be created without specifying a target column")
	case len(targets) > 1 && !c.Custom:
		return dberr.Invalidf("Only CUSTOM indexes support multiple columns")
	}
	var names []string
	for i, target := range targets {
		if slices.ContainsFunc(targets[:i], func(o TargetSpec) bool { return o.Column == target.Column }) {
			return dberr.Invalidf("Duplicate column '%s' in index target list", target.Column)
		}
	}
	for _, target := range targets {
		if err := checkTarget(t, t.ByName[target.Column], target.Target); err != nil {
			return err
		}
		names = append(names, (&Index{Column: target.Column, Target: target.Target}).TargetText())
	}
	switch {
	case len(targets) == 1:
		return nil
	case !IsAttachedClass(c.Class):
		return c.rejectCustomClass()
	case len(targets) == 0:
		return dberr.Invalidf("Failed to retrieve target column for: ")
	}
	return dberr.Invalidf("A storage-attached index cannot be created over multiple columns: %s",
		strings.Join(names, ", "))
}

func checkTarget(t *Table, col *Column, target IndexTarget) error {
	typ := col.Type
	if typ.Contains(cqltype.Duration) {
		switch {
		case typ.IsCollection():
			return dberr.Invalidf("Secondary indexes are not supported on collections containing durations")
		case typ.Kind == cqltype.Tuple:
			return dberr.Invalidf("Secondary indexes are not supported on tuples containing durations")
		case typ.Kind == cqltype.UDT:
			return dberr.Invalidf("Secondary indexes are not supported on UDTs containing durations")
		}
		return dberr.Invalidf("Secondary indexes are not supported on duration columns")
	}
	if t.CompactStorage && col.Kind.IsKey() {
		return dberr.Invalidf("Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables")
	}
	if t.dense() {
		return dberr.Invalidf("Secondary indexes are not supported on compact value column of COMPACT STORAGE tables")
	}
	if col.Kind == PartitionKey && len(t.PartitionKey) == 1 {
		return dberr.Invalidf("Cannot create secondary index on the only partition key column %s", col.Name)
	}
	frozenCollection := typ.IsCollection() && typ.Frozen
	if frozenCollection && target != IndexFull {
		return dberr.Invalidf("Cannot create %s() index on frozen column %s. Frozen collections are immutable and "+
			"must be fully indexed by using the 'full(%s)' modifier",
			target, col.Name, col.Name)
	}
	if !frozenCollection && target == IndexFull {
		return dberr.Invalidf("full() indexes can only be created on frozen collections")
	}
	if !typ.IsCollection() && target != IndexValue {
		return dberr.Invalidf("Cannot create %s() index on %s. Non-collection columns only support simple indexes",
			target, col.Name)
	}
	if (target == IndexKeys || target == IndexEntries) && typ.Kind != cqltype.Map {
		return dberr.Invalidf("Cannot create index on %s of column %s with non-map type", target, col.Name)
	}
	if typ.Kind == cqltype.UDT && typ.MultiCell() {
		return dberr.Invalidf("Cannot create index on non-frozen UDT column %s", col.Name)
	}
	return nil
}

var nonWord = regexp.MustCompile(`\W`)

// unusedIndexName returns an index name that consists of the table and the column. If the name is in use, it appends a
// number.
func unusedIndexName(ks *Keyspace, table, column string) string {
	base := nonWord.ReplaceAllString(table+"_"+column+"_idx", "")
	name := base
	for i := 1; ; i++ {
		if _, taken := ks.Index(name); taken == nil {
			return name
		}
		name = base + "_" + strconv.Itoa(i)
	}
}

func (c *DropIndex) apply(s *Schema) (*Schema, []Event, error) {
	ks := s.Keyspaces[c.Keyspace]
	var t *Table
	if ks != nil {
		t, _ = ks.Index(c.Name)
	}
	if t == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("Index '%s.%s' doesn't exist'", c.Keyspace, c.Name)
	}
	if err := rejectContainer(t, "indexing it"); err != nil {
		return nil, nil, err
	}
	changed := t.clone()
	delete(changed.Indexes, c.Name)
	return s.withKeyspace(ks.withTable(changed)),
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: t.Name}}, nil
}
