// SPDX-License-Identifier: Apache-2.0

// Package script runs JavaScript beside the data: stored procedures, triggers and user-defined functions, with the
// object model that Cosmos DB has on its servers (getContext, the collection, request, response, __).
//
// Guarantees: (S1) a script changes nothing but by its Items, and what it throws, or leaves unhandled, is the error of
// the whole transaction; (S2) a script ends within its bounds of time, memory, depth, operations, log and result, or is
// given up on: the one who called it goes on in any case, and the place it held stays taken until it has ended; (S3) no
// script leaves anything to the next: built-ins are frozen, and every run has a global object of its own.
//
// It knows nothing of partitions or requests: what a script may reach is the interface Items. How the bounds are kept
// is RFC 0023. Start at Engine.Procedure, then run.go; compile.go is what is refused before anything runs.
package script
