// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
	"github.com/ilion-db/ilion/internal/query/cql/transaction"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/query/function/call"
)

// statement is a parsed statement that is bound to the revisions of its tables. All fields except used are immutable.
type statement struct {
	text, keyspace string
	// display is the result of func display.
	display string
	// qualified reports whether every table of a SELECT, modification, or batch is named with its keyspace.
	qualified bool
	kind      StatementKind
	parsed    parser.Statement
	markers   []parser.BindMarker

	plans
	// computed reports whether the statement reads a virtual table.
	computed bool
	// scans counts the cost of a SELECT that scans or filters. For other statements, scans is nil.
	scans *scanCount
	// result describes the rows of a SELECT. stable is false if clients may have cached different columns (see
	// Engine.alteredTables).
	result    *Metadata
	stable    bool
	variables []expr.Column
	pkIndexes []uint16
	// tables holds the table revisions to which the statement is bound.
	tables []*schema.Table
	// evaluates reports whether a modification calls functions or decodes JSON.
	evaluates bool
	// functions holds the user-defined functions that the statement calls. The functions are resolved at binding.
	functions expr.Calls
	// reserved is the memory reserved for a large unprepared statement. The request releases this memory.
	reserved int64
	requirements
	// virtual is the kind of modification of a virtual table, or storedTable.
	virtual virtualWrite

	used atomic.Int64
}

// plans holds the plan of a statement. At most one plan is not nil. For statements that are bound during execution, all
// plans are nil.
type plans struct {
	read *read.Plan
	// reader reads the rows for the plan read.
	reader read.Reader
	write  *write.Plan
	batch  *write.Batch
	// transaction is a BEGIN TRANSACTION. The session executes a transaction as a modification.
	transaction *transaction.Plan
	call        *call.Plan
	// explains is the statement of an EXPLAIN.
	explains *statement
}

// requirements holds the permissions that a statement requires.
type requirements struct {
	required []requiredPermission
	// locked is the error for writing to a table that clients must not modify, or nil.
	locked error
	// traces is the trace table that a SELECT reads, or nil. See checkTraces.
	traces *schema.Table
	// maskedUses lists the masked columns that restrictions and conditions use.
	maskedUses []maskedUse
}

// virtualWrite is the kind of modification of a virtual table.
type virtualWrite uint8

const (
	storedTable virtualWrite = iota // a stored table, or a table that clients must not modify
	cidrGroups
	// deletedCacheKeys is the deletion of cache keys. It has no effect because Ilion lacks these caches.
	deletedCacheKeys
)

// modifies reports whether the statement is executed as a modification.
func (st *statement) modifies() bool {
	return (st.write != nil || st.batch != nil || st.transaction != nil) && st.virtual == storedTable
}

// parse parses a text and binds it in a keyspace, which may be empty.
func (e *Engine) parse(text []byte, keyspace string) (*statement, error) {
	st := &statement{text: string(text), keyspace: keyspace}
	var err error
	o := parser.Options{Definitions: "definitions"}
	if e.opts.Release.OneDefinition {
		o.Definitions = "definition"
	}
	if st.parsed, st.markers, err = o.Parse(st.text); err != nil {
		return nil, err
	}
	st.qualified = allQualified(st.parsed)
	err = e.bind(st)
	st.display = display(st.text, st.parsed, st.tables)
	return st, err
}

// bind binds a parsed statement to the current schema.
func (e *Engine) bind(st *statement) error {
	switch s := st.parsed.(type) {
	case *parser.Select:
		st.kind = KindSelect
		return e.bindSelect(st, s)
	case *parser.Insert, *parser.Update, *parser.Delete, *parser.Batch:
		st.kind = KindModify
		return e.bindWrite(st)
	case *parser.Transaction:
		return e.bindTransaction(st, s)
	case *parser.Call:
		return e.bindCall(st, s)
	case *parser.Explain:
		return e.bindExplain(st, s)
	case *parser.Use, *parser.Describe:
		st.kind = KindOther
	case *parser.Truncate:
		st.kind = KindOther
		ks := keyspaceOf(s.Table, st.keyspace)
		if ks == "" {
			return errNoKeyspace
		}
		st.required = []requiredPermission{{access.Modify, access.OfTable(ks, s.Table.Name.Name)}}
	default:
		if roles.Handles(st.parsed) {
			st.kind = KindOther
			return nil
		}
		st.kind = KindSchema
		return e.ddl.Prepare(st.parsed, st.keyspace)
	}
	return nil
}

// allQualified reports whether a statement specifies the keyspaces of all its tables.
func allQualified(s parser.Statement) bool {
	switch s := s.(type) {
	case *parser.Select:
		return s.Table.HasKeyspace()
	case *parser.Insert:
		return s.Table.HasKeyspace()
	case *parser.Update:
		return s.Table.HasKeyspace()
	case *parser.Delete:
		return s.Table.HasKeyspace()
	case *parser.Call:
		return s.Keyspace.Name != ""
	case *parser.Explain:
		return allQualified(s.Statement)
	case *parser.Transaction:
		return s.Tables(func(name parser.QualifiedName) bool { return name.HasKeyspace() })
	case *parser.Batch:
		return !slices.ContainsFunc(s.Statements, func(s parser.Statement) bool { return !allQualified(s) })
	}
	return false
}

// current reports whether a schema contains the tables and functions to which the statement is bound.
func (st *statement) current(s *schema.Schema) bool {
	return currentTables(st.tables, s) && st.functions.Current(s.Keyspace)
}

func currentTables(tables []*schema.Table, s *schema.Schema) bool {
	for _, t := range tables {
		if s.Table(t.Keyspace, t.Name) != t {
			return false
		}
	}
	return true
}

func (e *Engine) bindSelect(st *statement, s *parser.Select) error {
	snapshot := e.catalog.Snapshot()
	ks, t, err := e.findTable(snapshot, keyspaceOf(s.Table, st.keyspace), s.Table.Name.Name)
	if err != nil {
		return err
	}
	env := e.env(snapshot, ks, t, len(st.markers))
	if st.read, err = read.Bind(s, env); err != nil {
		return err
	}
	st.reader, st.computed, st.tables = e.reader(t), t.Virtual, []*schema.Table{t}
	st.noteMaskedUse(t, st.read.RestrictedMasks())
	if t.Keyspace == tracesKeyspace {
		st.traces = t
	} else {
		st.requireSelect(t)
	}
	if (st.read.FansOut() || st.read.Filters()) && !t.Virtual {
		st.scans = e.scans.counter(t.ID, st.read.Shape())
	}
	st.requireFunctions(env.Called())
	st.variables, st.pkIndexes = st.read.Variables(), st.read.PKIndexes()
	st.result, st.stable = NewMetadata(st.read.Columns()), !e.isAltered(t)
	return nil
}

func keyspaceOf(n parser.QualifiedName, session string) string {
	if n.HasKeyspace() {
		return n.Keyspace.Name
	}
	return session
}

func (st *statement) describe(id [16]byte) *Prepared {
	return &Prepared{ID: id, PKIndexes: st.pkIndexes, Result: st.result, Bind: st.variables}
}

// bindings assigns the values of a request to the markers, by position or by name.
func (st *statement) bindings(b *expr.Bindings, r *Request) error {
	b.Values, b.Unset = r.Values, r.Unset
	if r.Names == nil {
		return b.CheckCount(len(st.variables))
	}
	values := make([][]byte, 0, len(st.variables))
	unset := make([]bool, 0, len(st.variables))
	named := valuesByName(r)
	for i := range st.variables {
		if j, ok := named[st.variables[i].Name]; ok {
			values, unset = append(values, r.Values[j]), append(unset, r.IsUnset(j))
		}
	}
	b.Values, b.Unset = values, unset
	return b.CheckCount(len(st.variables))
}

// valuesByName maps each name to the first value with this name.
func valuesByName(r *Request) map[string]int {
	named := make(map[string]int, len(r.Names))
	for j, name := range r.Names {
		if _, ok := named[string(name)]; !ok {
			named[string(name)] = j
		}
	}
	return named
}

// checkAmount rejects an unprepared statement if the number of values differs from the number of markers.
func (st *statement) checkAmount(r *Request) error {
	n := len(r.Values)
	if r.Names != nil {
		n = 0
		named := valuesByName(r)
		for i := range st.variables {
			if _, ok := named[st.variables[i].Name]; ok {
				n++
			}
		}
	}
	if n != len(st.variables) && (n > 0 || st.explains == nil) {
		return dberr.Invalidf("Invalid amount of bind variables")
	}
	return nil
}

// keyspaceExists returns an error if a keyspace does not exist.
func (e *Engine) keyspaceExists(name string) error {
	if e.catalog.Snapshot().Keyspace(name) == nil {
		return dberr.Missingf("Keyspace '%s' does not exist", name)
	}
	return nil
}
