// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// rebindTime limits the time during which a request is bound again after changes of its tables.
	rebindTime = 2 * time.Second
	// publicationWait limits the wait for the publication of a schema change that a replica has already received.
	publicationWait = 2 * time.Second
)

// tableNames resolves the tables of a batch's statements.
type tableNames struct {
	engine   *Engine
	snapshot *schema.Schema
	keyspace string
}

// Release returns the Cassandra release whose behavior the node reproduces.
func (n tableNames) Release() *compat.Release { return n.engine.opts.Release }

// Functions returns the node's user-defined functions.
func (n tableNames) Functions() *expr.Functions { return n.engine.functions(n.snapshot) }

// Table finds a table. A name without a keyspace refers to the session's keyspace.
func (n tableNames) Table(name parser.QualifiedName) (*schema.Keyspace, *schema.Table, error) {
	return n.engine.findTable(n.snapshot, keyspaceOf(name, n.keyspace), name.Name.Name)
}

// bindWrite binds a modification or a batch.
func (e *Engine) bindWrite(st *statement) error {
	names := tableNames{e, e.catalog.Snapshot(), st.keyspace}
	if b, ok := st.parsed.(*parser.Batch); ok {
		return e.bindBatch(st, b, names)
	}
	ks, t, err := names.Table(parser.ModifiedTable(st.parsed))
	if err != nil {
		return err
	}
	env := e.env(names.snapshot, ks, t, len(st.markers))
	if st.write, err = write.PrepareIn(st.parsed, env, len(st.markers)); err != nil {
		return err
	}
	st.variables, st.pkIndexes, st.tables = st.write.Variables(), st.write.PKIndexes(), []*schema.Table{t}
	if st.write.Conditional() {
		st.kind = KindConditional
	}
	st.requireModify(t, st.write.Conditional())
	st.noteMaskedUse(t, st.write.RestrictedMasks())
	st.requireFunctions(env.Called())
	insert, _ := st.parsed.(*parser.Insert)
	st.evaluates = env.Computes() || insert != nil && insert.JSON != nil
	if isCIDRGroups(t) {
		st.virtual, st.locked = cidrGroups, nil
	}
	if _, deletes := st.parsed.(*parser.Delete); deletes && catalog.IsCacheKeysTable(t) && !st.write.Conditional() {
		st.virtual, st.locked = deletedCacheKeys, nil
	}
	return nil
}

func (e *Engine) bindBatch(st *statement, b *parser.Batch, names tableNames) (err error) {
	st.kind, st.evaluates = KindBatch, true
	if st.batch, err = write.PrepareBatch(b, names, len(st.markers)); err != nil {
		return err
	}
	st.variables, st.pkIndexes = st.batch.Variables(), st.batch.PKIndexes()
	for _, p := range st.batch.Plans() {
		st.tables = append(st.tables, p.Table())
		st.requireModify(p.Table(), p.Conditional())
		st.noteMaskedUse(p.Table(), p.RestrictedMasks())
	}
	st.requireFunctions(st.batch.Called())
	return nil
}

// modification is a write in progress. Its Written method may be called during its execution or later, on another
// goroutine.
type modification struct {
	session *Session
	ctx     context.Context
	call    *Call
	// st is the statement, or nil for a batch message. tables holds the tables to which the statements are bound.
	st      *statement
	tables  []*schema.Table
	kind    StatementKind
	began   time.Time
	request write.Request
	check   guardrail.Check
	meter   meter.Meter
	// text holds the statements of a batch message for the audit log. first holds the first statement.
	text, first string
	// reserved is the memory reserved for unprepared statements.
	reserved    int64
	requestCopy requestCopy
	// rendezvous synchronizes the executing method with Written. The second method to arrive continues with the
	// outcome.
	rendezvous sched.Rendezvous
}

var modifications = sync.Pool{New: func() any { return new(modification) }}

func (s *Session) newModification(ctx context.Context, c *Call, st *statement, kind StatementKind,
	began time.Time) *modification {
	m := modifications.Get().(*modification)
	m.session, m.ctx, m.call, m.st, m.kind, m.began = s, ctx, c, st, kind, began
	c.setRunning(st, began)
	r := &c.Request
	m.request.Level, m.request.Serial = r.Consistency, r.Serial
	m.request.Timestamp, m.request.HasTimestamp = r.Timestamp, r.HasTimestamp
	m.request.Now, m.request.UUIDs = began, s.engine.uuids
	if r.HasNow {
		m.request.Now = time.Unix(int64(r.Now), 0)
	}
	m.request.MaxCharge = c.maxCharge
	if st != nil {
		m.reserved = st.reserved
	}
	if st == nil || st.evaluates {
		m.evaluate(ctx)
	}
	if m.check.Guards = s.guardrails(); m.check.Guards != nil {
		m.request.Guard = &m.check
	}
	if s.engine.opts.StaleAfterReturn {
		m.requestCopy.copyRequest(r)
	}
	return m
}

// evaluate sets the limits for the evaluation of expressions.
func (m *modification) evaluate(ctx context.Context) {
	s := m.session
	l := meter.Limits{Pool: s.engine.results.Pool, Bytes: s.engine.results.Max() / evaluationParts, Who: s.claimant,
		Deadline: m.began.Add(s.engine.opts.ReadTimeout), Clock: s.engine.opts.Clock, Late: errLateValues}
	if m.call.MayBlock {
		l.Slots = s.engine.opts.Slots
	} else {
		l.Steps = inlineSteps
	}
	m.meter.Reset(ctx, l)
	m.request.Meter = &m.meter
}

// inlineSteps limits the number of evaluation steps on a connection's goroutine, because this goroutine cannot detect
// that the client has disconnected. A worker restarts an evaluation that exceeds the limit.
const inlineSteps = 1 << 20

// exhausted reports whether the evaluation has reached inlineSteps on the connection's goroutine.
func (m *modification) exhausted() bool {
	return !m.call.MayBlock && m.call.Result.Err != nil && m.request.Meter != nil && m.meter.Exhausted()
}

var errLateValues error = &dberr.Overloaded{Message: "Evaluating the values of the statement took too long. Nothing was " +
	"written. Call fewer functions in one statement"}

func (m *modification) release() {
	if m.request.Meter != nil {
		m.meter.Close()
	}
	m.requestCopy.restore(&m.call.Request)
	m.session.engine.texts.release(m.reserved)
	m.session, m.ctx, m.call, m.st, m.tables, m.request = nil, nil, nil, nil, nil, write.Request{}
	m.check, m.reserved, m.text, m.first = guardrail.Check{}, 0, "", ""
	modifications.Put(m)
}

// Written implements write.Completion.
func (m *modification) Written(o *write.Outcome) {
	m.call.Result.Warnings = append(m.call.Result.Warnings, m.check.Warnings...)
	m.call.Result.fillOutcome(o)
	if second := m.rendezvous.Arrive(); !second {
		return // the executing method is still running and processes the outcome
	}
	if m.requestCopy.active && m.stale() {
		go m.retryStale()
		return
	}
	call := m.call
	m.finished()
	m.release()
	call.Complete()
}

// retryStale retries a modification that was rejected as stale after its method had returned. It stops after
// rebindTime.
func (m *modification) retryStale() {
	call := m.call
	call.MayBlock = true
	m.resetAttempt()
	if m.run(true) == Done {
		call.Complete()
	}
}

// stale reports whether the modification must be bound and sent again because a table has changed. It returns false for
// counter batches, because part of the batch may have been applied.
func (m *modification) stale() bool {
	if !errors.Is(m.call.Result.Err, coordinator.ErrStaleSchema) ||
		m.session.engine.opts.Clock.Wall().Sub(m.began) > rebindTime {
		return false
	}
	return len(m.tables) < 2 || !m.tables[0].Counter
}

// resetAttempt discards the outcome of an attempt and waits for the schema change that caused it. Replicas receive a
// schema change before the change is published.
func (m *modification) resetAttempt() {
	m.call.Result.Err, m.call.Result.Warnings = nil, nil
	m.session.engine.awaitChange(m.ctx, m.tables)
}

// run executes a modification. It binds the modification again if fresh is true or a table changes concurrently. run
// releases m unless it returns Pending.
func (m *modification) run(fresh bool) Status {
	c := m.call
	for newest := false; ; fresh = true {
		m.rendezvous.Reset()
		if err := m.send(fresh); err != nil {
			if m.st == nil && !newest { // single statements were rechecked during binding
				newest = true
				var v recheckResult
				switch v, err = m.session.engine.recheck(m.ctx, c, err); v {
				case recheckOnWorker:
					m.release()
					return Offload
				case recheckNow:
					continue
				}
			}
			c.Result.Err = err
			c.Result.Warnings = append(c.Result.Warnings, m.check.Warnings...)
			break
		}
		if second := m.rendezvous.Arrive(); !second {
			return Pending
		}
		if m.exhausted() { // the modification has not been sent
			c.Result.Err, c.Result.Warnings = nil, nil
			m.release()
			return Offload
		}
		if !m.stale() {
			break
		}
		if !c.MayBlock {
			c.Result.Err, c.Result.Warnings = nil, nil
			m.release()
			return Offload
		}
		m.resetAttempt()
	}
	m.finished()
	m.release()
	return Done
}

// finished records the latency and the audit entry of a completed modification.
func (m *modification) finished() {
	if m.request.Meter != nil {
		m.call.Result.Charge += ru.Evaluation(m.meter.Excess())
	}
	took := m.session.finished(m.call, m.kind, m.tables, m.began)
	m.session.engine.tableLatencies.record(m.tables, Write, took, m.began)
	if m.session.engine.opts.Slow.IsSlow(took) {
		m.recordSlow(took)
	}
	if m.st != nil {
		m.session.audit(m.st, m.call.Result.Err, "", "")
	} else {
		m.session.audit(nil, m.call.Result.Err, "BATCH", m.text)
	}
}

// recordSlow records a slow modification. The record of a batch message contains the first statement.
func (m *modification) recordSlow(took time.Duration) {
	text := "BEGIN BATCH " + m.first
	if m.st != nil {
		text = m.st.display
	}
	m.session.recordSlow(m.call, text, m.tables, took)
}

// send binds the modification if necessary and sends it. If send returns an error, no part of the modification has been
// sent.
func (m *modification) send(fresh bool) error {
	s, c := m.session, m.call
	m.check.Warnings = nil
	if m.st == nil {
		err := m.reserveTexts()
		if err == nil {
			err = m.checkGuardrails()
		}
		var items []write.BatchItem
		if err == nil {
			items, m.tables, err = m.items(fresh)
		}
		if err == nil {
			m.request.Claimant, m.request.Clear = s.claimantOf(c, m.tables), s.clear(m.tables)
			s.engine.writes.ExecuteItems(m.ctx, write.BatchKind(c.Request.BatchKind), items, &m.request, m)
		}
		return err
	}
	if fresh {
		st, err := s.engine.parse([]byte(m.st.text), m.st.keyspace)
		if err != nil {
			return err
		}
		// A different table may have this name now, so the permissions are checked again.
		if err := s.check(st); err != nil {
			return err
		}
		m.st = st
	}
	st := m.st
	m.tables = st.tables
	m.request.Claimant, m.request.Clear = s.claimantOf(c, m.tables), s.clear(m.tables)
	if err := m.checkGuardrails(); err != nil {
		return err
	}
	if err := st.bindings(&m.request.Bindings, &c.Request); err != nil {
		return err
	}
	switch {
	case st.batch != nil:
		s.engine.writes.ExecuteBatch(m.ctx, st.batch, &m.request, m)
	case st.transaction != nil:
		s.engine.transactions.Execute(m.ctx, st.transaction, &m.request, m)
	default:
		s.engine.writes.Execute(m.ctx, st.write, &m.request, m)
	}
	return nil
}

// reserveTexts reserves the memory for the unprepared statements of a batch message.
func (m *modification) reserveTexts() (err error) {
	if m.reserved != 0 {
		return nil
	}
	var texts [][]byte
	for i := range m.call.Request.Statements {
		if b := &m.call.Request.Statements[i]; !b.Prepared {
			texts = append(texts, b.Text)
		}
	}
	m.reserved, err = m.session.engine.texts.reserve(texts...)
	return err
}

// fillOutcome converts the outcome of a write into a result. The result does not refer to the outcome's memory.
func (r *Result) fillOutcome(o *write.Outcome) {
	r.Warnings = append(r.Warnings, o.Warnings...)
	r.Charge = o.Charge
	if o.Err != nil {
		r.Err = o.Err
		return
	}
	if o.Columns == nil {
		r.Kind = Void
		return
	}
	r.Kind, r.Metadata, r.AlwaysMetadata = Rows, NewMetadata(o.Columns), true
	r.Cells, r.RowCount = append(r.Cells[:0], o.Cells...), o.RowCount
}

// runModify executes a modification or a batch statement.
func (s *Session) runModify(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	if !c.MayBlock && (st.mayWaitForKey() || !st.functions.None()) {
		return Offload
	}
	return s.newModification(ctx, c, st, st.kind, began).run(false)
}

// awaitChange waits until the current schema contains a different revision of one of the tables. It waits no longer
// than publicationWait.
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
			return // the next attempt returns the error
		}
	}
}

// mayWaitForKey reports whether the write may wait for other writes with the same partition key.
func (st *statement) mayWaitForKey() bool {
	if st.batch != nil || st.transaction != nil {
		return true
	}
	return st.write.NeedsLeader()
}

// Batch executes a batch message. The statements may be prepared or unprepared, and each statement has its own values.
func (s *Session) Batch(ctx context.Context, c *Call) Status {
	if c.Request.Tracing {
		return s.traced(ctx, c, &traceInfo{request: traceBatch}, s.batch)
	}
	return s.batch(ctx, c)
}

func (s *Session) batch(ctx context.Context, c *Call) Status {
	if err := c.readPayload(); err != nil {
		return c.Result.Fail(err)
	}
	if !c.MayBlock {
		return Offload
	}
	return s.newModification(ctx, c, nil, KindBatch, s.engine.opts.Clock.Wall()).run(false)
}

// items binds the statements of a batch message. tables holds the tables to which the statements are bound. If fresh is
// true, items binds prepared statements again.
func (m *modification) items(fresh bool) (items []write.BatchItem, tables []*schema.Table,
	err error) {
	s, r, guard := m.session, &m.call.Request, m.request.Guard
	m.text = ""
	keyspace := s.inKeyspace(r)
	items = make([]write.BatchItem, len(r.Statements))
	for i := range r.Statements {
		b := &r.Statements[i]
		st, err := s.engine.batchStatement(b, keyspace, fresh)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			m.first = st.display
		}
		if s.engine.opts.auditsAll() {
			m.text = strings.TrimPrefix(m.text+"; "+st.display, "; ")
		}
		if st.write == nil {
			return nil, nil, dberr.Invalidf("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
		}
		if err := s.check(st); err != nil {
			return nil, nil, err
		}
		if st.virtual != storedTable {
			return nil, nil, catalog.CheckWritable(st.tables[0])
		}
		if guard.On() {
			if err := checkTimestampGuardrails(guard, st.parsed); err != nil {
				return nil, nil, err
			}
		}
		tables = append(tables, st.tables...)
		items[i] = write.BatchItem{Plan: st.write, Values: b.Values, Unset: b.Unset}
	}
	return items, tables, nil
}

// batchStatement returns a statement of a batch message. If fresh is true, batchStatement binds a prepared statement
// again.
func (e *Engine) batchStatement(b *BatchStatement, keyspace string, fresh bool) (*statement, error) {
	if !b.Prepared {
		return e.parse(b.Text, keyspace)
	}
	st := e.prepared.get(b.ID)
	if st == nil {
		return nil, &dberr.Unprepared{ID: b.ID}
	}
	if fresh {
		return e.parse([]byte(st.text), st.keyspace)
	}
	return st, nil
}
