// SPDX-License-Identifier: Apache-2.0

// Package java runs user-defined functions written in Java. It parses a body, checks its types like Java's compiler,
// and compiles it into closures, which are called with wire values.
//
// Guarantees:
//
//   - (J1) Numbers behave as in Java: int and long wrap around, division by zero throws an exception, shifts use the
//     low bits, and conversions from floating point saturate.
//   - (J2) Every call terminates. The numbers of steps and allocated bytes are limited. Steps and bytes are counted, so
//     a call has the same result on every node.
//   - (J3) A body can access only its arguments. The only available classes are listed in statictype.go. A body cannot
//     use reflection, threads, or a clock, and it keeps no state between calls.
//   - (J4) An unsupported feature is rejected at compile time with an error that names it.
//
// The package does not depend on statements, schemas, or other languages. Start reading at Compile and Program.Call.
package java
