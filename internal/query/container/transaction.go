// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Transaction gives access to the items of one logical partition in a transaction at its leader.
//
// Reads see the transaction's own writes. Errors of single operations (404, 409, 412, 413, 400) do not change the
// transaction, and it may continue. Other errors end it. A Transaction must be used by one goroutine and only until
// Runner.RunProgram returns.
type Transaction struct {
	engine   *Engine
	c        *Container
	key      epk.Key
	keyBytes []byte
	token    token.Token
	now      int64 // in Unix seconds
	txn      *partition.Txn
	// items contains the items that were read or changed. These items override the stored items.
	items map[string]*state
	// fatal is the error that has ended the transaction.
	fatal error
	// charge is the charge of the current operation. read is the read that the operation requires.
	charge ru.Units
	read   command.Read
}

// state holds the state of an item in a transaction. is holds the current item, or nil if it does not exist.
type state struct {
	is *stored
	// was holds the stored item, or nil. stamp is its write time. changed reports whether is differs from was.
	was     *stored
	stamp   int64
	changed bool
	// entered holds the index entry values of is if it has changed. there holds the entry values of was.
	entered, there [][]byte
}

// Container returns the container of the transaction.
func (t *Transaction) Container() *Container { return t.c }

// Key returns the partition key of the transaction.
func (t *Transaction) Key() epk.Key { return t.key }

// Now returns the time of the transaction in seconds since the epoch.
func (t *Transaction) Now() int64 { return t.now }

// Current is an item after an operation of a transaction. Its system properties are computed on demand.
type Current struct {
	ID string
	// Body is the JSON without system properties. Body must not be modified.
	Body []byte
	t    *Transaction
	s    stored
}

// Item returns the client view of the item.
func (c *Current) Item() *Item { return c.t.c.item(c.t.keyBytes, c.ID, &c.s) }

// Do executes one operation. Do returns the item after the operation. Do returns nil after a Delete, or if
// If-None-Match matches. The body must be a JSON object without system properties. Do retains the body, so it must not
// be modified afterward. Do validates the ID and the key in the body.
func (t *Transaction) Do(ctx context.Context, op *Operation) (*Current, *Error) {
	if t.fatal != nil {
		return nil, refused(t.fatal)
	}
	sent := *op
	switch sent.Kind {
	case Create, Upsert, Replace:
		if e := t.c.take(&sent, document.View(sent.Body), &t.key); e != nil {
			return nil, e
		}
	case Read, Delete:
		sent.Body = nil
	default:
		return nil, Errorf(400, 0, "Scripts cannot execute operations of kind %d.", sent.Kind)
	}
	if e := checkID(sent.ID); e != nil {
		return nil, e
	}
	o, err := t.do(ctx, &sent)
	if err != nil {
		t.fatal = err
		return nil, refused(err)
	}
	if o.status >= 400 {
		return nil, Errorf(o.status, o.sub, "%s", o.message)
	}
	if !o.there {
		return nil, nil
	}
	return &Current{ID: o.id, Body: o.stored.body, t: t, s: o.stored}, nil
}

// do executes a prepared operation. Errors end the transaction.
func (t *Transaction) do(ctx context.Context, op *Operation) (o outcome, err error) {
	t.charge = 0
	defer func() { o.charge = t.charge }()
	o.id = op.ID
	s, err := t.state(ctx, op.ID)
	if err != nil {
		return o, err
	}
	if e := t.condition(op, s); e != nil {
		return o.refuse(e), nil
	}
	var next *stored
	switch op.Kind {
	case Read:
		o.status, o.there, o.stored = 200, true, *s.is
		return o, nil
	case Delete:
		s.is, s.changed = nil, true
		t.charge += ru.Row(0)
		o.status = 204
		return o, nil
	case Patch:
		body, e := t.patch(ctx, op, s.is)
		if e != nil {
			return o.refuse(e), nil
		}
		next = &stored{body: body}
		o.status = 200
	default:
		next = &stored{body: op.Body}
		if o.status = 200; s.is == nil {
			o.status = 201
		}
	}
	if _, e := t.ttl(next); e != nil {
		return o.refuse(e), nil
	}
	if e, err := t.unique(ctx, op.ID, s.is, next); e != nil || err != nil {
		return o.refuse(e), err
	}
	next.etag, next.ts = uuid.New(), t.now
	s.is, s.changed = next, true
	t.charge += ru.Row(int64(len(t.keyBytes)+len(op.ID)+len(next.body))) +
		ru.Units(len(t.c.Definition.unique))*ru.WriteIndex + t.addIndexEntries(s)
	o.there, o.stored = true, *next
	return o, nil
}

// refuse sets the error of an outcome. If e is nil, it returns the outcome unchanged.
func (o outcome) refuse(e *Error) outcome {
	if e != nil {
		o.status, o.sub, o.message = e.Status, e.SubStatus, e.Message
	}
	return o
}

// condition checks the preconditions of an operation against the current item.
func (t *Transaction) condition(op *Operation, s *state) *Error {
	switch {
	case s.is == nil && (op.Kind == Create || op.Kind == Upsert):
		return nil
	case s.is == nil:
		return Errorf(404, 0, "Entity with the specified id does not exist in the system.")
	case op.Kind == Create:
		return Errorf(409, 0, "Entity with the specified id already exists in the system.")
	}
	if op.IfMatch == "" && op.IfNoneMatch == "" {
		return nil
	}
	etag := s.is.quoted()
	switch {
	case !matches(quoted(op.IfMatch), etag):
		return preconditionFailed()
	case op.IfNoneMatch == "" || !matches(quoted(op.IfNoneMatch), etag):
		return nil
	case op.Kind == Read:
		return Errorf(304, 0, "The item has not been changed.")
	}
	return preconditionFailed()
}

// quoted adds quotes to an unquoted etag.
func quoted(header string) string {
	if header == "" || header == "*" || header[0] == '"' {
		return header
	}
	return `"` + header + `"`
}

// state returns the transaction's version of an item, or the stored item.
func (t *Transaction) state(ctx context.Context, id string) (*state, error) {
	if s := t.items[id]; s != nil {
		return s, nil
	}
	found := &collector{t: t}
	t.read = command.Read{Table: t.c.table.ID, Key: t.keyBytes, Token: t.token, Limit: 1, Now: t.now,
		Slices: append(t.read.Slices[:0], t.c.sliceOf(id))}
	if err := t.txn.Read(ctx, &t.read, found); err != nil {
		return nil, err
	}
	s := &state{}
	if len(found.items) > 0 {
		f := &found.items[0]
		s.is, s.was, s.stamp = &f.stored, &f.stored, f.stamp
	}
	t.items[id] = s
	return s, nil
}

// patch returns the body of an item after a patch.
func (t *Transaction) patch(ctx context.Context, op *Operation, s *stored) ([]byte, *Error) {
	ops, condition, err := document.ParsePatch(document.View(op.Body))
	if err != nil {
		return nil, Errorf(400, 0, "%v", err)
	}
	before := document.View(s.body)
	if condition != "" {
		holds, e := t.holds(ctx, condition, op.ID, s)
		if e != nil {
			return nil, e
		}
		if !holds {
			return nil, preconditionFailed()
		}
	}
	after, err := document.Patch(before, ops)
	if err != nil {
		return nil, Errorf(400, 0, "%v", err)
	}
	if after.Get("id").Str() != op.ID {
		return nil, Errorf(400, 0, "A patch cannot change the id of an item.")
	}
	if !t.c.Definition.keyOf(after).Equal(t.key) {
		return nil, Errorf(400, SubKeyMismatch, "A patch cannot change the partition key of an item.")
	}
	body := after.Append(nil)
	if len(body) > ItemBytesMax {
		return nil, Errorf(413, 0, "The item would have %d bytes, the limit is %d.", len(body), ItemBytesMax)
	}
	return body, nil
}

// ttl returns the time to live of an item in seconds, or 0 if it never expires.
func (t *Transaction) ttl(s *stored) (int32, *Error) {
	whole := t.c.Definition.TTL
	if whole == 0 {
		return 0, nil
	}
	v := document.View(s.body).Get("ttl")
	if !v.IsDefined() {
		return max(whole, 0), nil
	}
	seconds, ok := ttlOf(v)
	if !ok {
		return 0, Errorf(400, 0, "The value of 'ttl' must be an integer from 1 to %d, or -1, not %v.", math.MaxInt32,
			v)
	}
	return max(seconds, 0), nil
}

// stage adds the changed items to the write. The items are sorted by ID, so equal changes have equal encodings.
func (t *Transaction) stage(ctx context.Context) error {
	var ops []command.Op
	var b row.Builder
	for _, id := range slices.Sorted(maps.Keys(t.items)) {
		s := t.items[id]
		if !s.changed || s.is == nil && s.was == nil {
			continue
		}
		ops = t.appendChange(t.appendOps(ops, &b, id, s), id, s)
	}
	if len(ops) == 0 {
		return nil
	}
	return t.txn.Stage(ctx, &command.Conditional{Mutation: command.Mutation{Table: t.c.table.ID, Token: t.token,
		Key: t.keyBytes, Ops: ops}, Now: t.now})
}

// rowSlack is the approximate size of an item's row, excluding the body.
const rowSlack = 96

// appendOps appends the operands of one item, built with b. The operands contain all columns and therefore replace all
// older cells.
func (t *Transaction) appendOps(ops []command.Op, b *row.Builder, id string, s *state) []command.Op {
	b.Reset(row.Unstamped)
	clustering := t.c.clustering(id)
	if s.is == nil {
		b.DeleteRow(t.now)
		return append(ops, command.Op{Kind: command.OpRow, Clustering: clustering, Operand: b.Append(nil)})
	}
	ttl, expiry := t.live(b, s.is)
	columns := &t.c.columns
	b.Cell(columns.body, nil, s.is.body, ttl, expiry)
	b.Cell(columns.etag, nil, s.is.etag[:], ttl, expiry)
	b.Cell(columns.ts, nil, timestampValue(s.is.ts), ttl, expiry)
	ops = append(ops, command.Op{Kind: command.OpRow, Clustering: clustering,
		Operand: b.Append(make([]byte, 0, len(s.is.body)+rowSlack))})
	ops = append(ops, t.c.uniqueOps(clustering, s.is)...)
	for _, v := range s.missing() {
		ops = append(ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: t.c.table.DocumentIndex().ID,
			Value: v})
	}
	return ops
}

// live builds the row marker of an item and returns the time to live of its cells. Items have lifetimes, which the
// store interprets according to the container's setting at the time of a read. Before feature.Lifetimes, the expiry of
// an item is fixed when it is written.
func (t *Transaction) live(b *row.Builder, s *stored) (ttl int32, expiry int64) {
	if t.engine.opts.Levels.Current() < feature.Lifetimes {
		ttl, _ = t.ttl(s) // validated before
		if expiry = row.NoExpiry; ttl > 0 {
			expiry = t.now + int64(ttl) + 1 // now is rounded down; an item must not expire early
		}
		b.Live(ttl, expiry)
		return ttl, expiry
	}
	switch own := ownLifetime(s.body); own {
	case neverExpires:
		b.Live(0, row.NoExpiry)
	default:
		b.LiveFor(own, t.now)
	}
	return 0, row.NoExpiry
}

// neverExpires is the lifetime of an item that never expires.
const neverExpires = 0

// ownLifetime returns the lifetime that an item's ttl sets in a container with a time to live. An invalid ttl is
// ignored, because it may have been stored before the container had a time to live.
func ownLifetime(body []byte) int32 {
	v := document.View(body).Get("ttl")
	seconds, ok := ttlOf(v)
	switch {
	case !ok:
		return row.DefaultLifetime
	case seconds < 0:
		return neverExpires
	}
	return seconds
}

// lifetimes returns the setting that controls the expiry of the container's items.
func (c *Container) lifetimes() row.Lifetimes {
	d := c.table.Container
	return row.Lifetimes{Default: c.Definition.TTL, Past: row.Expired{Own: d.ExpiredOwn, Default: d.ExpiredDefault}}
}

// deleteExpired deletes an expired item that conflicts with another item.
func (t *Transaction) deleteExpired(id string, r *row.Row) {
	s := t.items[id]
	if s == nil {
		s = &state{}
		t.items[id] = s
	}
	was := t.c.read(r)
	was.body = bytes.Clone(was.body)
	s.is, s.was, s.stamp, s.changed = nil, &was, r.Liveness.Timestamp, true
}

// collector collects the items that a read finds. It omits items that the transaction has changed.
type collector struct {
	t     *Transaction
	items []found
	c     *Container
	// max is the maximum number of items. If it is 0, the number is not limited.
	max int
}

// found is an item that a read has returned.
type found struct {
	id string
	stored
	// stamp is the write time in microseconds. It is also the stamp of the item's change log entry.
	stamp int64
}

// Charge adds the charge of a read.
func (l *collector) Charge(u ru.Units) {
	if l.t != nil {
		l.t.charge += u
	}
}

// Partition implements command.Visitor.
func (l *collector) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (l *collector) Row(clustering []byte, r *row.Row) (command.Step, error) {
	c := l.c
	if l.t != nil {
		c = l.t.c
	}
	id, err := c.idOf(clustering)
	if err != nil {
		return command.Stop, err
	}
	f := found{id: id, stored: c.read(r), stamp: r.Liveness.Timestamp}
	f.body = bytes.Clone(f.body)
	l.items = append(l.items, f)
	if l.max > 0 && len(l.items) == l.max {
		return command.Stop, nil
	}
	return command.More, nil
}
