// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/guardrail"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// Store makes a schema change durable and known everywhere. When Apply returns, the catalog of this node has the new
// schema.
type Store interface {
	// Apply applies the change to the newest schema with schema.Apply and returns what that returned. What it makes is
	// granted to a role, empty if nobody had to log in.
	Apply(ctx context.Context, c schema.Change, role string) (*schema.Schema, []schema.Event, error)
}

// RenewViews gives the views of a table a new schema revision, and returns the schema that has it.
func (e *Executor) RenewViews(ctx context.Context, keyspace, table string) (*schema.Schema, error) {
	s, _, err := e.store.Apply(ctx, &schema.RenewViews{Stamp: e.stamp(), Keyspace: keyspace, Table: table}, "")
	return s, err
}

// Actor is whoever asks for a change. The zero value may do everything.
type Actor struct {
	// Role is granted what is made.
	Role string
	// Check returns why something is not allowed; nil: everything is.
	Check func(p access.Permission, on access.Resource) error
}

// Options are the sources of what a change may not draw itself. The zero value uses the clock and random UUIDs.
type Options struct {
	// Release is whose answers are given, those of Cassandra 4.0 if nil.
	Release *release.Release
	Now     func() time.Time
	UUID    func() schema.UUID
	// MaskingOff refuses to put masks on columns.
	MaskingOff bool
	// KeepsCompact refuses DROP COMPACT STORAGE.
	KeepsCompact bool
	// Functions compiles the bodies of functions; nil: there are none.
	Functions Functions
}

// Functions says whether a function can be called.
type Functions interface {
	// Check returns why a function cannot be made: functions are switched off, its language is not known, or its body
	// is wrong. The errors are *dberr.Invalid.
	Check(ctx context.Context, f *schema.Function) error
	// Enabled returns why no function of a language can be made, nil if they can.
	Enabled(language string) error
	expr.Compiler
}

func (o Options) withDefaults() Options {
	o.Release = cmp.Or(o.Release, release.Cassandra40)
	if o.Now == nil {
		o.Now = time.Now
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
	// hasRows is that of SetHasRows.
	hasRows func(ctx context.Context, ks *schema.Keyspace, t *schema.Table) (bool, error)
}

// SetHasRows sets what reports whether a table has rows, before the executor is used; without it none has.
func (e *Executor) SetHasRows(has func(ctx context.Context, ks *schema.Keyspace, t *schema.Table) (bool, error)) {
	e.hasRows = has
}

// New makes an executor.
func New(c *catalog.Catalog, store Store, opts Options) *Executor {
	return &Executor{catalog: c, store: store, opts: opts.withDefaults()}
}

// Result is what a DDL statement did.
type Result struct {
	// Change is what changed, nil if nothing did: the object was there (or gone) already, or has these options already.
	Change *schema.Event
	// Args are the argument types of a function or aggregate that changed, as the client is told.
	Args []string
	// Warnings are for the client. They may be there beside an error.
	Warnings []string
}

// Handles reports whether a statement is one of this package: DDL, also such that it refuses. DESCRIBE is not DDL.
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

// Prepare checks what can be checked of a statement without looking at the schema, as PREPARE does.
func (e *Executor) Prepare(stmt parser.Statement, keyspace string) error {
	if isUnsupported(stmt) {
		return nil
	}
	_, err := e.change(stmt, keyspace)
	return err
}

// Execute executes a statement that Handles accepts; keyspace is the session's, empty if it has none. Whether the actor
// may do it comes before whether it can be done: the answer tells nothing about what is there. What it asks for is
// checked against the guardrails, which keep their warnings.
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
	if err := e.checkDropTime(ctx, change); err != nil {
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
