// SPDX-License-Identifier: Apache-2.0

// Package expr implements typed expressions over wire values for all statements. It binds the terms of the parser
// (constants, markers, collections, functions, arithmetic, casts, columns of a row) to types and evaluates them. Type
// checking and error texts follow Cassandra.
//
// Guarantees:
//
//   - (X1) A bound Term is immutable and safe for concurrent evaluation. The state of an execution is in
//     Bindings.
//   - (X2) A value that Eval returns is valid for the Term's type. A value from a client is also canonical, with
//     sorted sets and maps.
//   - (X3) A constant is evaluated once, when it is bound.
//
// The package does not depend on statements, access paths, storage or the protocol. Start reading at Term and Bind.
// Selectors start at BindSelector, and aggregates are in aggregate.go.
package expr
