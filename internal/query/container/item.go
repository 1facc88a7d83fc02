// SPDX-License-Identifier: Apache-2.0

package container

import (
	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
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
	ItemBytesMax  = document.SizeMax
	OperationsMax = 100
	PatchMax      = document.PatchMax
	// IDBytesMax is how long the id of an item may be, in bytes of UTF-8.
	IDBytesMax = 1023
)

// Operation is one operation on one item.
type Operation struct {
	Kind Kind
	// ID names the item. Create and Upsert take it from the body, whatever is here; so does Replace where it is empty.
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
	Claimant fairshare.Principal
	// NoBodies says that the bodies of what was written are of no interest to the client.
	NoBodies bool
}

// Item is an item as it is stored.
type Item struct {
	ID string
	// RID is the resource id, 16 bytes in base64, Etag has quotes, TS is in seconds since the epoch.
	RID, Etag string
	TS        int64
	// Body is the JSON exactly as it was sent, without system properties.
	Body []byte
	// Container is what it is in.
	Container *Container
}

// Self is the link to the item by resource ids.
func (i *Item) Self() string { return i.Container.Self() + "docs/" + i.RID + "/" }

// Resource is the item's JSON with its system properties appended: _rid, _self, _etag, _attachments, _ts.
func (i *Item) Resource() []byte { return i.AppendResource(make([]byte, 0, len(i.Body)+256)) }

// AppendResource appends what Resource returns.
func (i *Item) AppendResource(dst []byte) []byte { return i.appendResource(dst, 0) }

// appendResource is AppendResource with a stamp as _lsn, if it is not 0.
func (i *Item) appendResource(dst []byte, stamp int64) []byte {
	s := i.System()
	s.LSN = stamp
	return document.AppendItem(dst, i.Body, &s)
}

// System is what the database knows about the item besides its body.
func (i *Item) System() document.System {
	return document.System{RID: i.RID, Self: i.Self(), ETag: i.Etag, Timestamp: i.TS}
}

// item is what is stored of a key and an id as clients see it.
func (c *Container) item(key []byte, id string, s *stored) *Item {
	return &Item{ID: id, RID: encodeRID(appendItemRID(nil, c.rid, key, id)), Etag: s.quoted(), TS: s.ts, Body: s.body,
		Container: c}
}

// stored is what the cells of an item hold.
type stored struct {
	body []byte
	etag uuid.UUID
	ts   int64 // in seconds
}

// quoted is the etag as headers have it.
func (s *stored) quoted() string { return `"` + s.etag.String() + `"` }

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
