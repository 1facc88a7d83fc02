// SPDX-License-Identifier: Apache-2.0

// Package java runs the bodies of user-defined functions that are written in Java: those that people have. It parses a
// body, checks its types as Java's compiler does, and makes closures of it, which are called with wire values.
//
// Guarantees: (J1) numbers are Java's: int and long wrap around, division by zero throws, shifts take the low bits,
// conversions from floating point saturate; (J2) a call ends: it takes a bounded number of steps and allocates a
// bounded number of bytes, counted and not timed, so that it ends alike on every node; (J3) a body reaches nothing
// but its arguments: there are the classes of the table in class.go and no others, no reflection, no threads, no
// clocks, and nothing is left between calls; (J4) what is not supported is refused by name when it is compiled.
//
// It refuses to know statements, schemas and other languages. Start at Compile and Program.Call.
package java
