// SPDX-License-Identifier: Apache-2.0

// Package groups runs the Raft groups of a whole cluster, without what partitions make of them, on package world: one
// thread, an event heap, a virtual clock, and everything that can go wrong drawn from a seed. One seed is one history,
// bit for bit, in any process.
//
// The nodes are the product's: raftgroup.Host, LogWriter, Applier and snapshots, on raftlog and a state machine on
// Pebble, on disks (vfs.NewCrashableMem) that lose in a crash what was not synced. Nothing of that is imitated here.
// Logs are cut all the time, so that snapshots are common, and members move.
//
// Clients write registers, add to counters, evaluate and propose under a term, and read under leases and read indexes.
// What one node cannot know is checked while it runs (laws.go): a term has one leader, nobody leads while another may
// read under its lease, all replicas apply the same, and a read sees the index that anybody had heard of when it began.
// At the end porcupine checks every key's history for linearizability, replicas at equal applied indexes must hold
// equal bytes, and a last read finds everything that was acknowledged.
//
// Start at Run, then node.go and chaos.go. A Plan may carry planted bugs (bugs.go): the simulator must find each.
package groups
