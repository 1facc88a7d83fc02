// SPDX-License-Identifier: Apache-2.0

// Package reconcile carries out what the map of the cluster wants, one small step at a time, each of which may be
// repeated.
//
//	Local    every node: replicas on its disk       = its members in the map
//	Members  the leader of a partition: Raft's configuration = the members in the map; then the map is told what is
//	Splitter the leader of a partition: splits it where the map has that ordered; then the map is told
//	Placer   the leader of the meta partition: what the map wants, by control/placement
//	Balance  the leader of a partition: leadership where the map prefers it
//	Loops    Members, Placer and Balance of one node
//
// Guarantees: (RC1) a step that was carried out may be carried out again; (RC2) a replica is removed only when the map
// has no such member any more; (RC3) nothing here is remembered: after a crash the same loops go on from what is;
// (RC4) what came of a split, or has split, is never born by the map: logs and snapshots bring it. The package decides
// nothing about where replicas are to be (that is control/placement) and nothing about how they move (that is
// raftgroup). Start at Next.
package reconcile
