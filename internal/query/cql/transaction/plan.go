// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// Plan is a transaction that is bound to one table revision.
type Plan struct {
	// text is the text of the statement. keyspace is the keyspace of unqualified table names.
	text, keyspace string
	ks             *schema.Keyspace
	table          *schema.Table
	variables      []expr.Column
	called         expr.Calls
	pkIndexes      []uint16
	writes         bool

	lets []let
	// slots holds the referenced columns of lets, in the order of Bindings.References.
	slots []slot
	// result is the SELECT that reads the table. returns is the SELECT that returns references. At most one of result
	// and returns is set.
	result  *read.Plan
	returns []expr.Term
	columns []read.Column
	steps   []step
}

// let is a row that the transaction reads. All lets for UPDATEs that refer to current values have the name ownRowName.
type let struct {
	name parser.Ident
	plan *read.Plan
}

// slot is a column of a let.
type slot struct{ let, column int }

// step holds conditions and changes. If all conditions are satisfied, the changes are applied.
type step struct {
	conditions []condition
	plans      []*write.Plan
}

// condition compares two terms of the same type. If right is nil, condition checks whether left is null. If let is not
// negative, condition checks whether the row of the let is null.
type condition struct {
	operator    parser.Operator
	left, right expr.Term
	let         int
}

// Prepare binds a transaction. text is the text of the statement. keyspace is the keyspace of unqualified table names.
// markers is the number of bind markers.
func Prepare(stmt *parser.Transaction, text, keyspace string, names write.Names, markers int) (*Plan, error) {
	b := &binder{p: &Plan{text: text, keyspace: keyspace}, names: names}
	b.env = expr.NewEnv(names.Release(), nil, nil, markers)
	b.env.Functions = names.Functions()
	if err := b.bind(stmt); err != nil {
		return nil, err
	}
	p := b.p
	if p.table == nil {
		return nil, dberr.Invalidf("A transaction must contain at least one statement")
	}
	p.variables, p.called = b.env.Variables(), b.env.Called()
	return p, nil
}

// Called returns the user-defined functions that the transaction calls.
func (p *Plan) Called() expr.Calls { return p.called }

// Table returns the table revision to which the plan is bound.
func (p *Plan) Table() *schema.Table { return p.table }

// Variables returns the descriptions of the bind markers of all statements.
func (p *Plan) Variables() []expr.Column { return p.variables }

// PKIndexes returns the indexes of the partition key markers. It returns nil unless one statement binds all components
// of the partition key.
func (p *Plan) PKIndexes() []uint16 { return p.pkIndexes }

// Columns returns the descriptions of the result columns. If the transaction has no result, Columns returns nil.
func (p *Plan) Columns() []read.Column { return p.columns }

// Writes reports whether the transaction changes rows.
func (p *Plan) Writes() bool { return p.writes }

// Reads reports whether the transaction reads rows.
func (p *Plan) Reads() bool { return len(p.lets) > 0 || p.result != nil }

// Summary describes the transaction for EXPLAIN.
func (p *Plan) Summary() string {
	switch {
	case !p.writes:
		return "read-only transaction"
	case p.Reads():
		return "read-write transaction"
	}
	return "write-only transaction"
}

// binder binds one transaction. It implements expr.References for the statements of the transaction.
type binder struct {
	p     *Plan
	names write.Names
	env   *expr.Env
}

func (b *binder) bind(stmt *parser.Transaction) error {
	for i := range stmt.Lets {
		if err := b.let(&stmt.Lets[i]); err != nil {
			return err
		}
	}
	if stmt.Select != nil {
		var err error
		if b.p.result, err = b.selection(stmt.Select); err != nil {
			return err
		}
		b.p.columns = b.p.result.Columns()
	}
	if err := b.returns(stmt.Returns); err != nil {
		return err
	}
	for i := range stmt.Steps {
		if err := b.step(&stmt.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// bindTable resolves the table of a statement. All statements of the transaction must use the same table.
func (b *binder) bindTable(name parser.QualifiedName) (*expr.Env, error) {
	ks, t, err := b.names.Table(name)
	if err == nil {
		err = catalog.CheckWritable(t)
	}
	switch p := b.p; {
	case err != nil:
		return nil, err
	case t.Counter:
		return nil, dberr.Invalidf("Counter columns cannot be accessed within a transaction")
	case p.table == nil:
		p.ks, p.table = ks, t
	case p.table != t:
		return nil, dberr.Invalidf("A transaction must access a single logical partition of one table, "+
			"but this one accesses %s and %s", p.table, t)
	}
	env := b.env.For(ks, t)
	env.References = b
	return env, nil
}

// errTimeout is the error for a timeout of a single statement. The leader executes a transaction as a whole.
var errTimeout = dberr.Invalidf("A statement in a transaction cannot have USING TIMEOUT")

func (b *binder) selection(s *parser.Select) (*read.Plan, error) {
	env, err := b.bindTable(s.Table)
	if err != nil {
		return nil, err
	}
	env.References = nil // names in a SELECT are columns
	plan, err := read.Bind(s, env)
	switch {
	case err != nil:
		return nil, err
	case plan.FansOut():
		return nil, dberr.Invalidf("A SELECT in a transaction must specify the whole partition key")
	case plan.HasTimeout():
		return nil, errTimeout
	case plan.Indexed():
		return nil, dberr.Invalidf("A SELECT in a transaction cannot use an index")
	}
	b.setPKIndexes(plan.PKIndexes())
	return plan, nil
}

func (b *binder) setPKIndexes(pkIndexes []uint16) {
	if b.p.pkIndexes == nil {
		b.p.pkIndexes = pkIndexes
	}
}

func (b *binder) let(l *parser.Let) error {
	if b.find(l.Name) >= 0 {
		return dberr.Invalidf("Duplicate LET name %s in the transaction", l.Name)
	}
	plan, err := b.selection(l.Select)
	if err != nil {
		return err
	}
	if !plan.OneRow() && l.Select.Limit == nil {
		return dberr.Invalidf("LET %s must read at most one row: specify the whole primary key or LIMIT 1", l.Name)
	}
	b.p.lets = append(b.p.lets, let{l.Name, plan})
	return nil
}

// find returns the index of the let with a given name, or -1.
func (b *binder) find(name parser.Ident) int {
	for i := len(b.p.lets) - 1; i >= 0; i-- {
		if b.p.lets[i].name.Name == name.Name {
			return i // all UPDATEs use the same name, and the last let belongs to the current UPDATE
		}
	}
	return -1
}

// Reference implements expr.References.
func (b *binder) Reference(name, column parser.Ident) (int, *cqltype.Type, error) {
	i := b.find(name)
	if i < 0 {
		return 0, nil, dberr.Invalidf("The transaction has no LET %s for the reference %s.%s", name, name,
			column)
	}
	for j, c := range b.p.lets[i].plan.Columns() {
		if c.Name == column.Name {
			return b.p.slot(slot{i, j}), c.Type, nil
		}
	}
	return 0, nil, dberr.Invalidf("LET %s does not select %s", name, column)
}

// slot returns the index of a referenced column.
func (p *Plan) slot(s slot) int {
	for i := range p.slots {
		if p.slots[i] == s {
			return i
		}
	}
	p.slots = append(p.slots, s)
	return len(p.slots) - 1
}

// returns binds the SELECT of references.
func (b *binder) returns(selectors []parser.Selector) error {
	if len(selectors) == 0 {
		return nil
	}
	if b.p.table == nil {
		return dberr.Invalidf("A transaction requires a LET before it can return a reference")
	}
	env := b.env.For(b.p.ks, b.p.table)
	env.References = b
	for _, s := range selectors {
		term, typ, err := b.typed(s.Term, env)
		if err != nil {
			return err
		}
		name := s.Alias.Name
		if name == "" {
			name = expr.Text(s.Term)
		}
		b.p.returns = append(b.p.returns, term)
		b.p.columns = append(b.p.columns, read.Column{Keyspace: b.p.table.Keyspace, Table: b.p.table.Name, Name: name,
			Type: typ})
	}
	return nil
}

// typed binds a term whose type can be inferred.
func (b *binder) typed(t parser.Term, env *expr.Env) (expr.Term, *cqltype.Type, error) {
	t = addTypeHints(t, env)
	typ := expr.TypeOf(t, env)
	if typ == nil {
		r := expr.Receiver{Name: expr.Text(t), Type: cqltype.Native(cqltype.Blob)}
		if _, err := expr.Bind(t, r, env); err != nil {
			return nil, nil, err // an error in a subterm is more specific
		}
		return nil, nil, dberr.Invalidf("Cannot infer the type of %s (try using a type hint)", expr.Text(t))
	}
	bound, err := expr.Bind(t, expr.Receiver{Name: expr.Text(t), Type: typ}, env)
	return bound, typ, err
}

// RestrictedMasks returns the names of the masked columns that the transaction uses to restrict rows.
func (p *Plan) RestrictedMasks() (names []string) {
	plans := []*read.Plan{p.result}
	for i := range p.lets {
		plans = append(plans, p.lets[i].plan)
	}
	for _, plan := range plans {
		if plan == nil {
			continue
		}
		for _, name := range plan.RestrictedMasks() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// UsedMasks returns the names of the masked columns that references to LETs use. Comparisons and writes always use the
// unmasked values.
func (p *Plan) UsedMasks() (names []string) {
	for _, s := range p.slots {
		if plan := p.lets[s.let].plan; plan.MaskedOutput(s.column) {
			names = append(names, plan.Columns()[s.column].Name)
		}
	}
	return names
}
