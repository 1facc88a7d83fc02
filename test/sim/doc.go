// SPDX-License-Identifier: Apache-2.0

// Package sim simulates a whole cluster in one thread, with an event heap and a virtual clock. It draws every fault
// from a seed. A seed always produces exactly the same history, in every process.
//
// The nodes run the product's coordinator, the client and server of package remote, partition.Host with all its
// replicas, raftgroup, raftlog, and storage. Their disks lose unsynced data in a crash. The control plane is also
// product code: the metadata keeper, peers, reconcilers, placement, admission, and joining. control.go assembles them
// as package node does, and faketransport.go transports requests instead of package transport. No part of the product
// is reimplemented. Package simenv simulates the network, disk latency, clocks, crashes, and full and lost disks; see
// RFC 0009.
//
// Code that waits in the middle of a call runs as a task. A task has a goroutine for its stack, and the goroutine runs
// only while the event loop waits for it. Product code waits through package sched, whose driver is simenv.Process.
//
// Clients write and swap registers, add to counters, delete, truncate, scan, and write logged batches across
// partitions. Timestamps come from leaders or from clients. Clients read at QUORUM, and at ONE from their own node. At
// the end, porcupine checks every key. Replicas with equal applied indexes must hold equal rows, and all nodes must
// agree on the metadata history. A final read must find all acknowledged data. If a scenario enables transactions of
// several rows, the checks verify that they are serializable (transactions.go). Package groups runs Raft groups with
// another state machine and checks leases, outcomes, and freshness in more detail.
//
// Start reading at Run, and continue with control.go, client.go, and chaos.go. A Scenario may contain planted bugs
// (bugs.go); the simulator must find each of them.
package sim
