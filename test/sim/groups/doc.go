// SPDX-License-Identifier: Apache-2.0

// Package groups simulates the Raft groups of a whole cluster with package simenv, but without partitions. The
// simulator has one thread, an event heap, and a virtual clock. It draws every fault from a seed. A seed always
// produces exactly the same history, in every process.
//
// The nodes run the product's raftgroup.Host, LogWriter, Applier, and snapshots, with raftlog and a state machine on
// Pebble. Their disks (vfs.NewCrashableMem) lose unsynced data in a crash. No part of the product is reimplemented.
// Logs are truncated continuously, so snapshots are common. Members move.
//
// Clients write registers, add to counters, and evaluate and propose within a term. They read under leases and with
// read indexes. Global invariants are checked during the run (invariants.go). A term has one leader. A node leads only
// if no other node can still read under its lease. All replicas apply the same entries. A read reflects every index
// that was known when the read began. At the end, porcupine checks the linearizability of every key's history.
// Replicas with equal applied indexes must hold equal bytes, and a final read must find all acknowledged data.
//
// Start reading at Run, and continue with node.go and chaos.go. A Plan may contain planted bugs (bugs.go); the
// simulator must find each of them.
package groups
