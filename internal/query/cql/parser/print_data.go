// SPDX-License-Identifier: Apache-2.0

package parser

import "strconv"

func itoa(n int) string { return strconv.Itoa(n) }

func printed(print func(p *printer)) string {
	var p printer
	print(&p)
	return p.String()
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Use) String() string { return "USE " + s.Keyspace.String() }

// String returns the statement as CQL text that parses to an equal tree.
func (s *Truncate) String() string { return "TRUNCATE " + s.Table.String() }

// String returns the statement as CQL text that parses to an equal tree.
func (s *Select) String() string {
	return printed(func(p *printer) {
		p.put("SELECT ")
		p.when(s.JSON, "JSON ")
		p.when(s.Distinct, "DISTINCT ")
		p.selectors(s.Selectors)
		p.put(" FROM ")
		p.name(s.Table)
		p.where(s.Where)
		if len(s.GroupBy) > 0 {
			p.put(" GROUP BY ")
			p.terms(s.GroupBy)
		}
		if len(s.OrderBy) > 0 {
			p.put(" ORDER BY ")
			each(p, s.OrderBy, ", ", p.ordering)
		}
		if s.PerPartitionLimit != nil {
			p.put(" PER PARTITION LIMIT ")
			p.term(s.PerPartitionLimit)
		}
		if s.Limit != nil {
			p.put(" LIMIT ")
			p.term(s.Limit)
		}
		p.when(s.AllowFiltering, " ALLOW FILTERING")
		p.using(Using{Timeout: s.Timeout})
	})
}

func (p *printer) selectors(list []Selector) {
	if len(list) == 0 {
		p.put("*")
		return
	}
	each(p, list, ", ", func(s Selector) {
		p.term(s.Term)
		if s.Alias.Name != "" {
			p.put(" AS ")
			p.ident(s.Alias)
		}
	})
}

func (p *printer) ordering(o Ordering) {
	p.ident(o.Column)
	if o.ANN != nil {
		p.put(" ANN OF ")
		p.term(o.ANN)
	}
	p.when(o.Descending, " DESC")
}

// where prints a WHERE clause if list is not empty.
func (p *printer) where(list []Relation) {
	if len(list) == 0 {
		return
	}
	p.put(" WHERE ")
	each(p, list, " AND ", p.relation)
}

// String prints the relation as CQL.
func (r *Relation) String() string { return printed(func(p *printer) { p.relation(*r) }) }

func (p *printer) relation(r Relation) {
	switch r.Kind {
	case TokenRelation:
		p.put("token")
		p.columnTuple(r.Columns)
	case MultiColumn:
		p.columnTuple(r.Columns)
	case ChangeFeedRelation:
		p.put(r.Columns[0].Name, "()")
	default:
		p.idents(r.Columns)
	}
	if r.Key != nil {
		p.put("[")
		p.term(r.Key)
		p.put("]")
	}
	p.comparison(r.Op, r.Value, r.Values)
}

func (p *printer) comparison(op Operator, value Term, values []Term) {
	p.put(" ", op.String())
	switch {
	case op == IsNotNull:
	case value != nil:
		p.put(" ")
		p.term(value)
	default:
		p.put(" (")
		p.terms(values)
		p.put(")")
	}
}

// String prints the condition as CQL.
func (c *Condition) String() string { return printed(func(p *printer) { p.condition(*c) }) }

func (p *printer) condition(c Condition) {
	p.part(c.Column, c.Key, c.Field)
	p.comparison(c.Op, c.Value, c.Values)
}

// part prints a column, or an element or a field of a column.
func (p *printer) part(column Ident, key Term, field Ident) {
	p.ident(column)
	switch {
	case key != nil:
		p.put("[")
		p.term(key)
		p.put("]")
	case field.Name != "":
		p.put(".")
		p.ident(field)
	}
}

func (p *printer) ifClause(exists bool, conditions []Condition) {
	p.when(exists, " IF EXISTS")
	if len(conditions) > 0 {
		p.put(" IF ")
		each(p, conditions, " AND ", p.condition)
	}
}

func (p *printer) using(u Using) {
	word, parts := " USING ", 0
	write := func(name string, value Term) {
		p.put(word, name)
		p.term(value)
		word = " AND "
		parts++
	}
	timeout := func() {
		if u.Timeout != nil && parts == u.TimeoutAfter {
			write("TIMEOUT ", u.Timeout)
		}
	}
	timeout()
	part := func(name string, value Term) {
		if value != nil {
			before := parts
			write(name, value)
			if before < u.TimeoutAfter {
				timeout()
			}
		}
	}
	if u.TTLFirst {
		part("TTL ", u.TTL)
	}
	part("TIMESTAMP ", u.Timestamp)
	if !u.TTLFirst {
		part("TTL ", u.TTL)
	}
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Insert) String() string {
	return printed(func(p *printer) {
		p.put("INSERT INTO ")
		p.name(s.Table)
		if s.JSON != nil {
			p.put(" JSON ")
			p.term(s.JSON)
			p.when(s.DefaultUnset, " DEFAULT UNSET")
		} else {
			p.put(" ")
			p.columnTuple(s.Columns)
			p.put(" VALUES (")
			p.terms(s.Values)
			p.put(")")
		}
		p.when(s.IfNotExists, " IF NOT EXISTS")
		p.using(s.Using)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Update) String() string {
	return printed(func(p *printer) {
		p.put("UPDATE ")
		p.name(s.Table)
		p.using(s.Using)
		p.put(" SET ")
		each(p, s.Assignments, ", ", p.assignment)
		p.where(s.Where)
		p.ifClause(s.IfExists, s.Conditions)
	})
}

func (p *printer) assignment(a Assignment) {
	p.part(a.Column, a.Key, a.Field)
	p.put(" = ")
	switch a.Kind {
	case AddTo:
		p.ident(a.Column)
		p.put(" + ")
	case SubtractFrom:
		p.ident(a.Column)
		p.put(" - ")
	}
	p.term(a.Value)
	if a.Kind == Prepend {
		p.put(" + ")
		p.ident(a.Column)
	}
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Delete) String() string {
	return printed(func(p *printer) {
		p.put("DELETE ")
		if len(s.Targets) > 0 {
			each(p, s.Targets, ", ", func(t DeleteTarget) { p.part(t.Column, t.Key, t.Field) })
			p.put(" ")
		}
		p.put("FROM ")
		p.name(s.Table)
		p.using(s.Using)
		p.where(s.Where)
		p.ifClause(s.IfExists, s.Conditions)
	})
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Batch) String() string {
	return printed(func(p *printer) {
		p.put("BEGIN ", [...]string{Logged: "", Unlogged: "UNLOGGED ", Counter: "COUNTER "}[s.Kind], "BATCH")
		p.using(s.Using)
		for _, st := range s.Statements {
			p.put(" ", st.String(), ";")
		}
		p.put(" APPLY BATCH")
	})
}
