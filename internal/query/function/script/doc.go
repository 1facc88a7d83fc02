// SPDX-License-Identifier: Apache-2.0

// Package script executes JavaScript on the leader of a partition: stored procedures, triggers and user-defined
// functions. It provides the server-side object model of Cosmos DB (getContext, the collection, request, response,
// __).
//
// Guarantees:
//
//   - (S1) A script changes data only through its Items. An exception or an unhandled rejection is an error of
//     the whole transaction.
//   - (S2) A script ends within its limits of time, memory, depth, operations, log and result, or it is
//     abandoned. The caller of an abandoned script continues, but its slot stays occupied until it ends.
//   - (S3) A script leaves no state to other scripts: built-ins are frozen, and every run has its own global
//     object.
//
// The package does not depend on partitions or requests: a script accesses items through the interface Items. RFC 0023
// describes how the limits are enforced. Start reading at Engine.Procedure, then run.go. compile.go lists the
// constructs that are rejected before execution.
package script
