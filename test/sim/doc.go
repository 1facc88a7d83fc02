// SPDX-License-Identifier: Apache-2.0

// Package sim runs a whole cluster in one thread: an event heap, a virtual clock, and everything that can go wrong drawn from a seed. One
// seed is one history, bit for bit, in any process.
//
// The nodes are the product's: partition.Host with all its replicas, and under it raftgroup.Host, LogWriter, Applier and snapshots, on
// raftlog and storage, on disks (vfs.NewCrashableMem) that lose in a crash what was not synced. The map is the product's, too: records of
// the meta partition, computed by control/meta, control/placement and control/reconcile. Nothing of that is imitated here. What is: the
// network (delays, drops, cuts, pauses), the time disks take, clocks that drift, crashes, full and lost disks, changes of leaders and
// members, and the loops around the pure parts of the coordinator, of the keeper of the records and of the reconcilers.
//
// What waits in the middle of a call is a task: it has a goroutine for its stack, and runs only while the world waits for it
// (partition.Cluster.Drive, task.go).
//
// Clients write registers with the leaders' stamps and with their own, swap, add to counters, delete, truncate, and read at QUORUM and, on
// their own node, at ONE. In the end porcupine checks every key, replicas at equal applied indexes must hold equal rows, the records must
// have one history, and a last read finds everything that was acknowledged. Package groups below runs the Raft groups alone, with
// another state machine, and looks closer at leases, fates and freshness.
//
// Start at Run, then task.go, node.go and chaos.go. A Plan may carry planted bugs (bugs.go): the simulator must find each.
package sim
