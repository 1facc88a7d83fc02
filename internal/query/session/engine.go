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
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/share"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/call"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/guardrail"
	"github.com/ilion-db/ilion/internal/query/read"
	"github.com/ilion-db/ilion/internal/query/roles"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/query/transaction"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Options of an Engine.
type Options struct {
	// Release is whose answers are given, those of Cassandra 4.0 if nil.
	Release *release.Release
	// MaskingOff shows masked columns as they are to everybody.
	MaskingOff bool
	// PreparedMax bounds the prepared statements kept for all clients, 10000 if 0; PreparedBytesMax about the memory
	// they take, 128 MiB if 0.
	PreparedMax, PreparedBytesMax int
	// ResultBytesMax bounds the cells of a result that is not cut into pages, 255 MiB if 0. Pages end at 8 MiB, or at
	// it if it is less.
	ResultBytesMax int
	// ResultsBytesMax bounds the cells of all results together that are being read, four times as much if 0. Pages end
	// early where there is little left of it, results without paging are refused.
	ResultsBytesMax int64
	// Memory replaces ResultsBytesMax: the memory of results, which evaluations of the whole node share. Slots bound
	// how many evaluations run at the same time; nil: any number.
	Memory *meter.Pool
	Slots  *share.Slots
	// Pressed reports whether clients have been answered so much that they have not read that pages are to end early,
	// too; nil: they have not.
	MemoryPressure func() bool
	// TextBytesMax bounds the memory of all large statements together that came as text, in syntax trees and plans; 64
	// MiB if 0.
	TextBytesMax int64
	// MutationBytesMax bounds what changes of one logical partition at once, no bound if 0; see write.Options.
	MutationBytesMax int
	// BatchBytesMax bounds batches over several logical partitions, no bound if 0; see write.Options.
	BatchBytesMax int
	// RowBytesMax bounds what changes of one row at once, no bound if 0; Large says in words that a logical partition
	// is large; see write.Options.
	RowBytesMax            int
	DescribeLargePartition func(table uint32, at token.Token) string
	// Functions runs user-defined functions; nil: there are none.
	Functions ddl.Functions
	// Newest returns when the schema and the roles of this node have every change that was acknowledged before the
	// call, on whatever node, or an error; nil: they always have.
	ReadBarrier func(ctx context.Context) error
	// Announce tells other clients of a schema change before the client that made it has its answer; nil tells nobody.
	Announce func(SchemaChange)
	// ReadTimeout is how long a SELECT is repeated because what was read could not be confirmed; 5 s if 0.
	ReadTimeout time.Duration
	// ScanTimeout is how long a SELECT goes on that reads much one after the other, each part in the time of a read:
	// aggregates over a whole table, results without pages, many keys; 1 minute if 0.
	ScanTimeout time.Duration
	// Routing tells clients that ask for it where data is; nil tells nobody. See MapRouting.
	Routing Routing
	// Near reports whether this node answers a read of a partition by itself, at once. Others are not done on the
	// goroutine of a connection. It is called for each read of one partition and must be quick. nil: this node answers
	// all.
	ServesLocally func(table uint32, t token.Token, level dberr.Consistency, who share.Claimant) bool
	// LateStale says that the coordinator may refuse a write with ErrStaleSchema after its method has returned, as
	// replica sets do: then what the client sent is copied, so that the write can be bound and sent again.
	StaleAfterReturn bool
	// Building reports whether an index is still being built; nil: none is.
	Building func(*schema.Index) bool
	// Guards bound what statements may ask for; nil bounds nothing.
	Guards *guardrail.Guards
	// Authority says who may do what; nil: nobody has to log in, and everything is allowed. Roles makes changes of
	// roles.
	Authority *Authority
	Roles     roles.Store
	// Calls runs stored procedures; nil: there are none.
	Calls *call.Executor
	// Audit is told of every request that is over; nil: nobody is. Notable is told only of requests that were not
	// allowed, and of statements about roles. Neither may keep what it is told.
	Audit, AuditSecurity func(*AuditEntry)
	// Slow keeps requests that took long; nil: none are kept.
	Slow *slowlog.Log
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Engine is what all sessions of a node share.
type Engine struct {
	catalog     *catalog.Catalog
	coordinator *coordinator.Coordinator
	ddl         *ddl.Executor
	roles       *roles.Executor
	writes      *write.Executor
	opts        Options
	// transactions sends transactions to their leaders, programs carries out those that this node leads.
	transactions *transaction.Executor
	programs     *transaction.Programs
	prepared     *preparedCache
	uuids        *cqltype.TimeUUIDs
	tracer       tracer
	latency      [statementKinds]Latency
	// tableLatencies are by table and operation.
	tableLatencies tableLatencies
	scans          scanCounts
	results        resultMemory
	texts          statementMemory
	readRestarts   atomic.Uint64
	cancel         func()
	// metered are the tables that have a throughput now.
	metered atomic.Pointer[meteredTables]

	// unanswered is until when the newest schema is not asked for before a refusal, in Unix nanoseconds; see judge.
	barrierPausedUntil atomic.Int64

	// publication is closed at the next publication of a schema, and replaced.
	publication atomic.Pointer[chan struct{}]

	// reshaped holds the tables whose columns have changed since the start. Clients of protocols 3 and 4 may remember
	// other columns.
	alteredTablesMu sync.RWMutex
	alteredTables   map[schema.UUID]struct{}
}

// New makes an engine. Close it before the catalog's owner goes.
func New(cat *catalog.Catalog, co *coordinator.Coordinator, d *ddl.Executor, o Options) (*Engine, error) {
	o.Release = cmp.Or(o.Release, release.Cassandra40)
	o.PreparedMax = cmp.Or(o.PreparedMax, 10_000)
	o.PreparedBytesMax = cmp.Or(o.PreparedBytesMax, 128<<20)
	o.ResultBytesMax = cmp.Or(o.ResultBytesMax, 255<<20)
	o.ResultsBytesMax = cmp.Or(o.ResultsBytesMax, 4*int64(o.ResultBytesMax))
	o.TextBytesMax = cmp.Or(o.TextBytesMax, 64<<20)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 5*time.Second)
	o.ScanTimeout = cmp.Or(o.ScanTimeout, time.Minute)
	if o.MemoryPressure == nil {
		o.MemoryPressure = func() bool { return false }
	}
	if o.Announce == nil {
		o.Announce = func(SchemaChange) {}
	}
	if o.Now == nil {
		o.Now = time.Now
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
	d.SetHasRows(e.hasRows)
	e.transactions = transaction.NewExecutor(co)
	e.programs = transaction.NewPrograms(currentSchema{e}, e.writes, o.Guards, e.uuids)
	if o.Memory == nil {
		o.Memory = meter.NewPool(o.ResultsBytesMax)
	}
	e.results.Pool, e.results.memoryPressure, e.texts.max = o.Memory, o.MemoryPressure, o.TextBytesMax
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
	return write.Options{BatchBytesMax: o.BatchBytesMax, CellSizes: o.Release.CellSizes, Find: co.Find,
		MutationBytesMax: o.MutationBytesMax, RowBytesMax: o.RowBytesMax, DescribeLargePartition: o.DescribeLargePartition}
}

// Close ends the engine's interest in the catalog. Its sessions must have ended.
func (e *Engine) Close() { e.cancel() }

// NewSession begins the session of a client.
func (e *Engine) NewSession(c Client) *Session {
	s := &Session{engine: e, client: c, claimant: c.Claimant()}
	switch a := e.opts.Authority; {
	case c.Account:
		s.account = access.OfKey(c.User)
	case a != nil && c.Record == access.RoleVersion{}:
		s.client.Record = a.Subject(c.User).Version()
	}
	return s
}

// Latency returns the histogram of a kind of statement.
func (e *Engine) Latency(k StatementKind) *Latency { return &e.latency[k] }

// Kinds lists the kinds of statements, for metrics.
func Kinds() []StatementKind {
	out := make([]StatementKind, statementKinds)
	for i := range out {
		out[i] = StatementKind(i)
	}
	return out
}

// PreparedCount is the number of prepared statements kept, PreparedEvicted how many had to make room for others.
func (e *Engine) PreparedCount() int { return e.prepared.len() }

// PreparedEvicted counts the prepared statements that had to make room for others.
func (e *Engine) PreparedEvicted() int64 { return e.prepared.evicts.Load() }

// Memory says what the engine holds of its bounds: the cells of results that are being read, the trees and plans of
// large statements that are being executed, and prepared statements; estimates in bytes.
func (e *Engine) Memory() (results, statements, prepared int64) {
	return e.results.Used(), e.texts.used.Load(), e.prepared.bytes.Load()
}

// PreparedStatements lists what is kept, as system.prepared_statements shows it.
func (e *Engine) PreparedStatements() []catalog.PreparedStatement {
	var out []catalog.PreparedStatement
	e.prepared.each(func(id [16]byte, st *statement) {
		out = append(out, catalog.PreparedStatement{ID: id, Keyspace: st.keyspace, Query: st.display})
	})
	return out
}

// AnnounceReplication tells clients that the replication of all keyspaces with stored rows has changed: what
// system_schema shows is the effective one, and drivers look again only when they are told to.
func (e *Engine) AnnounceReplication() {
	for ks := range e.catalog.Snapshot().All() {
		if !schema.IsLocalSystem(ks.Name) && !schema.IsVirtualSystem(ks.Name) {
			e.opts.Announce(SchemaChange{Change: "UPDATED", Target: "KEYSPACE", Keyspace: ks.Name})
		}
	}
}

// RepeatedReads counts how often a SELECT was executed once more because what was read could not be confirmed.
func (e *Engine) ReadRestarts() uint64 { return e.readRestarts.Load() }

// forget drops the prepared statements of what a publication changed: clients are told to prepare again and get the new
// columns.
func (e *Engine) onPublication(p catalog.Publication) {
	e.noteAltered(p)
	e.metered.Store(findMeteredTables(p.New))
	e.tableLatencies.keep(p.New)
	e.scans.keep(p.New)
	e.prepared.removeIf(func(st *statement) bool { return !st.current(p.New) })
	next := make(chan struct{})
	close(*e.publication.Swap(&next))
}

// noteReshaped notes the tables whose columns a publication changed.
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

// prepare finds a prepared statement, or binds and keeps it.
//
// A statement whose tables all have a keyspace in the text means the same to everybody: its id is that of the text
// alone, so that a client gets the same one again after it has changed its keyspace. Drivers take another id for a
// mistake.
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
		// A schema change since the binding may have forgotten what it concerns before the statement was there to be
		// forgotten.
		if st.current(e.catalog.Snapshot()) {
			return st, id, nil
		}
		e.prepared.remove(id, st)
		if attempt == preparesMax {
			return st, id, nil // whoever executes it is told to prepare it again
		}
	}
}

// reader is what reads a table: the catalog if its rows are computed.
func (e *Engine) reader(t *schema.Table) read.Reader {
	if t.Virtual {
		return e.catalog
	}
	return e.coordinator
}

// preparesMax is how often a statement is bound again because a schema change came in between.
const preparesMax = 3

var errNoKeyspace = dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")

// findTable finds the table a statement names, in the session's keyspace unless it names one.
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

// dropped is what a client is told whose table was dropped while its request was on its way, as it would be told a
// moment later.
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

// clientError turns an error that no client should see into one it can.
func toClientError(err error, r *Request, kind StatementKind) error {
	switch {
	case errors.Is(err, context.Canceled):
		return &dberr.Server{Message: "the connection was closed while the request was executed"}
	case errors.Is(err, coordinator.ErrStaleSchema):
		// A part of the request came before a schema change, and may have been done; or there was one change after the
		// other.
		if kind == KindSelect {
			return &dberr.ReadTimeout{Level: r.Consistency, BlockFor: 1}
		}
		return &dberr.WriteTimeout{Level: r.Consistency, BlockFor: 1, WriteType: writeTypes[kind]}
	}
	return err
}

var writeTypes = [statementKinds]string{KindModify: "SIMPLE", KindConditional: "CAS", KindBatch: "UNLOGGED_BATCH"}
