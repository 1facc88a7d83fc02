// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

var errNoKeyspace = dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")

// keyspaceOf returns the keyspace of a name. If the name contains no keyspace, it returns the session's keyspace.
func keyspaceOf(name parser.QualifiedName, session string) (string, error) {
	if name.HasKeyspace() {
		return name.Keyspace.Name, nil
	}
	if session == "" {
		return "", errNoKeyspace
	}
	return session, nil
}

// plain returns a name without quotes. Cassandra's messages contain such names.
func plain(name parser.QualifiedName) string {
	if name.HasKeyspace() {
		return name.Keyspace.Name + "." + name.Name.Name
	}
	return name.Name.Name
}

func (e *Executor) stamp() schema.Stamp {
	return schema.Stamp{Version: e.opts.UUID(), At: e.opts.Clock.Wall().UnixMicro(), Release: e.opts.Release}
}

// change converts a statement into a change. If the statement is not a change, it returns nil. It returns only errors
// that do not depend on the schema.
func (e *Executor) change(stmt parser.Statement, session string) (schema.Change, error) {
	switch s := stmt.(type) {
	case *parser.CreateKeyspace:
		return &schema.CreateKeyspace{
			Stamp: e.stamp(), Name: s.Name.Name, IfNotExists: s.IfNotExists,
			Properties: properties(s.Properties), Datacenters: e.datacenters(),
		}, nil
	case *parser.AlterKeyspace:
		return &schema.AlterKeyspace{
			Stamp: e.stamp(), Name: s.Name.Name, IfExists: s.IfExists,
			Properties: properties(s.Properties), Datacenters: e.datacenters(),
		}, nil
	case *parser.DropKeyspace:
		return &schema.DropKeyspace{Stamp: e.stamp(), Name: s.Name.Name, IfExists: s.IfExists}, nil
	case *parser.CreateTable:
		return e.createTable(s, session)
	case *parser.AlterTable:
		return e.alterTable(s, session)
	case *parser.DropTable:
		ks, err := keyspaceOf(s.Name, session)
		return orError(&schema.DropTable{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists},
			err)
	case *parser.CreateType:
		return e.createType(s, session)
	case *parser.AlterType:
		return e.alterType(s, session)
	case *parser.DropType:
		ks, err := keyspaceOf(s.Name, session)
		return orError(&schema.DropType{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists},
			err)
	case *parser.CreateIndex:
		return e.createIndex(s, session)
	case *parser.CreateView:
		return e.createView(s, session)
	case *parser.AlterView:
		ks, err := keyspaceOf(s.Name, session)
		return orError(&schema.AlterView{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists,
			Properties: properties(s.Properties)}, err)
	case *parser.DropView:
		ks, err := keyspaceOf(s.Name, session)
		return orError(&schema.DropView{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists},
			err)
	case *parser.CreateFunction:
		return e.createFunction(s, session)
	case *parser.CreateAggregate:
		return e.createAggregate(s, session)
	case *parser.DropFunction:
		return e.dropFunction(s.Name, s.IfExists, s.HasArgs, s.Args, false, session)
	case *parser.DropAggregate:
		return e.dropFunction(s.Name, s.IfExists, s.HasArgs, s.Args, true, session)
	case *parser.DropIndex:
		ks, err := keyspaceOf(s.Name, session)
		return orError(&schema.DropIndex{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists},
			err)
	}
	return nil, nil
}

// orError returns the change, or nil if err is not nil.
func orError(c schema.Change, err error) (schema.Change, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (e *Executor) datacenters() []string {
	info := e.catalog.Info()
	return info.Datacenters()
}

func properties(given []parser.Property) []schema.Property {
	out := make([]schema.Property, len(given))
	for i, p := range given {
		out[i] = schema.Property{Name: p.Name.Name, Value: p.Value.Text, IsMap: p.IsMap}
		for _, entry := range p.Map {
			out[i].Map = append(out[i].Map, schema.Entry{Key: entry.Key, Value: entry.Value})
		}
	}
	return out
}

func names(idents []parser.Ident) []string {
	out := make([]string, len(idents))
	for i, id := range idents {
		out[i] = id.Name
	}
	return out
}

func columns(defs []parser.ColumnDef) ([]schema.ColumnSpec, error) {
	specs := make([]schema.ColumnSpec, len(defs))
	for i, d := range defs {
		spec, err := catalog.TypeSpec(d.Type)
		if err != nil {
			return nil, err
		}
		specs[i] = schema.ColumnSpec{Name: d.Name.Name, Type: spec, Static: d.Static}
	}
	return specs, nil
}

func (e *Executor) createTable(s *parser.CreateTable, session string) (schema.Change, error) {
	keys := s.PrimaryKeys
	seen := map[string]bool{}
	for _, c := range s.Columns {
		if seen[c.Name.Name] {
			return nil, dberr.Invalidf("Duplicate column '%s' declaration for table '%s'", c.Name.Name, plain(s.Name))
		}
		seen[c.Name.Name] = true
		if c.PrimaryKey {
			keys = append(keys, parser.PrimaryKey{Partition: []parser.Ident{c.Name}})
		}
	}
	if len(keys) > 1 {
		return nil, dberr.Invalidf("Multiple PRIMARY KEY specified for table '%s' (exactly one required)",
			plain(s.Name))
	}
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, dberr.Invalidf("No PRIMARY KEY specifed for table '%s' (exactly one required)", plain(s.Name))
	}
	specs, err := columns(s.Columns)
	if err != nil {
		return nil, err
	}
	c := &schema.CreateTable{
		Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfNotExists: s.IfNotExists, ID: e.opts.UUID(),
		Columns:      specs,
		PartitionKey: names(keys[0].Partition), Clustering: names(keys[0].Clustering),
		CompactStorage: s.Options.CompactStorage,
		Properties:     properties(s.Options.Properties),
	}
	for _, o := range s.Options.ClusteringOrder {
		c.Order = append(c.Order, schema.OrderSpec{Column: o.Column.Name, Desc: o.Descending})
	}
	return c, nil
}

func (e *Executor) alterTable(s *parser.AlterTable, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.AlterTable{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists,
		IfColumn: s.IfColumn, FixedCompact: e.opts.Release.FixedCompact, KeepsCompact: e.opts.KeepsCompact}
	switch s.Kind {
	case parser.AlterColumnType:
		c.Op = schema.AlterValueType
	case parser.AddColumns:
		c.Op = schema.AddColumns
		c.Add, err = columns(s.Added)
	case parser.DropColumns:
		c.Op, c.Drop = schema.DropColumns, names(s.Dropped)
		c.DroppedAt, err = dropTime(s.DropTimestamp)
	case parser.RenameColumns:
		c.Op, c.Rename = schema.RenameColumns, renames(s.Renames)
	case parser.AlterOptions:
		c.Op, c.Properties = schema.SetOptions, properties(s.Properties)
	case parser.DropCompactStorage:
		c.Op = schema.DropCompactStorage
	case parser.MaskColumn, parser.UnmaskColumn:
		c.Op, c.Column = schema.AlterMask, s.Column.Name
	}
	return orError(c, err)
}

// dropTime returns the value of DROP .. USING TIMESTAMP, or 0 if the clause is missing.
func dropTime(t parser.Term) (int64, error) {
	if t == nil {
		return 0, nil
	}
	c, ok := t.(*parser.Constant)
	if !ok {
		return 0, dberr.Invalidf("Bind variables are not supported in DDL queries")
	}
	at, err := strconv.ParseInt(c.Text, 10, 64)
	if err != nil {
		return 0, dberr.Syntaxf("Invalid timestamp %s", c.Text)
	}
	return at, nil
}

func renames(given []parser.Rename) []schema.RenameSpec {
	out := make([]schema.RenameSpec, len(given))
	for i, r := range given {
		out[i] = schema.RenameSpec{From: r.From.Name, To: r.To.Name}
	}
	return out
}

func (e *Executor) createType(s *parser.CreateType, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.CreateType{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfNotExists: s.IfNotExists}
	for _, f := range s.Fields {
		spec, err := catalog.TypeSpec(f.Type)
		if err != nil {
			return nil, err
		}
		c.Fields = append(c.Fields, schema.FieldSpec{Name: f.Name.Name, Type: spec})
	}
	return c, nil
}

func (e *Executor) alterType(s *parser.AlterType, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.AlterType{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, IfExists: s.IfExists,
		IfField: s.IfField}
	switch s.Kind {
	case parser.AddField:
		c.Op = schema.AddColumns
		spec, err := catalog.TypeSpec(s.Field.Type)
		if err != nil {
			return nil, err
		}
		c.Add = &schema.FieldSpec{Name: s.Field.Name.Name, Type: spec}
	case parser.RenameFields:
		c.Op, c.Rename = schema.RenameColumns, renames(s.Renames)
	default:
		c.Op = schema.AlterValueType
	}
	return c, nil
}

var indexTargets = map[parser.IndexTargetKind]schema.IndexTarget{
	parser.IndexColumn: schema.IndexValue, parser.IndexValues: schema.IndexValues, parser.IndexKeys: schema.IndexKeys,
	parser.IndexEntries: schema.IndexEntries, parser.IndexFull: schema.IndexFull,
}

// indexClass determines the kind of an index. An index without a class is a legacy index. An index with a class other
// than the legacy class is a custom index. As in Cassandra 4.0, the class may be unknown.
func (e *Executor) indexClass(c *schema.CreateIndex) {
	if e.opts.Release.CustomKeyword {
		c.Custom = c.Custom || schema.IsAttachedClass(c.Class)
		return
	}
	if c.Custom && !c.HasClass {
		c.Class, c.HasClass = schema.LegacyClass, true
		return
	}
	if !c.Custom && c.HasClass {
		c.Custom = !strings.EqualFold(c.Class, schema.LegacyClass)
		c.HasClass = c.Custom
	}
}

func (e *Executor) createIndex(s *parser.CreateIndex, session string) (schema.Change, error) {
	name := s.Table
	if !name.HasKeyspace() && s.Name.HasKeyspace() {
		name.Keyspace = s.Name.Keyspace
	}
	ks, err := keyspaceOf(name, session)
	if err != nil {
		return nil, err
	}
	if s.Name.HasKeyspace() && s.Name.Keyspace.Name != ks {
		return nil, dberr.Invalidf("Keyspace name '%s' doesn't match index name '%s'", ks, plain(s.Name))
	}
	c := &schema.CreateIndex{
		Stamp: e.stamp(), Keyspace: ks, Table: s.Table.Name.Name, IfNotExists: s.IfNotExists, Name: s.Name.Name.Name,
		Custom: s.Custom, Class: s.Class, HasClass: s.HasClass, Properties: properties(s.Properties),
	}
	e.indexClass(c)
	for _, t := range s.Targets {
		c.Targets = append(c.Targets, schema.TargetSpec{Column: t.Column.Name, Target: indexTargets[t.Kind]})
	}
	return c, nil
}
