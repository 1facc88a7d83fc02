// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

func (p *Plan) bindInsert(s *parser.Insert, env *expr.Env) error {
	p.kind = insert
	if p.table.Counter {
		return dberr.Invalidf("INSERT statements are not allowed on counter tables, use UPDATE instead")
	}
	if s.JSON != nil {
		return p.bindInsertJSON(s, env)
	}
	if len(s.Columns) == 0 {
		return dberr.Invalidf("No columns provided to INSERT")
	}
	if err := p.bindInsertIf(s, env); err != nil {
		return err
	}
	if len(s.Columns) != len(s.Values) {
		return dberr.Invalidf("Unmatched column names/values")
	}
	seen := make(map[parser.Ident]bool, len(s.Columns))
	for _, name := range s.Columns {
		if seen[name] {
			return dberr.Invalidf("The column names contains duplicates")
		}
		seen[name] = true
	}
	columns := make([]*schema.Column, len(s.Columns))
	for i, name := range s.Columns {
		c, err := expr.FindColumn(p.table, name)
		if err != nil {
			return err
		}
		columns[i] = c
	}
	p.pkIndexes = insertedKey(p.table, columns, s.Values)
	return p.bindValues(columns, s.Values, env)
}

// bindInsertIf binds the USING and IF NOT EXISTS clauses of an INSERT.
func (p *Plan) bindInsertIf(s *parser.Insert, env *expr.Env) error {
	var err error
	if p.using, err = bindUsing(&s.Using, env); err != nil {
		return err
	}
	if !s.IfNotExists {
		return nil
	}
	p.conditional, p.exists = true, mustNotExist
	return p.checkConditionalTimestamp()
}

// bindValues binds the columns and values of an INSERT.
func (p *Plan) bindValues(columns []*schema.Column, values []parser.Term, env *expr.Env) error {
	clustered := false
	for i, c := range columns {
		clustered = clustered || c.Kind == schema.Clustering
		if c.Kind <= schema.Clustering {
			v, err := expr.Bind(values[i], expr.ForColumn(c), env)
			if err != nil {
				return err
			}
			if err := p.where.add(relation.EqualTo(c, v)); err != nil {
				return err
			}
			continue
		}
		o, err := bindSet(c, values[i], env)
		if err != nil {
			return err
		}
		p.addOperation(o)
	}
	static, regular := p.touches()
	if p.table.RowsAreCells() && !regular {
		if len(p.table.Clustering) == 0 { // in Cassandra, such a table has a hidden clustering column
			return dberr.Invalidf("Some clustering keys are missing: column1")
		}
		p.missingCells = true
	}
	onlyStatic := !clustered && static && !regular
	p.writesRows = !onlyStatic || len(p.table.Clustering) == 0
	return p.where.check(p, onlyStatic)
}

// insertedKey returns the indexes of the partition key markers of an INSERT.
func insertedKey(t *schema.Table, columns []*schema.Column, values []parser.Term) []uint16 {
	indexes := make([]uint16, len(t.PartitionKey))
	found := 0
	for i, c := range columns {
		if c.Kind != schema.PartitionKey {
			continue
		}
		if n, ok := markerOf(values[i]); ok {
			indexes[c.Position] = n
			found++
		}
	}
	if found < len(indexes) {
		return nil
	}
	return indexes
}

func markerOf(t parser.Term) (uint16, bool) {
	m, ok := t.(*parser.Marker)
	if !ok {
		return 0, false
	}
	return uint16(m.Index), true
}

func (p *Plan) bindUpdate(s *parser.Update, env *expr.Env) error {
	p.kind = update
	var err error
	if p.using, err = bindUsing(&s.Using, env); err != nil {
		return err
	}
	if err := p.bindIf(s.IfExists, s.Conditions, env); err != nil {
		return err
	}
	for i := range s.Assignments {
		a := &s.Assignments[i]
		c, err := expr.FindColumn(p.table, a.Column)
		if err != nil {
			return err
		}
		if c.Kind <= schema.Clustering {
			return dberr.Invalidf("PRIMARY KEY part %s found in SET part", c.Name)
		}
		o, err := bindAssignment(a, c, p.conditional, env)
		if err != nil {
			return err
		}
		p.addOperation(o)
	}
	return p.bindWhere(s.Where, env)
}

func (p *Plan) bindDelete(s *parser.Delete, env *expr.Env) error {
	p.kind = remove
	var err error
	if p.using, err = bindUsing(&s.Using, env); err != nil {
		return err
	}
	if err := p.bindIf(s.IfExists, s.Conditions, env); err != nil {
		return err
	}
	for i := range s.Targets {
		d := &s.Targets[i]
		c, err := expr.FindColumn(p.table, d.Column)
		if err != nil {
			return err
		}
		if c.Kind <= schema.Clustering {
			return dberr.Invalidf("Invalid identifier %s for deletion (should not be a PRIMARY KEY part)", c.Name)
		}
		o, err := bindDeletion(d, c, env)
		if err != nil {
			return err
		}
		p.addOperation(o)
	}
	p.deletesRows = len(s.Targets) == 0
	if err := p.bindWhere(s.Where, env); err != nil {
		return err
	}
	return p.checkDelete()
}

// bindWhere binds the WHERE clause of UPDATE and DELETE. All other clauses must be bound before the call.
func (p *Plan) bindWhere(relations []parser.Relation, env *expr.Env) error {
	if err := p.where.bindRelations(relations, env, p.kind == update); err != nil {
		return err
	}
	static, regular := p.touches()
	regular = regular || p.deletesRows
	for i := range p.conditions {
		if p.conditions[i].column.Kind == schema.Static {
			static = true
		} else {
			regular = true
		}
	}
	p.pkIndexes = relation.PartitionMarkers(relations, p.table)
	p.writesRows = regular || !p.where.clustering.Empty() || len(p.table.Clustering) == 0
	return p.where.check(p, static && !regular)
}

// checkDelete rejects deletions of columns in ranges and conditions on ranges.
func (p *Plan) checkDelete() error {
	_, regular := p.touches()
	full := p.where.full(p.table)
	if p.conditional && !full {
		if regular || p.deletesRows {
			return dberr.Invalidf("DELETE statements must restrict all PRIMARY KEY columns with equality relations " +
				"in order to delete non static columns")
		}
		for i := range p.conditions {
			if p.conditions[i].column.Kind != schema.Static {
				return dberr.Invalidf("DELETE statements must restrict all PRIMARY KEY columns with equality " +
					"relations in order to use IF condition on non static columns")
			}
		}
	}
	if !full && regular {
		return dberr.Invalidf("Range deletions are not supported for specific columns")
	}
	return nil
}
