// SPDX-License-Identifier: Apache-2.0

// Package peers exchanges the volatile state of nodes, such as their clocks and metadata versions, and determines which
// nodes are alive. Nodes also use it to send join requests.
//
//	Run ── every second ──► "report" ──► Report of the other node: clock, metadata version, disk, load
//	AwaitAgreement ───────► "await"  ──► response when the other node has a version of the metadata
//	Join ─────────────────► "join"   ──► ID of the new node's replica of the meta partition
//
// Guarantees:
//
//   - (PE1) A node counts as down after it has announced its end, after its address has refused a connection, or after
//     an election timeout of silence, until it responds again.
//   - (PE2) No function waits for a node longer than the timeout of the call.
//   - (PE3) With a tolerance of one second, Wall is not ahead of the clocks of a quorum of nodes, and EarliestNow is
//     behind these clocks, regardless of the node's own clock. A node that has received no reports from a quorum counts
//     as skewed.
//
// The package stores no data on disk. Start reading at Peers.
package peers
