// SPDX-License-Identifier: Apache-2.0

// Package groups simulates the Raft groups of a whole cluster with package simenv, without the partitions on top of
// them. The simulator has one thread, an event heap, and a virtual clock. It draws every fault from a seed. A seed
// always produces exactly the same history, in every process.
//
// The nodes run the product: raftgroup.Host, LogWriter, Applier, and snapshots, on raftlog and a state machine on
// Pebble. Their disks (vfs.NewCrashableMem) lose unsynced data in a crash. No part of the product is reimplemented.
// Logs are truncated continuously, so snapshots are common, and members move.
//
// Clients write registers, add to counters, evaluate and propose within a term, and read under leases and with read
// indexes. Global invariants are checked during the run (invariants.go). A term has one leader. A node leads only if no
// other node can still read under its lease. All replicas apply the same entries. A read reflects every index that was
// known when the read began. At the end, porcupine checks the linearizability of every key's history, replicas with
// equal applied indexes must hold equal bytes, and a final read must find everything that was acknowledged.
//
// Start reading at Run, then node.go and chaos.go. A Plan may contain planted bugs (bugs.go); the simulator must find
// each of them.
package groups
