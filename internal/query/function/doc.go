// SPDX-License-Identifier: Apache-2.0

// Package function runs the user-defined functions of a schema in all supported languages. It compiles function bodies,
// caches the compiled functions, and converts exceptions into client errors.
//
// Guarantees:
//
//   - (FN1) As long as a function is in use, its body is compiled only once for each version of the function.
//   - (FN2) A call returns a value of the declared type or an error, regardless of the statements in the body.
//
// The package does not depend on statements. Package expr finds and calls functions. Start reading at Functions.
package function
