// SPDX-License-Identifier: Apache-2.0

// Package peers is what nodes say to each other about themselves: which of them live, how late it is there, which
// version of the cluster's records they have, and which nodes want to join.
//
//	Run ── every second ──► "report" ──► Report of the other node: clock, records, disk, load
//	Agree ────────────────► "await"  ──► answered when the other node has a version of the records
//	Join ─────────────────► "join"   ──► the cluster's id of the new node's replica of the meta partition
//
// Guarantees: (PE1) a node counts as down when it says that it ends, when its address refuses connections, or after an
// election timeout of silence, until it answers again: that spares waiting for it and proves nothing; (PE2) nothing
// here waits for a node longer than Options says; (PE3) Now is not above, and Past is below, what the clocks of a
// quorum of the nodes say, give or take a second, whatever the own clock does; a node that has heard no quorum yet
// counts as skewed. The package decides nothing and keeps nothing on disk. Start at Peers.
package peers
