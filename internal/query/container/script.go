// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/epk"
)

// ScriptKind is a kind of script that a container keeps.
type ScriptKind uint8

// The kinds of scripts.
const (
	StoredProcedure ScriptKind = iota + 1
	Trigger
	UserFunction
)

// Script is a stored procedure, a trigger or a user-defined function.
type Script struct {
	Kind ScriptKind
	// ID is its name, RID its resource id, Etag has quotes and changes with it.
	ID, RID, Etag string
	TS            int64
	// JSON is what it was made with, without system properties; Body the program text in it.
	JSON []byte
	Body string
}

// Scripts lists the scripts of a kind in order of their ids.
func (c *Container) Scripts(kind ScriptKind) []*Script { return nil }

// Script finds a script by its id or its resource id; 404 if there is none.
func (c *Container) Script(kind ScriptKind, id string) (*Script, error) { return nil, nil }

// CreateScript keeps a script with a container; 409 if there is one of its kind and id.
func (e *Engine) CreateScript(ctx context.Context, c *Container, kind ScriptKind, body []byte) (*Script, error) {
	return nil, nil
}

// ReplaceScript replaces a script; ifMatch as for ReplaceContainer.
func (e *Engine) ReplaceScript(ctx context.Context, c *Container, s *Script, body []byte, ifMatch string) (*Script,
	error) {
	return nil, nil
}

// DeleteScript removes a script.
func (e *Engine) DeleteScript(ctx context.Context, c *Container, s *Script) error { return nil }

// Runner runs what Engine.Run was asked to, at the leader of the logical partition: package script is one.
type Runner interface {
	// RunProgram may read and change items by t. If it returns an error nothing is done, and the error is the client's:
	// an *Error as it is. It ends soon after its context.
	RunProgram(ctx context.Context, t *Transaction, program []byte) (result []byte, err error)
}

// SetRunner says who runs programs; before that they are refused (503).
func (e *Engine) SetRunner(r Runner) {}

// Run sends a program of a Runner to the leader of a logical partition, where it is one transaction, and returns what
// it returned. Results are at most 256 KiB.
func (e *Engine) Run(ctx context.Context, c *Container, key epk.Key, program []byte, o RequestOptions) ([]byte, Where,
	error) {
	return nil, Where{}, nil
}

// Transaction is the items of one logical partition within a transaction, at its leader. Reads see what the transaction
// itself has written. Errors of single operations (404, 409, 412, 413, 400) leave the transaction as it was, and it may
// go on; others end it. It belongs to one goroutine, and ends with Runner.RunProgram.
type Transaction struct{}

// Container is the container of the transaction; Key its logical partition.
func (t *Transaction) Container() *Container { return nil }

// Key is the partition key of the transaction.
func (t *Transaction) Key() epk.Key { return nil }

// Do carries out one operation. The item of the result is as it is after the operation.
func (t *Transaction) Do(ctx context.Context, op *Operation) (*Item, *Error) { return nil, nil }

// Query runs a page of a query within the logical partition; the scope is left out of account. An empty text reads all
// items.
func (t *Transaction) Query(ctx context.Context, q *QueryRequest) (*Page, *Error) { return nil, nil }
