// SPDX-License-Identifier: Apache-2.0

// Package changebuffer stores, in memory, the entries that the replicas of a node have recently applied. An archiver
// reads these entries for point-in-time recovery.
//
//	machine ── Add, Add, EndEntry ──► blocks, oldest first, shared by all partitions ──► Each (by an archiver)
//
// Guarantees:
//
//   - (JO1) Each returns ErrGone unless the buffer contains all commands in the requested interval that have changed
//     rows.
//   - (JO2) The buffer never exceeds its memory limit and drops the oldest commands first. It uses no memory unless it
//     is active. KeepAlive activates the buffer until IdleMax after the last call.
//
// Every replica, including followers, buffers the entries that it applies. A new leader therefore has the same commands
// as the previous leader. The buffer does not survive a restart of the process.
package changebuffer
