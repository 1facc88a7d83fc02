// SPDX-License-Identifier: Apache-2.0

// Package peers exchanges the volatile state of nodes: which nodes are alive, their clocks, and their metadata
// versions. Nodes also send their requests to join through it.
//
//	Run ── every second ──► "report" ──► Report of the other node: clock, metadata version, disk, load
//	AwaitAgreement ───────► "await"  ──► response when the other node has a version of the metadata
//	Join ─────────────────► "join"   ──► ID of the new node's replica of the meta partition
//
// Guarantees:
//
//   - (PE1) A node counts as down after it announces its end, after its address refuses connections, or after an
//     election timeout of silence, until it responds again. This avoids waits for the node, which may still be running.
//   - (PE2) No function waits for a node longer than the timeout of the call.
//   - (PE3) Wall is not above, and EarliestNow is below, the clocks of a quorum of nodes, with a tolerance of one second,
//     regardless of the node's own clock. A node that has not heard from a quorum counts as skewed.
//
// The package makes no decisions and stores nothing on disk. Start reading at Peers.
package peers
