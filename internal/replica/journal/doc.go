// SPDX-License-Identifier: Apache-2.0

// Package journal keeps what the replicas of a node have applied a short time ago, in memory, for an archive to fetch:
// what came between two marks of it.
//
//	machine ── Add, Add, Reached ──► blocks, oldest first, shared by all partitions ──► Each (by an archive)
//
// Guarantees: (JO1) Each passes on all commands that changed rows in the interval that was asked for, in order, or says
// that they are gone: a hole is never passed over; (JO2) it takes no more memory than its bound, the oldest goes first,
// and none at all while nobody asks: it begins with Ask and ends IdleMax after the last one. All replicas keep what
// they apply, not only leaders, so a new leader has what the old one had. Nothing here survives the process.
package journal
