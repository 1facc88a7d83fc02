// SPDX-License-Identifier: Apache-2.0

package write

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Column describes a column of a result.
type Column = expr.Column

type kind uint8

const (
	insert kind = iota
	update
	remove
)

var kindNames = [...]string{insert: "INSERT", update: "UPDATE", remove: "DELETE"}

// Plan is an INSERT, UPDATE, or DELETE that is bound to one table revision.
type Plan struct {
	kind     kind
	keyspace *schema.Keyspace
	table    *schema.Table

	variables []expr.Column
	markers   int
	pkIndexes []uint16

	where where
	// ops holds the column changes in the order of the statement.
	ops []operation
	// rowMarker is true for an INSERT that writes a row marker.
	rowMarker bool
	// missingCells is true for an INSERT into a compact table that does not set any of the cells that form a row.
	missingCells bool
	// writesRows reports whether rows are written or deleted, in addition to the static row. deletesRows is true for a
	// DELETE of rows, ranges, or partitions.
	writesRows, deletesRows bool

	using usingClause

	// exists is the IF [NOT] EXISTS clause. conditions holds the conditions on columns.
	exists      exists
	conditions  []condition
	conditional bool
	result      resultColumns

	// readsRow reports whether an operation depends on the stored row. static and regular report whether the plan
	// writes static columns and regular columns.
	readsRow, static, regular bool
	// json is the document of INSERT JSON. For other statements, json is nil. If json is not nil, the plan is an INSERT
	// whose markers are the columns of json.
	json *jsonDocument

	indexes []*index
	views   []*planView
	dropped []cqltype.Dropped
}

type exists uint8

const (
	mayExist exists = iota
	mustExist
	mustNotExist
)

// Prepare binds an INSERT, UPDATE, or DELETE on a table of a keyspace. markers is the number of bind markers in the
// statement. The caller must check whether the table is writable. See catalog.CheckWritable.
func Prepare(rel *compat.Release, stmt parser.Statement, ks *schema.Keyspace, table *schema.Table, markers int) (
	*Plan, error) {
	return PrepareIn(stmt, expr.NewEnv(rel, ks, table, markers), markers)
}

// PrepareIn works like Prepare but uses an existing environment.
func PrepareIn(stmt parser.Statement, env *expr.Env, markers int) (*Plan, error) {
	p, err := bind(stmt, env)
	if err != nil {
		return nil, err
	}
	p.variables, p.markers = env.Variables(), markers
	return p, nil
}

// bind binds a statement in an environment. The statements of a batch may share the environment.
func bind(stmt parser.Statement, env *expr.Env) (*Plan, error) {
	p := &Plan{keyspace: env.Keyspace, table: env.Table, dropped: env.Table.Hidden()}
	p.indexes, p.result.masks = indexesOf(env.Table), expr.MasksOf(env)
	var err error
	switch s := stmt.(type) {
	case *parser.Insert:
		err = p.bindInsert(s, env)
	case *parser.Update:
		err = p.bindUpdate(s, env)
	case *parser.Delete:
		err = p.bindDelete(s, env)
	default:
		err = dberr.Invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
	}
	if err != nil {
		return nil, err
	}
	return p, p.finish()
}

// Keyspace returns the keyspace of the table.
func (p *Plan) Keyspace() *schema.Keyspace { return p.keyspace }

// Table returns the table revision to which the plan is bound.
func (p *Plan) Table() *schema.Table { return p.table }

// Variables returns the descriptions of the bind markers.
func (p *Plan) Variables() []expr.Column { return p.variables }

// PKIndexes returns the indexes of the partition key markers in key order. It returns nil unless all components of the
// partition key are bound.
func (p *Plan) PKIndexes() []uint16 { return p.pkIndexes }

// Conditional reports whether the statement has an IF clause. The outcome of a conditional statement contains rows.
func (p *Plan) Conditional() bool { return p.conditional }

// NeedsLeader reports whether an execution depends on the stored row or changes a table with a change log. Such an
// execution may wait for other writes with the same partition key.
func (p *Plan) NeedsLeader() bool { return p.conditional || p.readsRow || p.table.Logged() }

// finish checks the complete statement and computes the data that all executions use.
func (p *Plan) finish() error {
	if p.table.Counter {
		switch {
		case p.conditional:
			return dberr.Invalidf("Conditional updates are not supported on counter tables")
		case p.using.timestamp != nil:
			return dberr.Invalidf("Cannot provide custom timestamp for counter updates")
		case p.using.ttl != nil:
			return dberr.Invalidf("Cannot provide custom TTL for counter updates")
		}
	}
	p.static, p.regular = p.touches()
	p.regular = p.regular || p.deletesRows
	p.rowMarker = p.kind == insert && p.writesRows && !p.table.RowsAreCells()
	for i := range p.ops {
		o := &p.ops[i]
		p.readsRow = p.readsRow || o.kind.readsRow()
		if err := o.checkAnalyzedAdd(); err != nil {
			return err
		}
		o.put = (o.kind == appendElements || o.kind == prependElements) && p.readsList(o.column)
	}
	p.finishResult()
	return p.bindViews()
}

// readsList reports whether an operation depends on the stored elements of a list.
func (p *Plan) readsList(c *schema.Column) bool {
	return slices.ContainsFunc(p.ops, func(o operation) bool { return o.column == c && o.kind.readsRow() })
}

// stamp holds the timestamp and the TTL of one execution.
type stamp struct {
	timestamp int64
	ttl       int32
	expiry    int64
	// at is the time of deletions in Unix seconds.
	at int64
}

// stamp evaluates the USING clause. If the statement does not set a timestamp, the timestamp is fallback.
func (p *Plan) stamp(b *expr.Bindings, fallback int64) (s stamp, err error) {
	s = stamp{at: b.Now.Unix(), expiry: row.NoExpiry}
	if p.conditional || p.table.Counter {
		fallback = row.Unstamped // the leader sets the timestamp
	}
	if s.timestamp, err = p.using.evalTimestamp(b, fallback); err != nil || p.kind == remove {
		return s, err
	}
	if s.ttl, err = p.using.evalTTL(b, p.table.Options.DefaultTTL); err == nil && s.ttl != 0 {
		s.expiry = s.at + int64(s.ttl)
	}
	return s, err
}
