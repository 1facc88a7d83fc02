// SPDX-License-Identifier: Apache-2.0

package container

import (
	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Kind is the kind of an operation.
type Kind uint8

// These are the kinds of operations on items.
const (
	Create Kind = iota + 1
	Upsert
	Replace
	Delete
	Patch
	Read
)

// These are limits of requests.
const (
	// ItemBytesMax is the maximum size of an item's body. OperationsMax is the maximum number of operations in a
	// batch.
	ItemBytesMax  = document.SizeMax
	OperationsMax = 100
	// IDBytesMax is the maximum length of an item's ID in UTF-8 bytes.
	IDBytesMax = 1023
)

// Operation is an operation on one item.
type Operation struct {
	Kind Kind
	// ID identifies the item. Create and Upsert ignore ID and use the ID in the body. Replace uses the ID in the body
	// if ID is empty.
	ID string
	// Body is the JSON of an item or a patch. A patch is {"operations":[..],"condition":".."} or a bare array.
	Body []byte
	// IfMatch and IfNoneMatch are quoted etags as in HTTP headers, or *. If both are empty, the operation is
	// unconditional.
	IfMatch, IfNoneMatch string
}

// RequestOptions contains the options that are common to all requests.
type RequestOptions struct {
	// MaxCharge is the maximum charge of the request. If it is 0, the charge is not limited. A request that would
	// exceed MaxCharge is not executed.
	MaxCharge ru.Units
	// Claimant identifies the client when the throughput limit of a partition is enforced.
	Claimant fairshare.Principal
	// NoBodies reports whether the client does not need the bodies of written items.
	NoBodies bool
}

// Item is a stored item.
type Item struct {
	ID string
	// RID is the resource ID, which is 16 bytes in base64. Etag is quoted. TS is in seconds since the epoch.
	RID, Etag string
	TS        int64
	// Body is the JSON that the client sent, byte for byte, without system properties.
	Body []byte
	// Container is the item's container.
	Container *Container
}

// Self returns the link to the item by resource IDs.
func (i *Item) Self() string { return i.Container.Self() + "docs/" + i.RID + "/" }

// Resource returns the item's JSON and appends the system properties _rid, _self, _etag, _attachments, and _ts.
func (i *Item) Resource() []byte { return i.AppendResource(make([]byte, 0, len(i.Body)+256)) }

// AppendResource appends the item's JSON in the form that Resource returns.
func (i *Item) AppendResource(dst []byte) []byte { return i.appendResource(dst, 0) }

// appendResource works like AppendResource and adds the stamp as _lsn if it is not 0.
func (i *Item) appendResource(dst []byte, stamp int64) []byte {
	s := i.System()
	s.LSN = stamp
	return document.AppendItem(dst, i.Body, &s)
}

// System returns the item's system properties.
func (i *Item) System() document.System {
	return document.System{RID: i.RID, Self: i.Self(), ETag: i.Etag, Timestamp: i.TS}
}

// item returns the client view of a stored item.
func (c *Container) item(key []byte, id string, s *stored) *Item {
	return &Item{ID: id, RID: encodeRID(appendItemRID(nil, c.rid, key, id)), Etag: s.quoted(), TS: s.ts, Body: s.body,
		Container: c}
}

// stored contains the cells of an item.
type stored struct {
	body []byte
	etag uuid.UUID
	ts   int64 // in seconds
}

// quoted returns the etag in quotes, as in HTTP headers.
func (s *stored) quoted() string { return `"` + s.etag.String() + `"` }

// Result is the outcome of one operation.
type Result struct {
	// Status is 200, 201, 204, 304, or the status of Err.
	Status int
	// Item is the item after the operation. Item is nil after a Delete, with status 304, and after an error. After a
	// write with NoBodies, Item.Body may be nil.
	Item *Item
	// Err is the reason for a failure. It has status 424 if another operation of the batch failed.
	Err    *Error
	Charge ru.Units
}

// Results is the outcome of a transaction.
type Results struct {
	// Of contains one result per operation. Failed is the index of the first failed operation, which rolled back the
	// batch. If no operation failed, Failed is -1.
	Of     []Result
	Failed int
	Where
}

// Where contains the metadata that every response contains.
type Where struct {
	// Charge is the total charge of the request.
	Charge ru.Units
	// Range is the ID of the physical partition that executed the request. LSN increases by one with each write through
	// this node. It is never less than a number passed to Engine.Seen.
	Range string
	LSN   int64
}
