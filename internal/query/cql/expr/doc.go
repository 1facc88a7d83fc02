// SPDX-License-Identifier: Apache-2.0

// Package expr implements typed expressions for all statements. It binds the terms of the parser to types and evaluates
// the bound terms. The terms include constants, markers, collections, functions, arithmetic, casts, and columns. Type
// checking and error texts follow Cassandra.
//
// Guarantees:
//
//   - (X1) A bound Term is immutable and safe for concurrent evaluation. Bindings holds the state of an execution.
//   - (X2) A value that Eval returns is valid for the Term's type. Sets and maps from a client are sorted.
//   - (X3) A constant is evaluated only once, during binding.
//
// The package does not depend on statements, access paths, storage, or the protocol. Start reading at Term and Bind.
// Selectors start at BindSelector, and aggregates are in aggregate.go.
package expr
