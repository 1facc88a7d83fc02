// SPDX-License-Identifier: Apache-2.0

package parser

const (
	ifNotExists = "IF NOT EXISTS "
	ifExists    = "IF EXISTS "
)

// with prints properties after the word WITH or AND.
func (p *printer) with(word string, list []Property) {
	for _, prop := range list {
		p.put(" ", word, " ")
		p.property(prop)
		word = "AND"
	}
}

func (p *printer) property(prop Property) {
	p.ident(prop.Name)
	p.put(" = ")
	if !prop.IsMap {
		p.constant(prop.Value)
		return
	}
	p.entries(prop.Map)
}

func (p *printer) entries(list []PropertyEntry) {
	p.put("{")
	each(p, list, ", ", func(e PropertyEntry) { p.str(e.Key); p.put(": "); p.str(e.Value) })
	p.put("}")
}

func (p *printer) options(o TableOptions) {
	word := "WITH"
	if o.CompactStorage {
		p.put(" ", word, " COMPACT STORAGE")
		word = "AND"
	}
	if len(o.ClusteringOrder) > 0 {
		p.put(" ", word, " CLUSTERING ORDER BY (")
		each(p, o.ClusteringOrder, ", ", func(c ClusteringOrder) {
			p.ident(c.Column)
			if c.Descending {
				p.put(" DESC")
			} else {
				p.put(" ASC")
			}
		})
		p.put(")")
		word = "AND"
	}
	p.with(word, o.Properties)
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateKeyspace) String() string {
	return printed(func(p *printer) {
		p.put("CREATE KEYSPACE ")
		p.when(s.IfNotExists, ifNotExists)
		p.ident(s.Name)
		p.with("WITH", s.Properties)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AlterKeyspace) String() string {
	return printed(func(p *printer) {
		p.put("ALTER KEYSPACE ")
		p.when(s.IfExists, ifExists)
		p.ident(s.Name)
		p.with("WITH", s.Properties)
	})
}

// dropping returns the text of a DROP statement up to the name. The argument what is the kind of the object.
func dropping(what string, exists bool, name string) string {
	if exists {
		what += " IF EXISTS"
	}
	return "DROP " + what + " " + name
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropKeyspace) String() string { return dropping("KEYSPACE", s.IfExists, s.Name.String()) }

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropTable) String() string { return dropping("TABLE", s.IfExists, s.Name.String()) }

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropType) String() string { return dropping("TYPE", s.IfExists, s.Name.String()) }

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropIndex) String() string { return dropping("INDEX", s.IfExists, s.Name.String()) }

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropView) String() string {
	return dropping("MATERIALIZED VIEW", s.IfExists, s.Name.String())
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropTrigger) String() string {
	return dropping("TRIGGER", s.IfExists, s.Name.String()) + " ON " + s.Table.String()
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropFunction) String() string {
	return dropping("FUNCTION", s.IfExists, signature(s.Name, s.HasArgs, s.Args))
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *DropAggregate) String() string {
	return dropping("AGGREGATE", s.IfExists, signature(s.Name, s.HasArgs, s.Args))
}

func signature(name QualifiedName, given bool, args []*TypeName) string {
	return printed(func(p *printer) {
		p.function(name)
		if given {
			p.put("(")
			p.types(args)
			p.put(")")
		}
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateTable) String() string {
	return printed(func(p *printer) {
		p.put("CREATE TABLE ")
		p.when(s.IfNotExists, ifNotExists)
		p.name(s.Name)
		p.put(" (")
		each(p, s.Columns, ", ", p.columnDef)
		for i, k := range s.PrimaryKeys {
			p.when(i > 0 || len(s.Columns) > 0, ", ")
			p.primaryKey(k)
		}
		p.put(")")
		p.options(s.Options)
	})
}

func (p *printer) columnDef(c ColumnDef) {
	p.ident(c.Name)
	p.put(" ")
	p.typeName(c.Type)
	p.when(c.Static, " STATIC")
	if c.Mask != nil {
		p.put(" ")
		p.mask(c.Mask)
	}
	p.when(c.PrimaryKey, " PRIMARY KEY")
}

func (p *printer) mask(m *Mask) {
	p.put("MASKED WITH ")
	if m.Function.Name.Name == "" {
		p.put("DEFAULT")
		return
	}
	p.function(m.Function)
	p.put("(")
	p.terms(m.Args)
	p.put(")")
}

func (p *printer) primaryKey(k PrimaryKey) {
	p.put("PRIMARY KEY (")
	if len(k.Partition) == 1 {
		p.idents(k.Partition)
	} else {
		p.columnTuple(k.Partition)
	}
	for _, id := range k.Clustering {
		p.put(", ")
		p.ident(id)
	}
	p.put(")")
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AlterTable) String() string {
	return printed(func(p *printer) {
		p.put("ALTER TABLE ")
		p.when(s.IfExists, ifExists)
		p.name(s.Name)
		switch s.Kind {
		case AddColumns:
			p.put(" ADD ")
			p.when(s.IfColumn, ifNotExists)
			p.put("(")
			each(p, s.Added, ", ", p.columnDef)
			p.put(")")
		case DropColumns:
			p.put(" DROP ")
			p.when(s.IfColumn, ifExists)
			p.columnTuple(s.Dropped)
			p.using(Using{Timestamp: s.DropTimestamp})
		case DropCompactStorage:
			p.put(" DROP COMPACT STORAGE")
		case RenameColumns:
			p.put(" RENAME ")
			p.when(s.IfColumn, ifExists)
			p.renames(s.Renames)
		case AlterOptions:
			p.with("WITH", s.Properties)
		default:
			p.alterColumn(s)
		}
	})
}

func (p *printer) alterColumn(s *AlterTable) {
	p.put(" ALTER ")
	p.when(s.IfColumn, ifExists)
	p.ident(s.Column)
	switch s.Kind {
	case AlterColumnType:
		p.put(" TYPE ")
		p.typeName(s.Type)
	case MaskColumn:
		p.put(" ")
		p.mask(s.Mask)
	case UnmaskColumn:
		p.put(" DROP MASKED")
	}
}

func (p *printer) renames(list []Rename) {
	each(p, list, " AND ", func(r Rename) { p.ident(r.From); p.put(" TO "); p.ident(r.To) })
}

func (p *printer) fields(list []FieldDef) {
	each(p, list, ", ", func(f FieldDef) { p.ident(f.Name); p.put(" "); p.typeName(f.Type) })
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateType) String() string {
	return printed(func(p *printer) {
		p.put("CREATE TYPE ")
		p.when(s.IfNotExists, ifNotExists)
		p.name(s.Name)
		p.put(" (")
		p.fields(s.Fields)
		p.put(")")
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AlterType) String() string {
	return printed(func(p *printer) {
		p.put("ALTER TYPE ")
		p.when(s.IfExists, ifExists)
		p.name(s.Name)
		switch s.Kind {
		case AddField:
			p.put(" ADD ")
			p.when(s.IfField, ifNotExists)
			p.fields([]FieldDef{s.Field})
		case RenameFields:
			p.put(" RENAME ")
			p.when(s.IfField, ifExists)
			p.renames(s.Renames)
		case AlterFieldType:
			p.put(" ALTER ")
			p.when(s.IfField, ifExists)
			p.ident(s.Field.Name)
			p.put(" TYPE ")
			p.typeName(s.Field.Type)
		}
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateIndex) String() string {
	return printed(func(p *printer) {
		p.put("CREATE ")
		p.when(s.Custom, "CUSTOM ")
		p.put("INDEX ")
		p.when(s.IfNotExists, ifNotExists)
		if s.Name.Name.Name != "" {
			p.name(s.Name)
			p.put(" ")
		}
		p.put("ON ")
		p.name(s.Table)
		p.put(" (")
		each(p, s.Targets, ", ", p.indexTarget)
		p.put(")")
		if s.HasClass {
			p.put(" USING ")
			p.str(s.Class)
		}
		p.with("WITH", s.Properties)
	})
}

func (p *printer) indexTarget(t IndexTarget) {
	p.put([...]string{IndexColumn: "", IndexValues: "values(", IndexKeys: "keys(", IndexEntries: "entries(",
		IndexFull: "full("}[t.Kind])
	p.ident(t.Column)
	p.when(t.Kind != IndexColumn, ")")
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateView) String() string {
	return printed(func(p *printer) {
		p.put("CREATE MATERIALIZED VIEW ")
		p.when(s.IfNotExists, ifNotExists)
		p.name(s.Name)
		p.put(" AS SELECT ")
		p.selectors(s.Selectors)
		p.put(" FROM ")
		p.name(s.Table)
		p.where(s.Where)
		p.put(" ")
		p.primaryKey(s.PrimaryKey)
		p.options(s.Options)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *AlterView) String() string {
	return printed(func(p *printer) {
		p.put("ALTER MATERIALIZED VIEW ")
		p.when(s.IfExists, ifExists)
		p.name(s.Name)
		p.with("WITH", s.Properties)
	})
}

func (p *printer) creating(replace bool, what string, notExists bool, name QualifiedName) {
	p.put("CREATE ")
	p.when(replace, "OR REPLACE ")
	p.put(what, " ")
	p.when(notExists, ifNotExists)
	p.function(name)
	p.put(" (")
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateFunction) String() string {
	return printed(func(p *printer) {
		p.creating(s.OrReplace, "FUNCTION", s.IfNotExists, s.Name)
		p.fields(s.Args)
		p.put(") ")
		if s.CalledOnNullInput {
			p.put("CALLED")
		} else {
			p.put("RETURNS NULL")
		}
		p.put(" ON NULL INPUT RETURNS ")
		p.typeName(s.Returns)
		p.put(" LANGUAGE ", s.Language, " AS ")
		p.str(s.Body)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateAggregate) String() string {
	return printed(func(p *printer) {
		p.creating(s.OrReplace, "AGGREGATE", s.IfNotExists, s.Name)
		p.types(s.Args)
		p.put(") SFUNC ")
		p.localFunction(s.StateFunc)
		p.put(" STYPE ")
		p.typeName(s.StateType)
		if s.FinalFunc.Name != "" {
			p.put(" FINALFUNC ")
			p.localFunction(s.FinalFunc)
		}
		if s.InitCond != nil {
			p.put(" INITCOND ")
			p.term(s.InitCond)
		}
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *CreateTrigger) String() string {
	return printed(func(p *printer) {
		p.put("CREATE TRIGGER ")
		p.when(s.IfNotExists, ifNotExists)
		p.ident(s.Name)
		p.put(" ON ")
		p.name(s.Table)
		p.put(" USING ")
		p.str(s.Class)
	})
}
