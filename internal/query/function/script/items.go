// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Kind is the kind of an operation on an item.
type Kind uint8

// Kinds of operations.
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
	// Either ID or RID, the resource ID, identifies the item. Both are empty for Create and Upsert.
	ID, RID string
	// Body is the JSON of the item without system members. Body must not be modified.
	Body []byte
	// IfMatch and IfNoneMatch are etags. Both are empty if the operation has no condition.
	IfMatch, IfNoneMatch string
}

// Query requests one page of a query. If the text is empty, it requests all items.
type Query struct {
	Text       string
	Parameters []Parameter
	// Continuation is the continuation of the previous page. PageSize limits the page if it is positive.
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
	// Documents are JSON texts. Continuation requests the next page and is empty on the last page.
	Documents    [][]byte
	Continuation string
}

// Item is an item after an operation. The rules of Items apply to its use.
type Item interface {
	// JSON returns the item without system members. The result must not be modified.
	JSON() []byte
	// System returns the system members. The engine calls System when a script first accesses a system member.
	System() document.System
}

// Items gives access to the items of one logical partition in a transaction. Reads see the transaction's own writes.
// The engine uses Items on one goroutine at a time, and never after the Engine call that received them has returned.
type Items interface {
	// Do executes an operation and returns the resulting item. Do returns nil after a Delete and if IfNoneMatch
	// matches in a Read.
	Do(ctx context.Context, op *Operation) (item Item, failure *Failure)
	// Query executes one page of a query.
	Query(ctx context.Context, q *Query) (*Page, *Failure)
	// Accepts reports whether another operation is within the limits of a transaction.
	Accepts() bool
}

// Failure is the error from an operation or a whole script.
type Failure struct {
	// Status is an HTTP status. SubStatus is a Cosmos DB sub-status or 0.
	Status, SubStatus int
	Message           string
	// Fatal reports whether the transaction has ended. In this case, the engine ends the script, and the script cannot
	// handle the failure.
	Fatal bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// refused returns the failure for a bad request.
func refused(format string, args ...any) *Failure {
	return &Failure{Status: 400, Message: fmt.Sprintf(format, args...)}
}
