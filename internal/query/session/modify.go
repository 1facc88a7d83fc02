// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// rebindTime is how long a request is bound again because its table changed under it, by one schema change after the other.
	rebindTime = 2 * time.Second
	// publicationWait bounds the wait for a schema change that a replica knows of already.
	publicationWait = 2 * time.Second
)

// tableNames finds the tables of a batch's statements.
type tableNames struct {
	engine   *Engine
	snapshot *schema.Schema
	keyspace string
}

// Table finds a table, in the session's keyspace if the name has none.
func (n tableNames) Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	return n.engine.findTable(n.snapshot, keyspaceOf(name, n.keyspace), name.Name.Name)
}

// bindWrite binds a modification or a batch.
func (e *Engine) bindWrite(st *statement) error {
	names := tableNames{e, e.catalog.Snapshot(), st.keyspace}
	var name parser.QualifiedName
	switch s := st.parsed.(type) {
	case *parser.Batch:
		return e.bindBatch(st, s, names)
	case *parser.Insert:
		name = s.Table
	case *parser.Update:
		name = s.Table
	case *parser.Delete:
		name = s.Table
	}
	ks, t, err := names.Table(name)
	if err != nil {
		return err
	}
	if st.write, err = write.Prepare(st.parsed, ks, t, len(st.markers)); err != nil {
		return err
	}
	st.variables, st.pkIndexes, st.tables = st.write.Variables(), st.write.PKIndexes(), []*schema.Table{t}
	if st.write.Conditional() {
		st.kind = KindConditional
	}
	return nil
}

func (e *Engine) bindBatch(st *statement, b *parser.Batch, names tableNames) (err error) {
	st.kind = KindBatch
	if st.batch, err = write.PrepareBatch(b, names, len(st.markers)); err != nil {
		return err
	}
	st.variables, st.pkIndexes = st.batch.Variables(), st.batch.PKIndexes()
	for _, p := range st.batch.Plans() {
		st.tables = append(st.tables, p.Table())
	}
	return nil
}

// modification is a write under way. Its Written may come while it is being executed or later, from elsewhere.
type modification struct {
	session *Session
	call    *Call
	kind    StatementKind
	began   time.Time
	request write.Request
	// phase goes from executing to either of the others, which tells whoever comes second what is left to do.
	phase atomic.Int32
}

const (
	executing int32 = iota
	written         // the outcome is in the call's result
	returned        // the method that executes has returned Pending
)

var modifications = sync.Pool{New: func() any { return new(modification) }}

func (s *Session) newModification(c *Call, kind StatementKind, began time.Time) *modification {
	m := modifications.Get().(*modification)
	m.session, m.call, m.kind, m.began = s, c, kind, began
	r := &c.Request
	m.request.Level, m.request.Serial = r.Consistency, r.Serial
	m.request.Timestamp, m.request.HasTimestamp = r.Timestamp, r.HasTimestamp
	m.request.Now, m.request.UUIDs = began, s.engine.uuids
	if r.HasNow {
		m.request.Now = time.Unix(int64(r.Now), 0)
	}
	return m
}

func (m *modification) release() {
	m.session, m.call, m.request = nil, nil, write.Request{}
	modifications.Put(m)
}

// Written takes the outcome.
func (m *modification) Written(o *write.Outcome) {
	m.call.Result.fillOutcome(o)
	if m.phase.CompareAndSwap(executing, written) {
		return // the executing method is still there and goes on
	}
	call := m.call
	m.session.finished(call, m.kind, m.began)
	m.release()
	call.Complete()
}

// fillOutcome turns the outcome of a write into a result; the outcome's memory is not kept.
func (r *Result) fillOutcome(o *write.Outcome) {
	r.Warnings = append(r.Warnings, o.Warnings...)
	if o.Err != nil {
		r.Err = o.Err
		return
	}
	if o.Columns == nil {
		r.Kind = Void
		return
	}
	columns := make([]Column, len(o.Columns))
	for i, c := range o.Columns {
		columns[i] = Column(c)
	}
	r.Kind, r.Metadata, r.AlwaysMetadata = Rows, NewMetadata(columns), true
	r.Cells, r.RowCount = append(r.Cells[:0], o.Cells...), o.RowCount
}

// runModify executes a modification or a batch statement, binding it again if its table changed in between.
func (s *Session) runModify(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	if !c.MayBlock && st.decides() {
		return Offload
	}
	m := s.newModification(c, st.kind, began)
	for {
		if err := st.bindings(&m.request.Bindings, &c.Request); err != nil {
			c.Result.Err = err
			break
		}
		m.phase.Store(executing)
		if st.batch != nil {
			s.engine.writes.ExecuteBatch(ctx, st.batch, &m.request, m)
		} else {
			s.engine.writes.Execute(ctx, st.write, &m.request, m)
		}
		if m.phase.CompareAndSwap(executing, returned) {
			return Pending
		}
		if !errors.Is(c.Result.Err, coordinator.ErrStaleSchema) || s.engine.opts.Now().Sub(began) > rebindTime {
			break
		}
		if !c.MayBlock {
			m.release()
			c.Result.Err = nil
			return Offload
		}
		fresh, err := s.engine.rebind(ctx, st)
		if err != nil {
			c.Result.Err = err
			break
		}
		st, c.Result.Err = fresh, nil
	}
	s.finished(c, st.kind, began)
	m.release()
	return Done
}

// rebind binds a statement that a replica has refused as stale. The replicas hear of a schema change just before it is published, so it may
// have to wait.
func (e *Engine) rebind(ctx context.Context, st *statement) (*statement, error) {
	e.awaitChange(ctx, st.tables)
	return e.parse([]byte(st.text), st.keyspace)
}

// awaitChange waits until tables are not those of the present schema any more, or not for longer than a publication can take.
func (e *Engine) awaitChange(ctx context.Context, tables []*schema.Table) {
	ctx, cancel := context.WithTimeout(ctx, publicationWait)
	defer cancel()
	for {
		next := *e.publication.Load()
		if !currentTables(tables, e.catalog.Snapshot()) {
			return
		}
		select {
		case <-next:
		case <-ctx.Done():
			return // whoever refuses the statement once more says why
		}
	}
}

// decides reports whether the write may have to wait for others on the same partition key.
func (st *statement) decides() bool {
	if st.batch != nil {
		return true
	}
	return st.write.Decides()
}

// Batch executes a batch message: statements by text or id, each with its own values.
func (s *Session) Batch(ctx context.Context, c *Call) Status {
	if c.Request.Tracing {
		return s.traced(ctx, c, traceInfo{request: traceBatch}, s.batch)
	}
	return s.batch(ctx, c)
}

func (s *Session) batch(ctx context.Context, c *Call) Status {
	if !c.MayBlock {
		return Offload
	}
	began := s.engine.opts.Now()
	m := s.newModification(c, KindBatch, began)
	for fresh := false; ; fresh = true {
		items, tables, err := s.items(c, fresh)
		if err != nil {
			c.Result.Err = err
			break
		}
		m.phase.Store(executing)
		s.engine.writes.ExecuteItems(ctx, write.BatchKind(c.Request.BatchKind), items, &m.request, m)
		if m.phase.CompareAndSwap(executing, returned) {
			return Pending
		}
		if !errors.Is(c.Result.Err, coordinator.ErrStaleSchema) || s.engine.opts.Now().Sub(began) > rebindTime {
			break
		}
		s.engine.awaitChange(ctx, tables)
		c.Result.Err = nil
	}
	s.finished(c, KindBatch, began)
	m.release()
	return Done
}

// items binds the statements of a batch message; tables are those they are bound to. fresh binds prepared ones again.
func (s *Session) items(c *Call, fresh bool) (items []write.BatchItem, tables []*schema.Table, err error) {
	keyspace := s.inKeyspace(&c.Request)
	items = make([]write.BatchItem, len(c.Request.Statements))
	for i := range c.Request.Statements {
		b := &c.Request.Statements[i]
		st, err := s.batchStatement(b, keyspace, fresh)
		if err != nil {
			return nil, nil, err
		}
		if st.write == nil {
			return nil, nil, dberr.Invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
		}
		tables = append(tables, st.tables...)
		items[i] = write.BatchItem{Plan: st.write, Values: b.Values, Unset: b.Unset}
	}
	return items, tables, nil
}

func (s *Session) batchStatement(b *BatchStatement, keyspace string, fresh bool) (*statement, error) {
	if !b.Prepared {
		return s.engine.parse(b.Text, keyspace)
	}
	st := s.engine.prepared.get(b.ID)
	if st == nil {
		return nil, &dberr.Unprepared{ID: b.ID}
	}
	if fresh {
		return s.engine.parse([]byte(st.text), st.keyspace)
	}
	return st, nil
}
