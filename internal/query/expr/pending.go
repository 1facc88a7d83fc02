// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/parser"
)

type binder struct {
	env   *Env
	scope Scope
}

func (b *binder) bind(t parser.Term, r Receiver) (Term, error) { return nil, pending() }

func (b *binder) selector(t parser.Term, expected *cqltype.Type) (Term, error) { return nil, pending() }

func (b *binder) name(t parser.Term) string { return "" }

// Aggregate is an aggregate call of a selection.
type Aggregate struct{}

// New starts a group.
func (a *Aggregate) New() *Accumulator { return nil }

// Accumulator is the state of an aggregate over one group, over wire bytes.
type Accumulator struct{}

// Add takes in the row in b.Row.
func (a *Accumulator) Add(b *Bindings) error { return nil }

// Result is the value of the aggregate so far; nil is null.
func (a *Accumulator) Result() ([]byte, error) { return nil, nil }

// Reset starts the next group.
func (a *Accumulator) Reset() {}

// Text prints a term as Cassandra does in its messages.
func Text(t parser.Term) string { return "" }

// CompatibleWith reports whether values of type from can stand where values of type to are asked for, without conversion.
func CompatibleWith(to, from *cqltype.Type) bool { return false }
