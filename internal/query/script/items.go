// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Kind is what an operation does to an item.
type Kind uint8

// The kinds of operations.
const (
	Create Kind = iota + 1
	Read
	Replace
	Upsert
	Delete
)

// Operation is one operation on one item.
type Operation struct {
	Kind Kind
	// ID names the item, or RID does, its resource id: one of them for all but Create and Upsert, which have neither.
	ID, RID string
	// Body is the JSON of the item without system members. It stays as it is.
	Body []byte
	// IfMatch and IfNoneMatch are etags; empty for no condition.
	IfMatch, IfNoneMatch string
}

// Query is one page of a query or, without a text, of all items.
type Query struct {
	Text       string
	Parameters []Parameter
	// Continuation is that of the page before; PageSize bounds the page if it is positive.
	Continuation string
	PageSize     int
}

// Parameter is a parameter of a query.
type Parameter struct {
	Name  string // with its @
	Value []byte // JSON
}

// Page is what a query returns.
type Page struct {
	// Documents are JSON texts; Continuation asks for the next page, empty if there is none.
	Documents    [][]byte
	Continuation string
}

// Item is an item as it is after an operation. It is used as Items are.
type Item interface {
	// JSON is the item without system members. It stays as it is.
	JSON() []byte
	// System are its system members. It is asked once a script looks at one of them.
	System() document.System
}

// Items are the items of one logical partition within a transaction, which sees its own writes. It is used by one
// goroutine at a time, and never after the call of the Engine that it was given to has returned.
type Items interface {
	// Do carries out an operation and returns the item as it is then; nil after a Delete and where Read finds that
	// IfNoneMatch holds.
	Do(ctx context.Context, op *Operation) (item Item, failure *Failure)
	// Query runs a page of a query.
	Query(ctx context.Context, q *Query) (*Page, *Failure)
	// Accepts reports whether another operation fits what a transaction may take.
	Accepts() bool
}

// Failure is why an operation, or a whole script, failed.
type Failure struct {
	// Status is one of HTTP, SubStatus of Cosmos DB or 0.
	Status, SubStatus int
	Message           string
	// Fatal says that the transaction is at its end: the script is not told but ended.
	Fatal bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// refused makes a failure of a bad request.
func refused(format string, args ...any) *Failure {
	return &Failure{Status: 400, Message: fmt.Sprintf(format, args...)}
}
