// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/share"
)

// Kind is what an operation does.
type Kind uint8

// The kinds of operations on items.
const (
	Create Kind = iota + 1
	Upsert
	Replace
	Delete
	Patch
	Read
)

// The bounds of requests.
const (
	// ItemBytesMax is how large the body of an item may be; OperationsMax how many operations a batch may have, and
	// PatchMax how many a patch.
	ItemBytesMax  = 2 << 20
	OperationsMax = 100
	PatchMax      = 10
	// IDBytesMax is how long the id of an item may be, in bytes of UTF-8.
	IDBytesMax = 1023
)

// Operation is one operation on one item.
type Operation struct {
	Kind Kind
	// ID names the item. Create and Upsert take it from the body; it may be empty there.
	ID string
	// Body is the JSON of the item, or of a patch: {"operations":[..],"condition":".."} or a bare array.
	Body []byte
	// IfMatch and IfNoneMatch are etags as headers have them, with quotes, or *; empty for no condition.
	IfMatch, IfNoneMatch string
}

// RequestOptions are what requests have in common.
type RequestOptions struct {
	// MaxCharge, if not 0, is what a request may cost: if it would cost more nothing is done.
	MaxCharge ru.Units
	// Claimant is who asks, where what the partition may take is bounded.
	Claimant share.Claimant
	// TTLOff reads what has expired, too; for tests.
	NoBodies bool // the bodies of what was written are of no interest to the client
}

// Item is an item as it is stored.
type Item struct {
	ID string
	// RID is the resource id, 16 bytes in base64, Etag has quotes, TS is in seconds since the epoch.
	RID, Etag string
	TS        int64
	// Body is the JSON exactly as it was sent, without system properties.
	Body []byte

	container *Container
}

// Resource is the item's JSON with its system properties appended: _rid, _self, _etag, _attachments, _ts.
func (i *Item) Resource() []byte { return i.AppendResource(nil) }

// AppendResource appends what Resource returns.
func (i *Item) AppendResource(dst []byte) []byte { return dst }

// Result is the outcome of one operation.
type Result struct {
	// Status is 200, 201, 204, 304, or that of Err.
	Status int
	// Item is the item as it is after the operation; nil after Delete, 304 and errors, and after a write with NoBodies
	// Item.Body may be nil.
	Item *Item
	// Err is why it was not done; 424 if another operation of the batch failed.
	Err    *Error
	Charge ru.Units
}

// Results is the outcome of a transaction.
type Results struct {
	// Of has one result for each operation. Failed is the first that failed, which undid all, -1 if none did.
	Of     []Result
	Failed int
	Where
}

// Where is what every answer says beside its result.
type Where struct {
	// Charge is what the request has cost in all.
	Charge ru.Units
	// Range is the id of the physical partition that answered; LSN grows by one with each write there through this
	// node, and is never below what Engine.Seen was told.
	Range string
	LSN   int64
}

// Do carries out operations on items of one logical partition, all or none. It returns an error only if it is not known
// which operation failed, or nothing could be tried: the container is gone, the key is not whole, the batch too large,
// 429, 503, 408. Failures of operations are in the results. A nil key is taken from the body of the first Create,
// Upsert or Replace.
func (e *Engine) Do(ctx context.Context, c *Container, key epk.Key, ops []Operation, o RequestOptions) (*Results, error) {
	return nil, nil
}

// Read reads an item by its id, or with ridded by its resource id. The status of the result is 200, 304 or 404.
func (e *Engine) Read(ctx context.Context, c *Container, key epk.Key, id, ifNoneMatch string, o RequestOptions) (*Result,
	Where, error) {
	return nil, Where{}, nil
}

// IDOf finds the id of an item by its resource id; 404 if there is none in the logical partition.
func (e *Engine) IDOf(ctx context.Context, c *Container, key epk.Key, rid string) (string, error) {
	return "", nil
}

// DeleteKey deletes all items of a logical partition.
func (e *Engine) DeleteKey(ctx context.Context, c *Container, key epk.Key, o RequestOptions) (Where, error) {
	return Where{}, nil
}

// ParseKey reads the partition key header: a JSON array. One that has fewer elements than the container has paths is a
// prefix; one with more is refused (400).
func (c *Container) ParseKey(header string) (epk.Key, error) { return nil, nil }

// KeyOf takes the partition key from the JSON of an item.
func (c *Container) KeyOf(body []byte) (epk.Key, error) { return nil, nil }
