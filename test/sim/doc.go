// SPDX-License-Identifier: Apache-2.0

// Package sim runs a whole cluster in one thread: an event heap, a virtual clock, and everything that can go wrong
// drawn from a seed. One seed is one history, bit for bit, in any process.
//
// The nodes are the product's, from the coordinator down: coordinator, remote's client and server, partition.Host with
// all its replicas, raftgroup, raftlog and storage, on disks that lose in a crash what was not synced. So is what
// decides: the keeper of the records, peers, reconcilers, placement, admission and joining. control.go ties them
// together as package node does, and carrier.go carries requests instead of package transport. Nothing of the product
// is imitated. What is: the network, the time disks take, clocks that drift, jump and stand still, crashes, full and
// lost disks (package world); see RFC 0009.
//
// What waits in the middle of a call is a task: it has a goroutine for its stack, and runs only while the world waits
// for it. Product code waits through package sched, whose driver is world.Process.
//
// Clients write registers with the leaders' stamps and with their own, swap, add to counters, delete, truncate, write
// logged batches over partitions, scan, and read at QUORUM and, on their own node, at ONE. In the end porcupine checks
// every key, replicas at equal applied indexes must hold equal rows, the records must have one history, and a last read
// finds everything that was acknowledged. Where a plan asks for them, transactions of several rows are checked to be
// serializable (transactions.go). Package groups below runs the Raft groups alone, with another state machine, and
// looks closer at leases, fates and freshness.
//
// Start at Run, then control.go, client.go and chaos.go. A Scenario may carry planted bugs (bugs.go): the simulator
// must find each.
package sim
