// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
)

// key parses the partition key header. It returns nil if the header is missing.
func (x *exchange) key(c *container.Container) (epk.Key, error) {
	text := x.header.Get(hPartitionKey)
	if text == "" || text == "[]" {
		return nil, nil
	}
	return c.ParseKey(text)
}

// wholeKey returns the partition key of a request that requires one.
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

// partition returns the container of the path and the complete partition key of the headers.
func (x *exchange) partition() (*container.Container, epk.Key, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, nil, err
	}
	key, err := x.wholeKey(c)
	return c, key, err
}

// itemID returns the ID of the item in the path, which contains the ID or the resource ID.
func (x *exchange) itemID(ctx context.Context, c *container.Container, key epk.Key) (string, error) {
	if x.byRID {
		return x.server.engine.IDOf(ctx, c, key, x.target.id())
	}
	return x.target.id(), nil
}

func (x *exchange) readItem(ctx context.Context) (*answer, error) {
	c, key, err := x.partition()
	if err != nil {
		return nil, err
	}
	x.session()
	id, err := x.itemID(ctx, c, key)
	if err != nil {
		return nil, err
	}
	result, where, err := x.server.engine.Read(ctx, c, key, id, x.header.Get(hIfNoneMatch), x.asked())
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
func (x *exchange) result(r *container.Result, silent bool) (*answer, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	a := &answer{status: r.Status}
	if r.Item == nil {
		return a, nil
	}
	x.set(aETag, r.Item.Etag)
	if r.Status != http.StatusNotModified && !silent {
		x.text = r.Item.AppendResource(x.text[:0])
		a.body = x.text
	}
	return a, nil
}

// doOne executes an item operation and returns the response.
func (x *exchange) doOne(ctx context.Context, op container.Operation) (*answer, error) {
	c, err := x.container(true)
	if err != nil {
		return nil, err
	}
	key, err := x.key(c)
	if err != nil {
		return nil, err
	}
	if !x.target.feed {
		if key, err = x.wholeKey(c); err == nil {
			op.ID, err = x.itemID(ctx, c, key)
		}
		if err != nil {
			return nil, err
		}
	}
	x.session()
	op.Body = x.body
	op.IfMatch, op.IfNoneMatch = x.header.Get(hIfMatch), x.header.Get(hIfNoneMatch)
	if x.header.Get(hPreTriggers) != "" || x.header.Get(hPostTriggers) != "" {
		return x.doTriggered(ctx, c, key, &op)
	}
	results, err := x.server.engine.Do(ctx, c, key, []container.Operation{op}, x.asked())
	if err != nil {
		return nil, err
	}
	x.where(results.Where)
	x.set(aQuota, quotaText)
	x.set(aUsage, usageText)
	return x.result(&results.Of[0], minimal(x.header))
}

func (x *exchange) createItem(ctx context.Context) (*answer, error) {
	return x.doOne(ctx, container.Operation{Kind: container.Create})
}

func (x *exchange) upsertItem(ctx context.Context) (*answer, error) {
	return x.doOne(ctx, container.Operation{Kind: container.Upsert})
}

func (x *exchange) replaceItem(ctx context.Context) (*answer, error) {
	return x.doOne(ctx, container.Operation{Kind: container.Replace})
}

func (x *exchange) patchItem(ctx context.Context) (*answer, error) {
	return x.doOne(ctx, container.Operation{Kind: container.Patch})
}

func (x *exchange) deleteItem(ctx context.Context) (*answer, error) {
	return x.doOne(ctx, container.Operation{Kind: container.Delete})
}

// deleteByKey deletes all items of a partition key value.
func (x *exchange) deleteByKey(ctx context.Context) (*answer, error) {
	c, key, err := x.partition()
	if err != nil {
		return nil, err
	}
	where, err := x.server.engine.DeleteKey(ctx, c, key, x.asked())
	if err != nil {
		return nil, err
	}
	x.where(where)
	return &answer{status: http.StatusOK}, nil
}
