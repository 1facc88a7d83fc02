// SPDX-License-Identifier: Apache-2.0

// Package groups runs the Raft groups of a whole cluster in one goroutine, without what partitions make of them: an
// event heap, a virtual clock, and everything that can go wrong drawn from a seed. One seed is one history, bit for
// bit, in any process.
//
// The nodes are the product's: raftgroup.Host, LogWriter, Applier and snapshots, on raftlog and a state machine on
// Pebble, on disks (vfs.NewCrashableMem) that lose in a crash what was not synced. Nothing of that is imitated here.
// What is: the network (delays, drops, cuts, pauses), the time disks take, clocks that drift, crashes, full disks,
// changes of leaders and members. Logs are cut all the time, so that snapshots are common.
//
// Clients write registers, add to counters, evaluate and propose under a term, and read under leases and read indexes.
// At the end porcupine checks every key's history for linearizability, replicas at equal applied indexes must hold
// equal bytes, and a last read finds everything that was acknowledged.
//
// Start at Run, then node.go and chaos.go. A Plan may carry planted bugs (bugs.go): the simulator must find each.
package groups
