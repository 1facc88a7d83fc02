// SPDX-License-Identifier: Apache-2.0

// Package sim simulates a whole cluster in one thread, with an event heap and a virtual clock. It draws every fault
// from a seed. A seed always produces exactly the same history, in every process.
//
// The nodes run the product from the coordinator down: coordinator, the client and server of package remote,
// partition.Host with all its replicas, raftgroup, raftlog, and storage. Their disks lose unsynced data in a crash.
// The control plane is also product code: the metadata keeper, peers, reconcilers, placement, admission, and joining.
// control.go assembles them as package node does, and faketransport.go transports requests instead of package
// transport. No part of the product is reimplemented. The simulator replaces the network, disk latency, clocks that
// drift, jump, and stop, crashes, and full and lost disks (package simenv); see RFC 0009.
//
// Code that waits in the middle of a call runs as a task. A task has a goroutine for its stack, and the goroutine runs
// only while the event loop waits for it. Product code waits through package sched, whose driver is simenv.Process.
//
// Clients write registers with the leaders' timestamps and with their own, swap, add to counters, delete, truncate,
// write logged batches across partitions, and scan. They read at QUORUM and, on their own node, at ONE. At the end,
// porcupine checks every key. Replicas with equal applied indexes must hold equal rows, all nodes must agree on the
// history of the metadata, and a final read must find everything that was acknowledged. If a scenario enables
// transactions of several rows, the checks verify that they are serializable (transactions.go). Package groups, in a
// subdirectory, runs Raft groups alone with another state machine, and checks leases, outcomes, and freshness in more
// detail.
//
// Start reading at Run, then control.go, client.go, and chaos.go. A Scenario may contain planted bugs (bugs.go); the
// simulator must find each of them.
package sim
