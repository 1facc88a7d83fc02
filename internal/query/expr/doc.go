// SPDX-License-Identifier: Apache-2.0

// Package expr is the floor that every statement stands on: typed expressions over wire bytes. It binds the terms of
// the parser (constants, markers, collections, functions, arithmetic, casts, columns of a row) to types, with
// Cassandra's rules for what fits what and its texts for what does not, and evaluates them.
//
// Guarantees: (X1) a bound Term is immutable and may be evaluated by many goroutines at once; what changes from
// execution to execution is in Bindings; (X2) a value that Eval returns is valid for the Term's type and, if it came
// from the client, canonical: sets and maps in order; (X3) what is constant is evaluated once, when it is bound.
//
// It refuses to know statements, tables' access paths, storage and the protocol. Start at Term and Bind; read's
// selectors start at BindSelector; aggregates are in aggregate.go.
package expr
