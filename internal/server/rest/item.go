// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
)

// itemHandler serves items.
type itemHandler struct {
	engine   records
	scripts  Scripts
	sessions sessions
}

// key parses the partition key header. It returns nil if the header is missing.
func (x *exchange) key(c *container.Container) (epk.Key, error) {
	text := x.header.Get(hPartitionKey)
	if text == "" || text == "[]" {
		return nil, nil
	}
	return c.ParseKey(text)
}

// wholeKey returns the partition key of a request that requires a partition key.
func (x *exchange) wholeKey(c *container.Container) (epk.Key, error) {
	key, err := x.key(c)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, badRequest("PartitionKey value must be supplied for this operation.")
	case len(key) < len(c.Definition.Paths):
		return nil, badRequest("The partition key is incomplete: an item operation requires a value for each path of the " +
			"container.")
	}
	return key, nil
}

// id returns the ID of the item in the path. The path contains the ID or the resource ID of the item.
func (h *itemHandler) id(ctx context.Context, x *exchange, c *container.Container, key epk.Key) (string, error) {
	if x.byRID {
		return h.engine.IDOf(ctx, c, key, x.target.id())
	}
	return x.target.id(), nil
}

func (h *itemHandler) read(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	key, err := x.wholeKey(c)
	if err != nil {
		return nil, err
	}
	h.sessions.accept(x)
	id, err := h.id(ctx, x, c, key)
	if err != nil {
		return nil, err
	}
	result, where, err := h.engine.Read(ctx, c, key, id, x.header.Get(hIfNoneMatch), x.asked())
	if err != nil {
		return nil, err
	}
	x.where(where)
	return x.result(result, false)
}

// asked returns the options of an item request.
func (x *exchange) asked() container.RequestOptions {
	return container.RequestOptions{NoBodies: minimal(x.header), Claimant: x.claimant()}
}

// result returns the response for an item operation.
func (o *output) result(r *container.Result, silent bool) (*answer, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	a := &answer{status: r.Status}
	if r.Item == nil {
		return a, nil
	}
	o.set(aETag, r.Item.Etag)
	if r.Status != http.StatusNotModified && !silent {
		o.text = r.Item.AppendResource(o.text[:0])
		a.body = o.text
	}
	return a, nil
}

// do executes an item operation and returns the response.
func (h *itemHandler) do(ctx context.Context, x *exchange, c *container.Container,
	op container.Operation) (*answer, error) {
	key, err := x.key(c)
	if err != nil {
		return nil, err
	}
	if !x.target.feed {
		if key, err = x.wholeKey(c); err == nil {
			op.ID, err = h.id(ctx, x, c, key)
		}
		if err != nil {
			return nil, err
		}
	}
	h.sessions.accept(x)
	op.Body = x.body
	op.IfMatch, op.IfNoneMatch = x.header.Get(hIfMatch), x.header.Get(hIfNoneMatch)
	if x.header.Get(hPreTriggers) != "" || x.header.Get(hPostTriggers) != "" {
		return h.doTriggered(ctx, x, c, key, &op)
	}
	results, err := h.engine.Do(ctx, c, key, []container.Operation{op}, x.asked())
	if err != nil {
		return nil, err
	}
	x.where(results.Where)
	x.set(aQuota, quotaText)
	x.set(aUsage, usageText)
	return x.result(&results.Of[0], minimal(x.header))
}

// does returns the handler for item operations of a kind.
func (h *itemHandler) does(
	kind container.Kind) func(context.Context, *exchange, *container.Container) (*answer, error) {
	return func(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
		return h.do(ctx, x, c, container.Operation{Kind: kind})
	}
}

// removeKey deletes all items of a partition key value.
func (h *itemHandler) removeKey(ctx context.Context, x *exchange, c *container.Container) (*answer, error) {
	key, err := x.wholeKey(c)
	if err != nil {
		return nil, err
	}
	where, err := h.engine.DeleteKey(ctx, c, key, x.asked())
	if err != nil {
		return nil, err
	}
	x.where(where)
	return &answer{status: http.StatusOK}, nil
}

// doTriggered executes an item operation with the triggers in the headers.
func (h *itemHandler) doTriggered(ctx context.Context, x *exchange, c *container.Container, key epk.Key,
	op *container.Operation) (*answer, error) {
	if key == nil {
		var err error
		if key, err = c.KeyOf(op.Body); err != nil {
			return nil, err
		}
	}
	done, where, err := h.scripts.Do(ctx, c, key, op, names(x.header.Get(hPreTriggers)),
		names(x.header.Get(hPostTriggers)), flag(x.header, hScriptLogging), x.asked())
	if err != nil {
		return nil, err
	}
	a := x.executed(where, done)
	a.status = done.Status
	if done.Etag != "" {
		x.set(aETag, done.Etag)
	}
	if minimal(x.header) {
		a.body = nil
	}
	return a, nil
}
