// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
	"github.com/ilion-db/ilion/internal/query/cql/view"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// mayBlock reports whether a statement that is neither a SELECT nor a modification may take a long time.
func (st *statement) mayBlock() bool {
	_, use := st.parsed.(*parser.Use)
	return !use
}

// runOther executes the USE, TRUNCATE, DESCRIBE, DDL, and role statements. These statements are bound during execution.
func (s *Session) runOther(ctx context.Context, c *Call, st *statement) Status {
	switch p := st.parsed.(type) {
	case *parser.Use:
		return s.runUse(c, p)
	case *parser.Truncate:
		return s.runTruncate(ctx, c, st, p)
	case *parser.Describe:
		return s.runDescribe(ctx, c, st, p)
	}
	if roles.Handles(st.parsed) {
		return s.runRoles(ctx, c, st)
	}
	return s.runSchema(ctx, c, st)
}

func (s *Session) runUse(c *Call, p *parser.Use) Status {
	name := p.Keyspace.Name
	if err := s.engine.keyspaceExists(name); err != nil {
		return c.Result.Fail(err)
	}
	s.keyspace.Store(&name)
	c.Result.Kind, c.Result.Keyspace = SetKeyspace, name
	return Done
}

func (s *Session) runTruncate(ctx context.Context, c *Call, st *statement, p *parser.Truncate) Status {
	// The indexes and views that this node does not know would keep the truncated rows.
	if err := s.engine.readBarrier(ctx, changeBarrierWait); err != nil {
		return c.Result.Fail(&dberr.Server{Message: "The table was not truncated because the leader of the meta partition does not " +
			"respond, and the table's indexes and views are not known. Retry the statement."})
	}
	ks, t, err := s.engine.findTable(s.engine.catalog.Snapshot(), keyspaceOf(p.Table, st.keyspace), p.Table.Name.Name)
	if err == nil {
		err = catalog.CheckTruncatable(t)
	}
	if err == nil && catalog.IsCacheKeysTable(t) {
		return Done
	}
	check := guardrail.Check{Guards: s.guardrails()}
	if err == nil && check.On() {
		err = check.DropTable()
		c.Result.Warnings = append(c.Result.Warnings, check.Warnings...)
	}
	if err == nil {
		err = s.engine.truncate(ctx, ks, t)
		if errors.Is(err, coordinator.ErrUnknownTable) {
			err = s.engine.droppedTableError(err, []*schema.Table{t})
		}
	}
	c.Result.Err = err
	return Done
}

// requireWait is the maximum time that TRUNCATE waits until the partitions of a view require the new view revision.
const requireWait = 10 * time.Second

// truncate truncates a table and its indexes and views.
func (e *Engine) truncate(ctx context.Context, ks *schema.Keyspace, t *schema.Table) error {
	if len(ks.ViewsOf(t.Name)) > 0 {
		x := view.Truncation{Tables: e.coordinator, Schema: e.ddl, Limit: requireWait,
			Now: e.opts.Clock.Wall().Unix()}
		return x.Run(ctx, t)
	}
	var indexes []uint32
	for _, ix := range t.SortedIndexes() {
		indexes = append(indexes, ix.ID)
	}
	return e.coordinator.Truncate(ctx, t.ID, indexes...)
}

// runSchema executes DDL. The executor publishes the change before it returns (SE4).
func (s *Session) runSchema(ctx context.Context, c *Call, st *statement) Status {
	if !ddl.Handles(st.parsed) {
		return c.Result.Fail(dberr.Invalidf("This statement is not supported"))
	}
	actor, err := s.actor()
	if err != nil {
		return c.Result.Fail(err)
	}
	check := guardrail.Check{Guards: s.guardrails()}
	r, err := s.engine.ddl.Execute(ctx, st.parsed, st.keyspace, actor, &check)
	c.Result.Warnings = append(append(c.Result.Warnings, check.Warnings...), r.Warnings...)
	if err != nil || r.Change == nil {
		c.Result.Err = err
		return Done
	}
	c.Result.Kind = SchemaChanged
	c.Result.Change = SchemaChange{Change: r.Change.Change, Target: r.Change.Target, Keyspace: r.Change.Keyspace,
		Name: r.Change.Name, Args: r.Args}
	return Done
}
