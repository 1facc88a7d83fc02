// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Store makes a schema change durable and distributes it. When Apply returns, the catalog of this node has the new
// schema.
type Store interface {
	// Apply applies the change to the current schema with schema.Apply and returns the results. role receives the
	// permissions on the created objects. If authentication is disabled, role is empty.
	Apply(ctx context.Context, c schema.Change, role string) (*schema.Schema, []schema.Event, error)
}

// RenewViews assigns a new schema revision to the views of a table and returns the resulting schema.
func (e *Executor) RenewViews(ctx context.Context, keyspace, table string) (*schema.Schema, error) {
	s, _, err := e.store.Apply(ctx, &schema.RenewViews{Stamp: e.stamp(), Keyspace: keyspace, Table: table}, "")
	return s, err
}

// Actor is the client that requests a change. The zero value has all permissions.
type Actor struct {
	// Role is the role that receives the permissions on created objects.
	Role string
	// Subject checks permissions. If Subject is nil, all actions are permitted.
	Subject *access.Subject
}

// Options configures an Executor. The zero value selects the system clock and random UUIDs.
type Options struct {
	// Release is the Cassandra release whose behavior the executor reproduces. The default is Cassandra 4.0.
	Release *compat.Release
	Clock   sched.Clock
	UUID    func() schema.UUID
	// MaskingOff reports whether column masks are rejected.
	MaskingOff bool
	// KeepsCompact reports whether DROP COMPACT STORAGE is rejected.
	KeepsCompact bool
	// Functions compiles the bodies of functions. If Functions is nil, user-defined functions are not supported.
	Functions Functions
}

// Functions checks functions.
type Functions interface {
	// Check returns an error if a function cannot be created because functions are disabled, the language is unknown,
	// or the body is invalid. Errors are of type *dberr.Invalid.
	Check(ctx context.Context, f *schema.Function) error
	// Enabled returns an error if functions in a language cannot be created.
	Enabled(language string) error
	expr.Compiler
}

func (o Options) withDefaults() Options {
	o.Release = cmp.Or(o.Release, compat.Cassandra40)
	if o.Clock == nil {
		o.Clock = sched.SystemClock
	}
	if o.UUID == nil {
		o.UUID = func() schema.UUID { return schema.UUID(uuid.New()) }
	}
	return o
}

// Executor executes DDL and DESCRIBE. It is safe for concurrent use.
type Executor struct {
	catalog *catalog.Catalog
	store   Store
	opts    Options
}

// New returns an executor.
func New(c *catalog.Catalog, store Store, opts Options) *Executor {
	return &Executor{catalog: c, store: store, opts: opts.withDefaults()}
}

// Result is the result of a DDL statement.
type Result struct {
	// Change is the schema event. If the statement had no effect, Change is nil.
	Change *schema.Event
	// Args holds the argument types of a changed function or aggregate.
	Args []string
	// Warnings holds warnings for the client. An execution may return both Warnings and an error.
	Warnings []string
}

// Handles reports whether Execute executes a statement. It returns true for all DDL statements, including unsupported
// DDL statements. DESCRIBE is not a DDL statement.
func Handles(stmt parser.Statement) bool {
	switch stmt.(type) {
	case *parser.CreateKeyspace, *parser.AlterKeyspace, *parser.DropKeyspace, *parser.CreateTable, *parser.AlterTable,
		*parser.DropTable,
		*parser.CreateType, *parser.AlterType, *parser.DropType, *parser.CreateIndex, *parser.DropIndex,
		*parser.CreateView, *parser.AlterView, *parser.DropView,
		*parser.CreateFunction, *parser.DropFunction, *parser.CreateAggregate, *parser.DropAggregate:
		return true
	}
	return isUnsupported(stmt)
}

// Prepare performs the checks of PREPARE. These checks do not depend on the schema.
func (e *Executor) Prepare(stmt parser.Statement, keyspace string) error {
	if isUnsupported(stmt) {
		return nil
	}
	_, err := e.change(stmt, keyspace)
	return err
}

// Execute executes a statement for which Handles returns true. keyspace is the session's keyspace, or empty. Execute
// checks permissions before the schema, so an error does not reveal which objects exist. g checks the guardrails and
// collects the warnings.
func (e *Executor) Execute(ctx context.Context, stmt parser.Statement, keyspace string, actor Actor,
	g *guardrail.Check) (Result, error) {
	if isUnsupported(stmt) {
		return Result{}, unsupportedError(stmt, keyspace, e.catalog.Snapshot())
	}
	change, err := e.change(stmt, keyspace)
	if err == nil {
		err = checkSystemKeyspace(change, e.opts.Release)
	}
	if err == nil {
		err = checkGuardrails(change, e.catalog.Snapshot(), g)
	}
	if err != nil {
		return Result{}, err
	}
	if change == nil {
		return Result{}, errors.New("not a DDL statement")
	}
	if err := actor.authorize(change, e.catalog.Snapshot()); err != nil {
		return Result{}, err
	}
	if err := e.bindMasks(stmt, change, e.catalog.Snapshot()); err != nil {
		return Result{}, err
	}
	if err := e.compile(ctx, change); err != nil {
		return Result{}, err
	}
	s, events, err := e.store.Apply(ctx, change, actor.Role)
	if err != nil {
		return Result{Warnings: append(unknownOrder(change), vectorIndexWarnings(change)...)}, err
	}
	if len(events) == 0 {
		return Result{}, nil
	}
	args := events[0].ArgList()
	if created := argTexts(change); created != nil {
		args = created
	}
	return Result{Change: &events[0], Args: args, Warnings: e.warnings(change, s)}, nil
}
