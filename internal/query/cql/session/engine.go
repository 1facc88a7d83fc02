// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/query/cql/transaction"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/query/function/call"
	"github.com/ilion-db/ilion/internal/replica/quota"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Options configures an Engine.
type Options struct {
	// Release is the Cassandra release whose behavior the engine reproduces. The default is Cassandra 4.0.
	Release *compat.Release
	// MaskingOff disables dynamic data masking.
	MaskingOff bool
	Limits
	// Memory is the node's memory pool for results and evaluations. It replaces ResultsBytesMax. Slots limits the
	// number of concurrent evaluations. If Slots is nil, the number of concurrent evaluations is unlimited.
	Memory *meter.Pool
	Slots  *fairshare.Slots
	// Clients reports memory pressure. Clients may be nil.
	Clients Pressure
	// Large provides the large logical partitions. Large may be nil.
	Large *quota.Quota
	// Functions runs user-defined functions. If Functions is nil, user-defined functions are not supported.
	Functions ddl.Functions
	// Metadata is the metadata of the cluster. If Metadata is nil, the schema and the roles of this node are always
	// current.
	Metadata container.Metadata
	// Routing locates data. If Routing is nil, this node serves all reads and sends no data locations to clients. See
	// TopologyRouting.
	Routing Routing
	// StaleAfterReturn reports whether the coordinator may reject a write with ErrStaleSchema after its method has
	// returned. Replica sets reject writes in this way. If StaleAfterReturn is true, sessions copy each request so that
	// they can bind and send the write again.
	StaleAfterReturn bool
	// Builds reports whether an index is being built. If Builds is nil, all indexes are complete.
	Builds read.IndexBuilds
	// Guards holds the guardrails. If Guards is nil, no guardrails apply.
	Guards *guardrail.Guards
	// Authority checks permissions. If Authority is nil, authentication is off and all requests are allowed. Roles
	// stores role changes.
	Authority *Authority
	Roles     roles.Store
	// Calls runs stored procedures. If Calls is nil, stored procedures are not supported.
	Calls *call.Executor
	// Auditor records completed requests. Auditor may be nil.
	Auditor Auditor
	// Slow is the slow-query log. Slow may be nil.
	Slow *slowlog.Log
	// Clock provides the current time. The default is sched.SystemClock.
	Clock sched.Clock
}

// Limits holds limits for the memory and the duration of requests. A field with the zero value uses its default.
type Limits struct {
	// PreparedMax limits the total number of prepared statements. The default is 10000. PreparedBytesMax limits the
	// estimated memory of all prepared statements. The default is 128 MiB.
	PreparedMax, PreparedBytesMax int
	// ResultBytesMax limits the size of the cells of an unpaged result. The default is 255 MiB. A page ends at 8 MiB,
	// or at ResultBytesMax if that limit is lower.
	ResultBytesMax int
	// ResultsBytesMax limits the total size of the cells of all results that are being read. The default is four times
	// ResultBytesMax. When little of this memory is left, the engine ends pages early and rejects unpaged results.
	ResultsBytesMax int64
	// TextBytesMax limits the memory of the syntax trees and plans of all large unprepared statements. The default is
	// 64 MiB.
	TextBytesMax int64
	// MutationBytesMax limits the size of a change to one logical partition. RowBytesMax limits the size of a change to
	// one row. BatchBytesMax limits the size of a batch that changes several logical partitions. A limit of 0 means no
	// limit. See write.Options.
	MutationBytesMax, RowBytesMax, BatchBytesMax int
	// ReadTimeout limits the time during which the engine restarts a SELECT whose rows could not be confirmed. The
	// default is 5 s.
	ReadTimeout time.Duration
	// ScanTimeout limits the duration of a SELECT that consists of many sequential reads. Examples are aggregates over
	// a whole table, unpaged results, and reads of many keys. The read timeout limits each single read. The default is
	// 1 minute.
	ScanTimeout time.Duration
}

// withDefaults returns the limits after setting each zero field to its default.
func (l Limits) withDefaults() Limits {
	l.PreparedMax = cmp.Or(l.PreparedMax, 10_000)
	l.PreparedBytesMax = cmp.Or(l.PreparedBytesMax, 128<<20)
	l.ResultBytesMax = cmp.Or(l.ResultBytesMax, 255<<20)
	l.ResultsBytesMax = cmp.Or(l.ResultsBytesMax, 4*int64(l.ResultBytesMax))
	l.TextBytesMax = cmp.Or(l.TextBytesMax, 64<<20)
	l.ReadTimeout = cmp.Or(l.ReadTimeout, 5*time.Second)
	l.ScanTimeout = cmp.Or(l.ScanTimeout, time.Minute)
	return l
}

// Engine holds the state that all sessions of a node share.
type Engine struct {
	catalog     *catalog.Catalog
	coordinator *coordinator.Coordinator
	ddl         *ddl.Executor
	roles       *roles.Executor
	writes      *write.Executor
	opts        Options
	// transactions sends transactions to partition leaders. programs executes the transactions of the partitions that
	// this node leads.
	transactions   *transaction.Executor
	programs       *transaction.Programs
	prepared       *preparedCache
	uuids          *cqltype.TimeUUIDs
	tracer         tracer
	latency        [statementKinds]Latency
	tableLatencies tableLatencies
	scans          scanCounts
	results        resultMemory
	texts          statementMemory
	readRestarts   atomic.Uint64
	cancel         func()
	// metered holds the tables with provisioned throughput.
	metered atomic.Pointer[meteredTables]

	// barrierPausedUntil is the time in Unix nanoseconds until which rejections skip the read barrier. See recheck.
	barrierPausedUntil atomic.Int64

	// publication is closed and replaced when a new schema is published.
	publication atomic.Pointer[chan struct{}]

	// alteredTables holds the tables whose columns have changed since the start. Clients of protocol versions 3 and 4
	// may have cached the old columns.
	alteredTablesMu sync.RWMutex
	alteredTables   map[schema.UUID]struct{}
}

// New returns an engine. The caller must close the engine before it closes the catalog.
func New(cat *catalog.Catalog, co *coordinator.Coordinator, d *ddl.Executor, o Options) (*Engine, error) {
	o.Release = cmp.Or(o.Release, compat.Cassandra40)
	o.Limits = o.Limits.withDefaults()
	if o.Clock == nil {
		o.Clock = sched.SystemClock
	}
	var seed [8]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, err
	}
	e := &Engine{
		catalog:       cat,
		coordinator:   co,
		ddl:           d,
		roles:         roles.New(o.Roles),
		writes:        write.NewExecutor(co, o.writeOptions(co)),
		opts:          o,
		prepared:      newPreparedCache(o.PreparedMax, o.PreparedBytesMax),
		alteredTables: map[schema.UUID]struct{}{},
		uuids:         cqltype.NewTimeUUIDs([6]byte(seed[:6]), binary.BigEndian.Uint16(seed[6:])),
	}
	e.transactions = transaction.NewExecutor(co)
	e.programs = transaction.NewPrograms(currentSchema{e}, e.writes, o.Guards, e.uuids)
	if o.Memory == nil {
		o.Memory = meter.NewPool(o.ResultsBytesMax)
	}
	e.results.Pool, e.results.clients, e.texts.max = o.Memory, o.Clients, o.TextBytesMax
	first := make(chan struct{})
	e.publication.Store(&first)
	if err := e.tracer.init(e); err != nil {
		return nil, err
	}
	e.cancel = cat.Subscribe(e.onPublication)
	e.metered.CompareAndSwap(nil, findMeteredTables(cat.Snapshot()))
	return e, nil
}

func (o *Options) writeOptions(co *coordinator.Coordinator) write.Options {
	return write.Options{BatchBytesMax: o.BatchBytesMax, CellSizes: o.Release.CellSizes, Pricing: co,
		MutationBytesMax: o.MutationBytesMax, RowBytesMax: o.RowBytesMax,
		Large: o.Large}
}

// Close cancels the engine's subscription to the catalog. All sessions must end before the call.
func (e *Engine) Close() { e.cancel() }

// NewSession starts the session of a client.
func (e *Engine) NewSession(c Client) *Session {
	s := &Session{identity: identity{engine: e, client: c, claimant: c.Claimant()}}
	switch a := e.opts.Authority; {
	case c.Account:
		s.account = access.AccountKeySubject(c.User)
	case a != nil && c.Record == access.RoleVersion{}:
		s.client.Record = a.Subject(c.User).Version()
	}
	return s
}

// Latency returns the latency histogram of a kind of statement.
func (e *Engine) Latency(k StatementKind) *Latency { return &e.latency[k] }

// Kinds returns the kinds of statements, for metrics.
func Kinds() []StatementKind {
	out := make([]StatementKind, statementKinds)
	for i := range out {
		out[i] = StatementKind(i)
	}
	return out
}

// PreparedCount returns the number of prepared statements in the cache.
func (e *Engine) PreparedCount() int { return e.prepared.len() }

// PreparedEvicted returns the number of prepared statements that have been evicted from the cache.
func (e *Engine) PreparedEvicted() int64 { return e.prepared.evicts.Load() }

// Memory returns estimates of the memory in use, in bytes. results is the memory of results that are being read.
// statements is the memory of large statements that are being executed. prepared is the memory of prepared statements.
func (e *Engine) Memory() (results, statements, prepared int64) {
	return e.results.Used(), e.texts.used.Load(), e.prepared.bytes.Load()
}

// PreparedStatements returns the cached statements for system.prepared_statements.
func (e *Engine) PreparedStatements() []catalog.PreparedStatement {
	var out []catalog.PreparedStatement
	e.prepared.each(func(id [16]byte, st *statement) {
		out = append(out, catalog.PreparedStatement{ID: id, Keyspace: st.keyspace, Query: st.display})
	})
	return out
}

// ReadRestarts returns the number of times that a SELECT was restarted because its rows could not be confirmed.
func (e *Engine) ReadRestarts() uint64 { return e.readRestarts.Load() }

// onPublication removes the prepared statements that a schema change affects. Clients then prepare the statements again
// and receive the new columns.
func (e *Engine) onPublication(p catalog.Publication) {
	e.noteAltered(p)
	e.metered.Store(findMeteredTables(p.New))
	e.tableLatencies.keep(p.New)
	e.scans.keep(p.New)
	e.prepared.removeIf(func(st *statement) bool { return !st.current(p.New) })
	next := make(chan struct{})
	close(*e.publication.Swap(&next))
}

// noteAltered records the tables whose columns a publication changed.
func (e *Engine) noteAltered(p catalog.Publication) {
	e.alteredTablesMu.Lock()
	defer e.alteredTablesMu.Unlock()
	for ks := range p.Old.All() {
		for name, old := range ks.Tables {
			t := p.New.Table(ks.Name, name)
			switch {
			case t == old:
			case t == nil || t.UUID != old.UUID:
				delete(e.alteredTables, old.UUID)
			case !slices.EqualFunc(slices.Collect(old.Columns()), slices.Collect(t.Columns()),
				func(a, b *schema.Column) bool {
					return a.Name == b.Name && a.Type == b.Type
				}):
				e.alteredTables[t.UUID] = struct{}{}
			}
		}
	}
}

func (e *Engine) isAltered(t *schema.Table) bool {
	e.alteredTablesMu.RLock()
	defer e.alteredTablesMu.RUnlock()
	_, yes := e.alteredTables[t.UUID]
	return yes
}

// prepare returns a prepared statement from the cache. If the cache does not contain the statement, prepare binds and
// caches it.
//
// If a statement names the keyspace of each table, the statement ID depends only on the text. A client that changes its
// keyspace therefore receives the same ID. Drivers treat a different ID as an error.
func (e *Engine) prepare(text []byte, keyspace string) (*statement, [16]byte, error) {
	plain := preparedID("", text)
	if st := e.prepared.get(plain); st != nil && (st.qualified || keyspace == "") {
		return st, plain, nil
	}
	id := plain
	if keyspace != "" {
		id = preparedID(keyspace, text)
		if st := e.prepared.get(id); st != nil && !st.qualified {
			return st, id, nil
		}
	}
	if err := e.prepared.check(text); err != nil {
		return nil, id, err
	}
	for attempt := 0; ; attempt++ {
		st, err := e.parse(text, keyspace)
		if err == nil {
			err = e.prepared.fits(text, st.bytes())
		}
		if err != nil {
			return nil, id, err
		}
		if st.qualified {
			id = plain
		}
		e.prepared.put(id, st)
		// A schema change may have removed the affected statements after this statement was bound and before it was
		// cached.
		if st.current(e.catalog.Snapshot()) {
			return st, id, nil
		}
		e.prepared.remove(id, st)
		if attempt == preparesMax {
			return st, id, nil // the client prepares it again when it executes it
		}
	}
}

// reader returns the reader of a table. The catalog reads virtual tables, and the coordinator reads stored tables.
func (e *Engine) reader(t *schema.Table) read.Reader {
	if t.Virtual {
		return e.catalog
	}
	return e.coordinator
}

// preparesMax is the maximum number of times that a statement is bound again because of concurrent schema changes.
const preparesMax = 3

var errNoKeyspace = dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")

// findTable returns the named table of a keyspace.
func (e *Engine) findTable(snapshot *schema.Schema, keyspace, name string) (*schema.Keyspace, *schema.Table, error) {
	if keyspace == "" {
		return nil, nil, errNoKeyspace
	}
	ks := snapshot.Keyspace(keyspace)
	if ks == nil {
		return nil, nil, dberr.Missingf("keyspace %s does not exist", keyspace)
	}
	t := ks.Tables[name]
	if t == nil {
		return nil, nil, dberr.Missingf("table %s does not exist", name)
	}
	return ks, t, nil
}

// droppedTableError returns the error for a request whose table was dropped during its execution.
func (e *Engine) droppedTableError(err error, tables []*schema.Table) error {
	if len(tables) == 0 {
		return err
	}
	gone := tables[0]
	snapshot := e.catalog.Snapshot()
	for _, t := range tables {
		if now := snapshot.Table(t.Keyspace, t.Name); now == nil || now.ID != t.ID {
			gone = t
		}
	}
	return dberr.Invalidf("table %s does not exist", gone.Name)
}

// toClientError replaces internal errors with errors for clients.
func toClientError(err error, r *Request, kind StatementKind) error {
	switch {
	case errors.Is(err, context.Canceled):
		return &dberr.Server{Message: "the connection was closed while the request was executed"}
	case errors.Is(err, coordinator.ErrStaleSchema):
		// Either part of the request was sent before a schema change and may have been applied, or the schema changed
		// repeatedly.
		if kind == KindSelect {
			return &dberr.ReadTimeout{Level: r.Consistency, BlockFor: 1}
		}
		return &dberr.WriteTimeout{Level: r.Consistency, BlockFor: 1, WriteType: writeTypes[kind]}
	}
	return err
}

var writeTypes = [statementKinds]string{KindModify: "SIMPLE", KindConditional: "CAS", KindBatch: "UNLOGGED_BATCH"}
