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

// txn is what a transaction does at the replica; *partition.Txn is one.
type txn interface {
	Read(ctx context.Context, q *command.Read, v command.Visitor) error
	Lookup(ctx context.Context, q *command.Read, v partition.LookupVisitor) error
	Stage(ctx context.Context, c *command.Conditional) error
}

// Transaction is the items of one logical partition within a transaction, at its leader. Reads see what the transaction
// itself has written. Errors of single operations (404, 409, 412, 413, 400) leave the transaction as it was, and it may
// go on; others end it. It belongs to one goroutine, and ends with Runner.RunProgram.
type Transaction struct {
	engine   *Engine
	c        *Container
	key      epk.Key
	keyBytes []byte
	token    token.Token
	now      int64 // in Unix seconds
	txn      txn
	// items are those that were looked at or changed, over what is stored.
	items map[string]*state
	// fatal is the error that has ended the transaction.
	fatal error
	// charge is that of the operation at hand, read the read that it needs.
	charge ru.Units
	read   command.Read
}

// state is an item within a transaction: is is what is there now, nil for nothing.
type state struct {
	is *stored
	// was is what is stored, nil for nothing, stamp when that was written. changed says that is is something else.
	was     *stored
	stamp   int64
	changed bool
	// entered are the values of the entries that is has in the index of items, if it is changed; there are those that
	// was has there.
	entered, there [][]byte
}

// Container is the container of the transaction; Key its logical partition.
func (t *Transaction) Container() *Container { return t.c }

// Key is the partition key of the transaction.
func (t *Transaction) Key() epk.Key { return t.key }

// Now is when the transaction takes place, in seconds since the epoch.
func (t *Transaction) Now() int64 { return t.now }

// Current is an item as it is after an operation of a transaction. What clients see of it beside its body is made when
// it is asked for.
type Current struct {
	ID string
	// Body is its JSON without system properties. It must not be changed.
	Body []byte
	t    *Transaction
	s    stored
}

// Item is the item as clients see it.
func (c *Current) Item() *Item { return c.t.c.item(c.t.keyBytes, c.ID, &c.s) }

// Do carries out one operation. The item of the result is as it is after the operation; nil after Delete and where
// If-None-Match holds. A body is a JSON object without system properties, is kept, and must not be changed afterwards;
// its id and its key are checked.
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
		return nil, Errorf(400, 0, "Scripts carry out no operation of kind %d.", sent.Kind)
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

// do carries out an operation that was prepared. Errors end the transaction.
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
		ru.Units(len(t.c.Definition.unique)+t.enter(s))*ru.WriteIndex
	o.there, o.stored = true, *next
	return o, nil
}

// refuse makes an outcome of an error; nil leaves it.
func (o outcome) refuse(e *Error) outcome {
	if e != nil {
		o.status, o.sub, o.message = e.Status, e.SubStatus, e.Message
	}
	return o
}

// condition checks whether an operation may be done on what is there.
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

// quoted puts quotes around an etag that came without them.
func quoted(header string) string {
	if header == "" || header == "*" || header[0] == '"' {
		return header
	}
	return `"` + header + `"`
}

// state finds an item: what the transaction has made of it, or what is stored.
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

// patch is the body of an item after a patch.
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
		return nil, Errorf(413, 0, "The item would have %d bytes, at most %d are allowed.", len(body), ItemBytesMax)
	}
	return body, nil
}

// ttl is how long an item lives, in seconds, 0 for ever.
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
		return 0, Errorf(400, 0, "The value of 'ttl' has to be a whole number from 1 to %d, or -1, not %v.", math.MaxInt32,
			v)
	}
	return max(seconds, 0), nil
}

// stage has what was changed written. Items are in the order of their ids, so that the same changes are the same bytes.
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

// rowSlack is about what the row of an item takes beside its body.
const rowSlack = 96

// appendOps appends the operands of one item, made by b. All its columns are written, so that nothing older is left of
// it.
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

// live makes the marker of an item's row, and returns the time to live of its cells. Items have lifetimes, which the
// store interprets by the setting that the container has when they are read. The deadlines that items had before
// feature.Lifetimes are fixed when they are written.
func (t *Transaction) live(b *row.Builder, s *stored) (ttl int32, expiry int64) {
	if t.engine.opts.Level() < feature.Lifetimes {
		ttl, _ = t.ttl(s) // it was checked
		if expiry = row.NoExpiry; ttl > 0 {
			expiry = t.now + int64(ttl) + 1 // now is the beginning of the second: an item lives no shorter than its ttl
		}
		b.Live(ttl, expiry)
		return ttl, expiry
	}
	switch own := ownLifetime(s.body); own {
	case forever:
		b.Live(0, row.NoExpiry)
	default:
		b.LiveFor(own, t.now)
	}
	return 0, row.NoExpiry
}

// forever is the lifetime of an item that never expires.
const forever = 0

// ownLifetime is the lifetime that the ttl of an item gives it in a container with a time to live. A ttl that such a
// container would have refused counts as none.
func ownLifetime(body []byte) int32 {
	v := document.View(body).Get("ttl")
	seconds, ok := ttlOf(v)
	switch {
	case !ok:
		return row.DefaultLifetime
	case seconds < 0:
		return forever
	}
	return seconds
}

// lifetimes is the setting by which the items of the container expire.
func (c *Container) lifetimes() row.Lifetimes {
	d := c.table.Container
	return row.Lifetimes{Default: c.Definition.TTL, Past: row.Expired{Own: d.ExpiredOwn, Default: d.ExpiredDefault}}
}

// bury deletes an item that has expired, in favor of another one.
func (t *Transaction) bury(id string, r *row.Row) {
	s := t.items[id]
	if s == nil {
		s = &state{}
		t.items[id] = s
	}
	was := t.c.read(r)
	was.body = bytes.Clone(was.body)
	s.is, s.was, s.stamp, s.changed = nil, &was, r.Liveness.Timestamp, true
}

// collector collects the items that a read finds. In a transaction it leaves out those that were changed.
type collector struct {
	t     *Transaction
	items []found
	c     *Container
	// max, if not 0, bounds how many.
	max int
}

// found is an item of a read.
type found struct {
	id string
	stored
	// stamp is when it was written, in microseconds: that of its entry in the change log.
	stamp int64
}

// Charge hears of the price of a read.
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
