// SPDX-License-Identifier: Apache-2.0

// Package peers is what nodes say to each other about themselves: who lives, how late it is there, which version of the cluster's
// records they have, and who wants to join.
//
//	Run ── every second ──► "report" ──► Report of the other node: clock, records, disk, load
//	Agree ────────────────► "await"  ──► answered when the other node has a version of the records
//	Join ─────────────────► "join"   ──► the cluster's id of the new node's replica of the meta partition
//
// Guarantees: (E1) a node counts as down from the proof that its process is gone, or after an election timeout of silence, until
// it answers again; (E2) nothing here waits for a node longer than Options says. The package decides nothing and keeps nothing on
// disk. Start at Peers.
package peers
