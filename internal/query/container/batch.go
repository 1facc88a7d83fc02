// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Do executes operations on items of one logical partition atomically.
//
// The results contain the errors of failed operations. Do returns an error only if no operation was executed or the
// failed operation is unknown. Possible causes are a dropped container, an incomplete key, an oversized batch, or
// status 429, 503, or 408. If the key is nil, it is taken from the body of the first Create, Upsert, or Replace.
func (e *Engine) Do(ctx context.Context, c *Container, key epk.Key, ops []Operation, o RequestOptions) (*Results,
	error) {
	switch {
	case len(ops) == 0:
		return nil, Errorf(400, 0, "Batch request has no operations.")
	case len(ops) > OperationsMax:
		return nil, Errorf(400, 0, "Batch request has more operations than what is supported.")
	}
	sent := make([]Operation, len(ops))
	size := 0
	for i := range ops {
		sent[i] = ops[i]
		if bad := c.prepare(&sent[i], &key); bad != nil {
			return failedAt(len(ops), i, bad), nil
		}
		size += len(sent[i].Body)
		if sent[i].Kind != Patch {
			sent[i].Body = bytes.Clone(sent[i].Body) // The results refer to this memory.
		}
	}
	if size > ItemBytesMax {
		return nil, Errorf(413, 0, "Request size is too large: the bodies have %d bytes, the limit is %d.", size,
			ItemBytesMax)
	}
	if bad := e.usable(c, key); bad != nil {
		return nil, bad
	}
	a, where, err := e.decide(ctx, c, key, &request{noBodies: o.NoBodies, ops: sent}, o)
	if err != nil {
		return nil, err
	}
	return e.results(ctx, c, key, sent, a, where, &o)
}

// failedAt returns the outcome of a batch of n operations whose operation i is invalid.
func failedAt(n, i int, e *Error) *Results {
	r := &Results{Of: make([]Result, n), Failed: i}
	r.Charge = ru.PointRead
	for j := range r.Of {
		r.Of[j] = Result{Status: 424, Err: Errorf(424, 0, "Another operation of the batch failed.")}
	}
	e.Charge = r.Charge
	r.Of[i] = Result{Status: e.Status, Err: e, Charge: r.Charge}
	return r
}

// prepare validates an operation as far as possible without the stored item, and converts its body to the stored form.
// The body may share the memory of the request. key is the key of the request. If key is nil, prepare sets it to the
// key in the body.
func (c *Container) prepare(op *Operation, key *epk.Key) *Error {
	switch op.Kind {
	case Read, Delete:
		op.Body = nil
	case Patch:
		v, err := document.Parse(op.Body, document.Limits{})
		if err != nil {
			return bodyError(err)
		}
		if _, _, err := document.ParsePatch(v); err != nil {
			return Errorf(400, 0, "%v", err)
		}
	case Create, Upsert, Replace:
		v, bad := ParseItem(op.Body)
		if bad == nil {
			bad = c.take(op, v, key)
		}
		if bad != nil {
			return bad
		}
	default:
		return Errorf(400, 0, "Operations of kind %d are not supported for items.", op.Kind)
	}
	return checkID(op.ID)
}

// ParseItem parses an item that a client sends and removes its system properties. ParseItem returns 400 or 413 if the
// item is invalid.
func ParseItem(body []byte) (document.Value, *Error) {
	v, err := document.Parse(body, document.Limits{})
	if err != nil {
		return v, bodyError(err)
	}
	return document.WithoutSystem(v), nil
}

func checkID(id string) *Error {
	switch {
	case id == "":
		return Errorf(400, 0, "The operation does not specify the id of an item.")
	case len(id) > IDBytesMax:
		return Errorf(400, 0, "The id of an item is limited to %d bytes; this one has %d.", IDBytesMax, len(id))
	}
	return nil
}

// take sets the body of an operation to an item without system properties. It also validates the item's ID and key.
func (c *Container) take(op *Operation, v document.Value, key *epk.Key) *Error {
	id := v.Get("id")
	switch {
	case v.Kind() != document.Object:
		return Errorf(400, 0, "An item must be a JSON object.")
	case !id.IsDefined():
		return Errorf(400, 0, "The input content is invalid because the required properties - 'id; ' - are missing.")
	case id.Kind() != document.String:
		return Errorf(400, 0, "The id of an item must be a string, not %v.", id)
	case op.Kind == Replace && op.ID != "" && op.ID != id.Str():
		return Errorf(400, 0, "The id %s in the body does not match the id %s of the request.", strconv.Quote(id.Str()),
			strconv.Quote(op.ID))
	}
	// Items that earlier builds stored under such IDs can still be read, replaced, and deleted.
	if op.Kind != Replace && strings.ContainsAny(id.Str(), "/\\?#") {
		return Errorf(400, 0, "The id of an item cannot contain '/', '\\', '?' or '#': %s. Use another id.",
			strconv.Quote(id.Str()))
	}
	op.ID = id.Str()
	own := c.Definition.keyOf(v)
	if *key == nil {
		*key = own
	}
	if !own.Equal(*key) {
		return Errorf(400, SubKeyMismatch, "PartitionKey extracted from document doesn't match the one specified in the "+
			"header. The document has %v, the header %v.", own, *key)
	}
	if err := checkKey(own); err != nil {
		return refused(err)
	}
	op.Body = v.JSON()
	return nil
}

// await waits for the result, which arrives before the coordinator's deadline.
func (e *Engine) await(done command.OutcomeChannel) command.Outcome {
	o, err := sched.Await(e.opts.Sched, context.Background(), done, 0)
	if err != nil {
		return command.Failed(err)
	}
	return o
}

// staleTime limits the time for retries of a request whose container changes concurrently.
const staleTime = 2 * time.Second

// decide sends a request to the leader of its logical partition.
func (e *Engine) decide(ctx context.Context, c *Container, key epk.Key, q *request, o RequestOptions) (*answer, Where,
	error) {
	keyBytes := epk.AppendKey(make([]byte, 0, keyRoom), key)
	at := c.table.Token(keyBytes)
	s := e.opts.Sched
	began := s.Now()
	for {
		q.table, q.revision, q.now = c.table.ID, c.table.Revision, e.opts.Clock.Wall().Unix()
		cond := &command.Conditional{
			Mutation: command.Mutation{Table: c.table.ID, Token: at, Key: keyBytes, SchemaVersion: c.table.Revision,
				Principal: o.Claimant},
			Serial: dberr.Serial, Now: q.now, Program: q.append(nil), MaxCharge: int64(o.MaxCharge),
		}
		done := make(command.OutcomeChannel, 1)
		e.opts.Coordinator.ConditionalWrite(ctx, cond, coordinator.WriteOptions{Level: dberr.Quorum, Type: "CAS"}, done)
		d := e.await(done)
		if errors.Is(d.Err, coordinator.ErrStaleSchema) && s.Since(began) < staleTime {
			if err := s.Sleep(ctx, schemaPause); err != nil {
				return nil, Where{}, refused(err) // the request was not executed
			}
			var err error
			if c, err = e.newest(c); err != nil {
				return nil, Where{}, err
			}
			at = c.table.Token(keyBytes)
			continue
		}
		where := Where{Range: e.rangeOf(c, at, keyBytes)}
		if d.Err != nil {
			return nil, where, refused(d.Err)
		}
		a, err := decodeAnswer(bytes.Clone(d.CAS.Result))
		if err != nil {
			return nil, where, refused(err)
		}
		if where.Charge = ru.Units(d.Charge); d.CAS.Applied {
			where.LSN = e.wrote(where.Range)
		} else {
			where.LSN = e.LSN(where.Range)
		}
		return &a, where, nil
	}
}

// results returns the outcome of the requested operations.
func (e *Engine) results(ctx context.Context, c *Container, key epk.Key, ops []Operation, a *answer, where Where,
	options *RequestOptions) (*Results, error) {
	if a.failed >= 0 && a.failed < len(a.of) {
		o := &a.of[a.failed]
		out := failedAt(len(ops), a.failed, Errorf(o.status, o.sub, "%s", o.message))
		out.Where = where
		for i := range a.of {
			out.Of[i].Charge = a.of[i].charge
		}
		if len(ops) == 1 {
			out.Of[0].Charge = where.Charge
		}
		out.Of[a.failed].Err.Charge = where.Charge
		return out, nil
	}
	if len(a.of) != len(ops) {
		return nil, refused(errMalformed)
	}
	out := &Results{Of: make([]Result, len(ops)), Failed: -1, Where: where}
	keyBytes := epk.AppendKey(nil, key)
	for i := range a.of {
		o := &a.of[i]
		r := &out.Of[i]
		if r.Status, r.Charge = o.status, o.charge; len(ops) == 1 {
			r.Charge = where.Charge
		}
		if !o.there {
			continue
		}
		if o.stored.body == nil {
			o.stored.body = bodySent(ops[:i+1])
		}
		r.Item = c.item(keyBytes, o.id, &o.stored)
		if o.stored.body == nil && (ops[i].Kind == Read || !options.NoBodies) {
			if err := e.fetch(ctx, c, key, r.Item, out, options); err != nil {
				return nil, unread(ops, err)
			}
		}
	}
	return out, nil
}

// bodySent returns the body that the last of several operations wrote. It returns nil if the request does not contain
// that body.
func bodySent(ops []Operation) []byte {
	last := &ops[len(ops)-1]
	for i := len(ops) - 1; i >= 0; i-- {
		switch op := &ops[i]; {
		case op.ID != last.ID || op.Kind == Read:
		case op.Kind == Patch || op.Kind == Delete:
			return nil
		default:
			return op.Body
		}
	}
	return nil
}

// unread returns the error for operations that were executed but whose results cannot be read. The error must not cause
// the client to repeat its changes.
func unread(ops []Operation, err error) error {
	if !slices.ContainsFunc(ops, func(op Operation) bool { return op.Kind != Read }) {
		return err
	}
	return Errorf(408, 0, "The operations were executed, but the items that they returned could not be read: %v", err)
}

// fetch reads the body of an item. The body is missing from the response because the request was repeated and the body
// is large. fetch returns an error if the item has changed since the request.
func (e *Engine) fetch(ctx context.Context, c *Container, key epk.Key, item *Item, out *Results,
	o *RequestOptions) error {
	// The operations have been executed and charged.
	until := e.opts.Sched.Now().Add(e.opts.ReadTimeout)
	r, where, err := e.Read(ctx, c, key, item.ID, "", *o)
	for err != nil && e.awaitBudget(ctx, err, until) {
		r, where, err = e.Read(ctx, c, key, item.ID, "", *o)
	}
	if err != nil {
		return err
	}
	if out.Charge += where.Charge; r.Item == nil || r.Item.Etag != item.Etag {
		return Errorf(503, 0, "Item %s has changed since it was read. Try again.", strconv.Quote(item.ID))
	}
	*item = *r.Item
	return nil
}

// DeleteKey deletes all items of a logical partition.
func (e *Engine) DeleteKey(ctx context.Context, c *Container, key epk.Key, o RequestOptions) (Where, error) {
	if bad := e.usable(c, key); bad != nil {
		return Where{}, bad
	}
	if c.Definition.Keep > 0 && c.table.Container.Feed {
		return e.deleteEach(ctx, c, key, o)
	}
	var b row.Builder
	b.Reset(row.Unstamped)
	now := e.opts.Clock.Wall().Unix()
	b.DeleteRow(now)
	keyBytes := epk.AppendKey(make([]byte, 0, keyRoom), key)
	at := c.table.Token(keyBytes)
	done := make(command.OutcomeChannel, 1)
	e.opts.Coordinator.ConditionalWrite(ctx, &command.Conditional{Now: now, MaxCharge: int64(o.MaxCharge),
		Mutation: command.Mutation{Table: c.table.ID, Token: at, Key: keyBytes, SchemaVersion: c.table.Revision,
			Principal: o.Claimant,
			Ops:       []command.Op{{Kind: command.OpHeader, Operand: b.Append(nil)}}}},
		coordinator.WriteOptions{Level: dberr.Quorum, Type: "SIMPLE"}, done)
	d := e.await(done)
	where := Where{Range: e.rangeOf(c, at, keyBytes)}
	if d.Err != nil {
		return where, refused(d.Err)
	}
	where.Charge, where.LSN = ru.Units(d.Charge), e.wrote(where.Range)
	return where, nil
}
