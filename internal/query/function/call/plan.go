// SPDX-License-Identifier: Apache-2.0

package call

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Plan is a CALL that is bound to one container revision.
type Plan struct {
	table *schema.Table
	// id is the ID of the procedure.
	id string
	// args holds all arguments. The first arguments are the partition key values. The container has one partition key
	// path for each of these values.
	args []argument
	// types holds the types of the procedure's arguments. Error messages contain these types.
	types     []string
	log       bool
	variables []expr.Column
	pkIndexes []uint16
}

// Column describes a column of the result.
type Column = expr.Column

// Prepare binds a CALL. keyspace is the session's keyspace. markers is the number of bind markers.
func Prepare(rel *compat.Release, stmt *parser.Call, snapshot *schema.Schema, keyspace string, markers int) (*Plan,
	error) {
	if stmt.Keyspace.Name != "" {
		keyspace = stmt.Keyspace.Name
	}
	if keyspace == "" {
		return nil, dberr.Invalidf("No keyspace has been specified. USE a keyspace, or call keyspace.container.procedure")
	}
	ks := snapshot.Keyspace(keyspace)
	if ks == nil {
		return nil, dberr.Invalidf("keyspace %s does not exist", keyspace)
	}
	t, id, err := findProcedure(stmt, ks)
	if err != nil {
		return nil, err
	}
	p := &Plan{table: t, id: id, log: stmt.Log}
	paths := len(t.PartitionKey)
	if len(stmt.Args) < paths {
		return nil, dberr.Invalidf("The first arguments of CALL must be the partition key: %s has the paths %v, but there are only "+
			"%d arguments", t, t.Container.Paths, len(stmt.Args))
	}
	b := binder{env: expr.NewEnv(rel, ks, t, markers)}
	for i, term := range stmt.Args {
		name := "arg" + itoa(i-paths+1)
		if i < paths {
			name = t.PartitionKey[i].Name
		}
		a, typ, err := b.bind(term, name)
		if err != nil {
			return nil, err
		}
		p.args = append(p.args, a)
		if i >= paths {
			p.types = append(p.types, typ)
		} else if m := markerOf(term); m != nil {
			p.pkIndexes = append(p.pkIndexes, uint16(m.Index))
		}
	}
	if len(p.pkIndexes) < paths {
		p.pkIndexes = nil
	}
	p.variables = b.env.Variables()
	return p, nil
}

// findProcedure returns the procedure that a statement calls.
func findProcedure(stmt *parser.Call, ks *schema.Keyspace) (*schema.Table, string, error) {
	if stmt.Container.Name != "" {
		t := ks.Tables[stmt.Container.Name]
		switch {
		case t == nil:
			return nil, "", dberr.Invalidf("container %s.%s does not exist", ks.Name, stmt.Container.Name)
		case t.Container == nil:
			return nil, "", dberr.Invalidf("%s is a table: only containers have procedures", t)
		}
		ids := t.Container.Procedures(stmt.Procedure.Name, stmt.Procedure.Quoted)
		switch len(ids) {
		case 0:
			return nil, "", dberr.Invalidf("container %s has no procedure %s", t,
				cqltype.QuoteName(stmt.Procedure.Name))
		case 1:
			return t, ids[0], nil
		}
		return nil, "", dberr.Invalidf("container %s has the procedures %s: specify the exact name in double quotes", t,
			strings.Join(ids, ", "))
	}
	var tables []*schema.Table
	var found []string
	for _, t := range ks.SortedTables() {
		for _, id := range t.Container.Procedures(stmt.Procedure.Name, stmt.Procedure.Quoted) {
			tables, found = append(tables, t), append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return nil, "", dberr.Invalidf("no container of keyspace %s has a procedure %s", ks.Name,
			cqltype.QuoteName(stmt.Procedure.Name))
	case 1:
		return tables[0], found[0], nil
	}
	var full []string
	for i, t := range tables {
		full = append(full, t.String()+"."+cqltype.QuoteName(found[i]))
	}
	return nil, "", dberr.Invalidf("%s.%s is ambiguous: use %s", ks.Name,
		cqltype.QuoteName(stmt.Procedure.Name), strings.Join(full, " or "))
}

// Procedure returns the procedure as an access resource.
func (p *Plan) Procedure() access.Resource {
	return access.OfProcedure(p.table.Keyspace, p.table.Name, p.id)
}

// Table returns the container revision to which the plan is bound.
func (p *Plan) Table() *schema.Table { return p.table }

// Name returns the names of the container and the procedure, such as foods.transfer. Errors and traces contain this
// name.
func (p *Plan) Name() string { return p.table.Name + "." + p.id }

// Variables returns the descriptions of the bind markers.
func (p *Plan) Variables() []expr.Column { return p.variables }

// PKIndexes returns the indexes of the partition key markers, or nil if a component of the partition key is not a
// marker.
func (p *Plan) PKIndexes() []uint16 { return slices.Clone(p.pkIndexes) }

// Columns returns the descriptions of the result columns. The first column is the response body as JSON, or null if the
// response has no body. If the statement requests the log, the second column is the log.
func (p *Plan) Columns() []Column {
	text := cqltype.Native(cqltype.Text)
	columns := []Column{{Keyspace: p.table.Keyspace, Table: p.table.Name, Name: "result", Type: text}}
	if p.log {
		columns = append(columns, Column{Keyspace: p.table.Keyspace, Table: p.table.Name, Name: "log", Type: text})
	}
	return columns
}
