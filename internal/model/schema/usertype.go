// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// FieldsMax is the maximum number of fields of a user-defined type. Stored rows contain the index of a field as a
// smallint.
const FieldsMax = math.MaxInt16

// FieldSpec declares a field.
type FieldSpec struct {
	Name string    `json:"name"`
	Type *TypeSpec `json:"type"`
}

// CreateType represents the statement CREATE TYPE.
type CreateType struct {
	Stamp
	Keyspace    string
	Name        string
	IfNotExists bool
	Fields      []FieldSpec
}

// AlterType represents the statement ALTER TYPE. Op is AddColumns, RenameColumns, or AlterValueType.
type AlterType struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
	Op       AlterOp
	IfField  bool
	Add      *FieldSpec
	Rename   []RenameSpec
}

// DropType represents the statement DROP TYPE.
type DropType struct {
	Stamp
	Keyspace string
	Name     string
	IfExists bool
}

// withType returns a keyspace that contains t. A type of the same name is replaced. All types and tables of the
// keyspace use the new type. withType also returns the sorted names of the changed tables.
func (k *Keyspace) withType(t *cqltype.Type) (*Keyspace, []string) {
	next := *k
	r := rebinder{old: k.Types, done: map[string]*cqltype.Type{t.Name: t}}
	next.Types = map[string]*cqltype.Type{t.Name: t}
	for name := range k.Types {
		next.Types[name] = r.named(name)
	}
	next.Functions = r.functions(k.Functions, k.Name, t.Name)
	var changed []string
	for _, table := range k.SortedTables() {
		if rebound := r.table(table, k.Name, t.Name); rebound != nil {
			if len(changed) == 0 {
				next.Tables = maps.Clone(k.Tables)
			}
			next.Tables[table.Name] = rebound
			changed = append(changed, table.Name)
		}
	}
	return &next, changed
}

// rebinder replaces user-defined types with their current definitions. Types cannot form a cycle, so the recursion
// ends.
type rebinder struct {
	old  map[string]*cqltype.Type
	done map[string]*cqltype.Type
}

func (r *rebinder) named(name string) *cqltype.Type {
	if t := r.done[name]; t != nil {
		return t
	}
	old := r.old[name]
	t := *old
	t.Elems = r.all(old.Elems)
	r.done[name] = &t
	return &t
}

func (r *rebinder) all(types []*cqltype.Type) []*cqltype.Type {
	rebound := make([]*cqltype.Type, len(types))
	for i, t := range types {
		rebound[i] = r.rebind(t)
	}
	return rebound
}

func (r *rebinder) rebind(t *cqltype.Type) *cqltype.Type {
	if t.Kind == cqltype.UDT {
		if t.Frozen {
			return r.named(t.Name).Freeze()
		}
		return r.named(t.Name)
	}
	if len(t.Elems) == 0 {
		return t
	}
	rebound := *t
	rebound.Elems = r.all(t.Elems)
	return &rebound
}

// table returns the table with its columns rebound, or nil if no column uses the type.
func (r *rebinder) table(t *Table, keyspace, name string) *Table {
	var next *Table
	for _, part := range []func(*Table) []*Column{
		func(t *Table) []*Column { return t.PartitionKey }, func(t *Table) []*Column { return t.Clustering },
		func(t *Table) []*Column { return t.Statics }, func(t *Table) []*Column { return t.Regulars },
	} {
		for i, c := range part(t) {
			if !c.Type.References(keyspace, name) {
				continue
			}
			if next == nil {
				next = t.clone()
			}
			col := *c
			col.Type = r.rebind(c.Type)
			part(next)[i] = &col
		}
	}
	if next != nil {
		next.reindex()
	}
	return next
}

func (c *CreateType) apply(s *Schema) (*Schema, []Event, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil, noKeyspace(c.Keyspace)
	}
	if ks.Types[c.Name] != nil {
		if c.IfNotExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("A user type with name '%s' already exists", c.Name)
	}
	udt, err := c.build(ks)
	if err != nil {
		return nil, nil, err
	}
	next := *ks
	next.Types = maps.Clone(ks.Types)
	if next.Types == nil {
		next.Types = map[string]*cqltype.Type{}
	}
	next.Types[c.Name] = udt
	return s.withKeyspace(&next), []Event{{Change: Created, Target: TargetType, Keyspace: c.Keyspace, Name: c.Name}},
		nil
}

func (c *CreateType) build(ks *Keyspace) (*cqltype.Type, error) {
	if len(c.Fields) > FieldsMax {
		return nil, dberr.Invalidf("A user type cannot have more than %d fields", FieldsMax)
	}
	names, types := make([]string, len(c.Fields)), make([]*cqltype.Type, len(c.Fields))
	for i, f := range c.Fields {
		if slices.Contains(names[:i], f.Name) {
			return nil, dberr.Invalidf("Duplicate field name '%s' in type '%s'", f.Name, c.Name)
		}
		names[i] = f.Name
	}
	for _, f := range c.Fields {
		if err := checkField(f.Type); err != nil {
			return nil, err
		}
	}
	for i, f := range c.Fields {
		var err error
		if types[i], err = f.Type.Bind(c.Keyspace, ks.Types); err != nil {
			return nil, err
		}
	}
	t := cqltype.UDTOf(c.Keyspace, c.Name, names, types)
	return t, checkTypeSize(t)
}

func checkField(t *TypeSpec) error {
	if t == nil {
		return dberr.Invalidf("no type given")
	}
	if t.Kind == cqltype.Counter {
		return dberr.Invalidf("A user type cannot contain counters")
	}
	if t.Kind == cqltype.UDT && !t.Frozen {
		return dberr.Invalidf("A user type cannot contain non-frozen UDTs")
	}
	return nil
}

func (c *AlterType) apply(s *Schema) (*Schema, []Event, error) {
	old := s.Type(c.Keyspace, c.Name)
	if old == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("Type %s.%s doesn't exist", c.Keyspace, c.Name)
	}
	ks := s.Keyspaces[c.Keyspace]
	udt := *old
	udt.Fields, udt.Elems = slices.Clone(old.Fields), slices.Clone(old.Elems)
	var err error
	switch c.Op {
	case AddColumns:
		err = c.add(&udt, ks)
	case RenameColumns:
		if err = c.checkInitials(ks); err == nil {
			err = c.rename(&udt)
		}
	default:
		err = dberr.Invalidf("Altering field types is no longer supported")
		if c.release().MisspelledTexts {
			err = dberr.Invalidf("Alterting field types is no longer supported")
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if udt.Equal(old) {
		return s, nil, nil
	}
	if err := checkTypeSize(&udt); err != nil {
		return nil, nil, err
	}
	next, tables := ks.withType(&udt)
	if err := next.checkSizes(tables); err != nil {
		return nil, nil, err
	}
	events := []Event{{Change: Updated, Target: TargetType, Keyspace: c.Keyspace, Name: c.Name}}
	for _, t := range tables {
		events = append(events, Event{Change: Updated, Target: TargetTable, Keyspace: c.Keyspace, Name: t})
	}
	return s.withKeyspace(next), events, nil
}

func (c *AlterType) add(udt *cqltype.Type, ks *Keyspace) error {
	if c.Add == nil {
		return dberr.Invalidf("no field to add")
	}
	name := c.Add.Name
	if udt.FieldIndex(name) >= 0 {
		if c.IfField {
			return nil
		}
		return dberr.Invalidf("Cannot add field %s to type %s.%s: a field with name %s already exists", name,
			c.Keyspace, c.Name, name)
	}
	if len(udt.Fields) >= FieldsMax {
		return dberr.Invalidf("A user type cannot have more than %d fields", FieldsMax)
	}
	if err := checkField(c.Add.Type); err != nil {
		return err
	}
	typ, err := c.Add.Type.Bind(c.Keyspace, ks.Types)
	if err != nil {
		return err
	}
	if typ.References(c.Keyspace, c.Name) {
		return dberr.Invalidf("Cannot add new field %s of type %s to user type %s.%s as it would create a circular "+
			"reference", name, c.Add.Type, c.Keyspace, c.Name)
	}
	if err := c.checkKeys(ks, typ); err != nil {
		return err
	}
	udt.Fields, udt.Elems = append(udt.Fields, name), append(udt.Elems, typ)
	return nil
}

// checkKeys rejects a new field that is not allowed in primary keys. No field can be added to a type in a partition
// key, because the new field would change the tokens of stored keys. A duration cannot be added to a type in a
// clustering column, because durations are not ordered.
func (c *AlterType) checkKeys(ks *Keyspace, field *cqltype.Type) error {
	uses := func(col *Column) bool { return col.Type.References(c.Keyspace, c.Name) }
	var inKey []string
	for _, t := range ks.SortedTables() {
		if slices.ContainsFunc(t.PartitionKey, uses) {
			inKey = append(inKey, t.String())
		}
	}
	if len(inKey) > 0 {
		return dberr.Invalidf("Cannot add new field %s of type %s to user type %s.%s as the type is being used in "+
			"partition key by the following tables: %s",
			c.Add.Name, c.Add.Type, c.Keyspace, c.Name, strings.Join(inKey, ", "))
	}
	for _, t := range ks.SortedTables() {
		if i := slices.IndexFunc(t.Clustering, uses); i >= 0 && field.Contains(cqltype.Duration) {
			return dberr.Invalidf("duration type is not supported for PRIMARY KEY column '%s'", t.Clustering[i].Name)
		}
	}
	return nil
}

// checkInitials rejects a change that renames the fields of a type if an aggregate's INITCOND uses the type.
func (c *AlterType) checkInitials(ks *Keyspace) error {
	var users []string
	for f := range ks.Scalars(true) {
		if f.Aggregate.Initial != nil && f.Aggregate.State.References(c.Keyspace, c.Name) {
			users = append(users, f.Qualified())
		}
	}
	if len(users) > 0 {
		return dberr.Invalidf("Cannot alter user type %s as it is still used in INITCOND by aggregates %s", c.Name,
			strings.Join(users, ", "))
	}
	return nil
}

func (c *AlterType) rename(udt *cqltype.Type) error {
	old := slices.Clone(udt.Fields)
	for _, r := range c.Rename {
		i := slices.Index(old, r.From)
		if i < 0 {
			if c.IfField {
				continue
			}
			of := c.Keyspace + "." + c.Name
			if c.release().MisspelledTexts {
				of = c.Keyspace
			}
			return dberr.Invalidf("Unkown field %s in user type %s", r.From, of)
		}
		udt.Fields[i] = r.To
	}
	for i, name := range udt.Fields {
		if slices.Contains(udt.Fields[:i], name) {
			return dberr.Invalidf("Duplicate field name %s in type %s", name, c.Keyspace)
		}
	}
	return nil
}

func (c *DropType) apply(s *Schema) (*Schema, []Event, error) {
	if s.Type(c.Keyspace, c.Name) == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("Type '%s.%s' doesn't exist", c.Keyspace, c.Name)
	}
	ks := s.Keyspaces[c.Keyspace]
	var types, tables, functions []string
	for _, f := range ks.Functions {
		if f.uses(c.Keyspace, c.Name) {
			functions = append(functions, f.Qualified())
		}
	}
	if len(functions) > 0 {
		return nil, nil, dberr.Invalidf("Cannot drop user type '%s.%s' as it is still used by functions %s", c.Keyspace,
			c.Name, strings.Join(functions, ", "))
	}
	for _, t := range ks.SortedTypes() {
		if t.Name != c.Name && t.References(c.Keyspace, c.Name) {
			types = append(types, t.Name)
		}
	}
	for _, t := range ks.SortedTables() {
		for col := range t.Columns() {
			if col.Type.References(c.Keyspace, c.Name) {
				tables = append(tables, t.Name)
				break
			}
		}
	}
	if len(types) > 0 {
		return nil, nil, dberr.Invalidf("Cannot drop user type '%s.%s' as it is still used by user types %s",
			c.Keyspace, c.Name, strings.Join(types, ", "))
	}
	if len(tables) > 0 {
		return nil, nil, dberr.Invalidf("Cannot drop user type '%s.%s' as it is still used by tables %s", c.Keyspace,
			c.Name, strings.Join(tables, ", "))
	}
	next := *ks
	next.Types = maps.Clone(ks.Types)
	delete(next.Types, c.Name)
	next.typeRest = maps.Clone(ks.typeRest)
	delete(next.typeRest, c.Name)
	return s.withKeyspace(&next), []Event{{Change: Dropped, Target: TargetType, Keyspace: c.Keyspace, Name: c.Name}},
		nil
}
