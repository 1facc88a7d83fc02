// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"cmp"
	"crypto/rand"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

var errMaskingOff = dberr.Invalidf("Cannot mask columns because dynamic data masking is not enabled. You can enable it " +
	"with the dynamic_data_masking_enabled property on cassandra.yaml")

// bindMasks binds the masks in a statement. It uses the schema of this node. If an object is missing, applying the
// change returns the error.
func (e *Executor) bindMasks(stmt parser.Statement, change schema.Change, s *schema.Schema) error {
	switch c := change.(type) {
	case *schema.CreateTable:
		ks := s.Keyspace(c.Keyspace)
		if ks == nil || ks.Tables[c.Name] != nil {
			return nil
		}
		return e.maskColumns(stmt.(*parser.CreateTable).Columns, c.Columns, c.Name, s, ks)
	case *schema.AlterTable:
		t := s.Table(c.Keyspace, c.Name)
		if t == nil {
			return nil
		}
		ks, alter := s.Keyspace(c.Keyspace), stmt.(*parser.AlterTable)
		if c.Op != schema.AlterMask {
			return e.maskColumns(alter.Added, c.Add, c.Name, s, ks)
		}
		col := t.Column(c.Column)
		if alter.Mask == nil || col == nil {
			return nil
		}
		var err error
		c.Mask, err = e.bindMask(alter.Mask, col.Name, schema.SpecOf(col.Type), c.Name, s, ks)
		return err
	}
	return nil
}

// maskColumns sets the masks of columns in a change. As in Cassandra, it processes the columns in the order of their
// names. This order determines which error is returned first.
func (e *Executor) maskColumns(defs []parser.ColumnDef, specs []schema.ColumnSpec, table string,
	s *schema.Schema, ks *schema.Keyspace) error {
	order := make([]int, len(specs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(specs[a].Name, specs[b].Name) })
	for _, i := range order {
		if defs[i].Mask == nil {
			continue
		}
		var err error
		if specs[i].Mask, err = e.bindMask(defs[i].Mask, specs[i].Name, specs[i].Type, table, s, ks); err != nil {
			return err
		}
	}
	return nil
}

func (e *Executor) bindMask(m *parser.Mask, column string, spec *schema.TypeSpec, table string,
	s *schema.Schema, ks *schema.Keyspace) (*schema.MaskSpec, error) {
	if e.opts.MaskingOff {
		return nil, errMaskingOff
	}
	t, err := spec.Bind(ks.Name, ks.Types)
	if err != nil {
		return nil, err
	}
	env := expr.NewEnv(e.opts.Release, ks, nil, 0)
	env.Functions = expr.FunctionsOf(e.opts.Functions, s)
	bound, err := expr.BindMask(m, table, column, t, env)
	if err != nil {
		return nil, err
	}
	bound.Secret = make([]byte, 32)
	if _, err := rand.Read(bound.Secret); err != nil {
		return nil, dberr.Serverf("cannot read random numbers: %v", err)
	}
	return bound, nil
}
