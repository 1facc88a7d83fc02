// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/read"
	"github.com/ilion-db/ilion/internal/query/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Options of an Engine.
type Options struct {
	// PreparedMax bounds the prepared statements kept for all clients; 10000 if 0.
	PreparedMax int
	// Announce tells other clients of a schema change before the client that made it has its answer; nil tells nobody.
	Announce func(SchemaChange)
	// Building reports whether an index is still being built; nil: none is.
	Building func(*schema.Index) bool
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Engine is what all sessions of a node share.
type Engine struct {
	catalog     *catalog.Catalog
	coordinator *coordinator.Coordinator
	ddl         *ddl.Executor
	writes      *write.Executor
	opts        Options
	prepared    *preparedCache
	uuids       *cqltype.TimeUUIDs
	tracer      tracer
	latency     [statementKinds]Latency
	cancel      func()
}

// New makes an engine. Close it before the catalog's owner goes.
func New(cat *catalog.Catalog, co *coordinator.Coordinator, d *ddl.Executor, o Options) (*Engine, error) {
	if o.PreparedMax == 0 {
		o.PreparedMax = 10_000
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
	e := &Engine{catalog: cat, coordinator: co, ddl: d, writes: write.NewExecutor(co, write.Options{}), opts: o, prepared: newPreparedCache(o.PreparedMax),
		uuids: cqltype.NewTimeUUIDs([6]byte(seed[:6]), binary.BigEndian.Uint16(seed[6:]))}
	if err := e.tracer.init(e); err != nil {
		return nil, err
	}
	e.cancel = cat.Subscribe(e.forget)
	return e, nil
}

// Close ends the engine's interest in the catalog. Its sessions must have ended.
func (e *Engine) Close() { e.cancel() }

// NewSession begins the session of a client.
func (e *Engine) NewSession(c Client) *Session {
	return &Session{engine: e, client: c}
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

// PreparedStatements lists what is kept, as system.prepared_statements shows it.
func (e *Engine) PreparedStatements() []catalog.PreparedStatement {
	var out []catalog.PreparedStatement
	e.prepared.each(func(id [16]byte, st *statement) {
		out = append(out, catalog.PreparedStatement{ID: id, Keyspace: st.keyspace, Query: st.text})
	})
	return out
}

// forget drops the prepared statements of what a publication changed: clients are told to prepare again and get the new columns.
func (e *Engine) forget(p catalog.Publication) {
	e.prepared.removeIf(func(st *statement) bool {
		for _, t := range st.tables {
			if p.New.Table(t.Keyspace, t.Name) != t {
				return true
			}
		}
		return false
	})
}

// reader is what reads a table: the catalog if its rows are computed.
func (e *Engine) reader(t *schema.Table) read.Reader {
	if t.Virtual {
		return e.catalog
	}
	return e.coordinator
}

// findTable finds the table a statement names, in the session's keyspace unless it names one.
func (e *Engine) findTable(snapshot *schema.Schema, keyspace, name string) (*schema.Keyspace, *schema.Table, error) {
	if keyspace == "" {
		return nil, nil, dberr.Invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	ks := snapshot.Keyspace(keyspace)
	if ks == nil {
		return nil, nil, dberr.Invalidf("keyspace %s does not exist", keyspace)
	}
	t := ks.Tables[name]
	if t == nil {
		return nil, nil, dberr.Invalidf("table %s does not exist", name)
	}
	return ks, t, nil
}

// clientError turns an error that no client should see into one it can.
func clientError(err error) error {
	if errors.Is(err, context.Canceled) {
		return &dberr.Server{Message: "the connection was closed while the request was executed"}
	}
	return err
}
