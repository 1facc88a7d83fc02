// SPDX-License-Identifier: Apache-2.0

// Package script executes JavaScript stored procedures, triggers, and user-defined functions on the leader of a
// partition. It provides the server-side object model of Cosmos DB (getContext, the collection, request, response, and
// __).
//
// Guarantees:
//
//   - (S1) A script changes data only through its Items. An exception or an unhandled rejection is an error of the
//     whole transaction.
//   - (S2) A script that exceeds its limits of time, memory, depth, operations, log, or result is stopped or abandoned.
//     The caller of an abandoned script continues, but the script occupies its slot until it ends.
//   - (S3) A script cannot access the state of other scripts. Built-ins are frozen, and every run has a separate global
//     object.
//
// The package does not depend on partitions or requests. A script accesses items through the interface Items. RFC 0023
// describes how the limits are enforced. Start reading at Engine.Procedure and continue with run.go. compile.go lists
// the constructs that are rejected before execution.
package script
