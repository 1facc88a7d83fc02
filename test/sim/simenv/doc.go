// SPDX-License-Identifier: Apache-2.0

// Package simenv is the environment of simulated nodes. The package has an event heap with a virtual clock, machines
// with clocks, disks, and processes, and the network between them. The environment runs in one thread and draws every
// fault from one seed. A seed always produces the same history.
//
// A Machine has three clocks: a wall clock that may jump, a monotonic clock that stops during a suspension, and a boot
// clock that never stops. The disk of a machine is a vfs.NewCrashableMem, which loses unsynced data in a crash. The
// directories on the disk may be lost or rolled back. The processes of a machine run as tasks (task.go). A task is a
// goroutine that keeps its stack and runs only while the event loop waits for it. Machine.Process is the sched.Driver
// of one process, so product code that waits through package sched runs unchanged. Loop runs the steps of a
// raftgroup.Host.
//
// The environment does not depend on rows, clients, or topology. Package sim simulates the whole product, and package
// groups simulates Raft groups alone. Both packages use simenv.
package simenv
