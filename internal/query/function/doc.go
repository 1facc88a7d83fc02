// SPDX-License-Identifier: Apache-2.0

// Package function runs the user-defined functions of a schema, whatever language they are written in: it compiles
// their bodies, keeps what it has compiled, and tells clients what a body has thrown.
//
// Guarantees: (FN1) a body is compiled once for each version of its function, as long as it is in use; (FN2) whatever a
// body does, its caller gets a value of the type that was declared, or an error of the function.
//
// It refuses to know statements: package expr finds functions and calls them. Start at Functions.
package function
