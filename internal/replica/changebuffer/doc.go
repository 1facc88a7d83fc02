// SPDX-License-Identifier: Apache-2.0

// Package changebuffer keeps the entries that the replicas of a node have recently applied, in memory. An archiver
// fetches the entries between two restore points for point-in-time recovery.
//
//	machine ── Add, Add, EndEntry ──► blocks, oldest first, shared by all partitions ──► Each (by an archiver)
//
// Guarantees:
//
//   - (JO1) Each passes on all commands that changed rows in the requested interval, in order, or returns ErrGone. It
//     never skips missing commands.
//   - (JO2) The buffer never exceeds its memory limit and drops the oldest commands first. It uses no memory unless it
//     is active: KeepAlive activates it, and it is deactivated IdleMax after the last call.
//
// Every replica buffers the entries that it applies, even if the replica is not the leader. A new leader therefore has
// the same commands as the old leader. The buffer does not survive a restart of the process.
package changebuffer
