// SPDX-License-Identifier: Apache-2.0

// Package java runs user-defined functions written in Java. It parses a body, checks the types like Java's compiler,
// and compiles the body into closures. The closures are called with wire values.
//
// Guarantees:
//
//   - (J1) Numbers behave in the same way as in Java. int and long wrap around, a division by zero throws an exception,
//     shifts use the low bits, and conversions from floating point saturate.
//   - (J2) Every call terminates. The numbers of steps and allocated bytes are limited. These limits do not depend on
//     time, so a call has the same result on every node.
//   - (J3) A body can access only its arguments. statictype.go lists the available classes. A body cannot use
//     reflection, threads, or a clock, and cannot keep state between calls.
//   - (J4) An unsupported feature is rejected at compile time. The error contains the name of the feature.
//
// The package does not depend on statements, schemas, or other languages. Start reading at Compile and Program.Call.
package java
