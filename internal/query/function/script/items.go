// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Kind is the kind of an operation on an item.
type Kind uint8

// These are the kinds of operations.
const (
	Create Kind = iota + 1
	Read
	Replace
	Upsert
	Delete
)

// Operation is an operation on one item.
type Operation struct {
	Kind Kind
	// Either ID or the resource ID RID identifies the item. For Create and Upsert, both are empty.
	ID, RID string
	// Body is the JSON of the item without system members. The implementation of Items must not modify Body.
	Body []byte
	// IfMatch and IfNoneMatch are etags. If the operation has no condition, both are empty.
	IfMatch, IfNoneMatch string
}

// Query requests one page of a query. If Text is empty, Query requests all items.
type Query struct {
	Text       string
	Parameters []Parameter
	// Continuation is the continuation of the previous page. If PageSize is positive, it is the maximum number of items
	// on the page.
	Continuation string
	PageSize     int
}

// Parameter is a query parameter.
type Parameter struct {
	Name  string // name, including the @
	Value []byte // JSON
}

// Page is a page of query results.
type Page struct {
	// Documents holds JSON texts. Continuation is the continuation for the next page. On the last page, Continuation is
	// empty.
	Documents    [][]byte
	Continuation string
}

// Item is an item after an operation. The rules for the use of Items also apply to Item.
type Item interface {
	// JSON returns the item without system members. The caller must not modify the result.
	JSON() []byte
	// System returns the system members. The engine calls System on the first access to a system member.
	System() document.System
}

// Items provides access to the items of one logical partition in a transaction. Reads return the transaction's own
// writes. The engine uses Items on only one goroutine at a time. It does not use Items after the Engine method that
// received Items has returned.
type Items interface {
	// Do executes an operation and returns the resulting item. For a Delete, and for a Read whose IfNoneMatch matches,
	// Do returns nil.
	Do(ctx context.Context, op *Operation) (item Item, failure *Failure)
	// Query executes one page of a query.
	Query(ctx context.Context, q *Query) (*Page, *Failure)
	// Accepts reports whether another operation is within the limits of a transaction.
	Accepts() bool
}

// Failure is the error of an operation or a script.
type Failure struct {
	// Status is an HTTP status. SubStatus is a Cosmos DB sub-status or 0.
	Status, SubStatus int
	Message           string
	// Fatal reports whether the transaction has ended. If Fatal is true, the engine ends the script, and the script
	// cannot handle the failure.
	Fatal bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// refused returns the failure for a bad request.
func refused(format string, args ...any) *Failure {
	return &Failure{Status: 400, Message: fmt.Sprintf(format, args...)}
}
