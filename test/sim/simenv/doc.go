// SPDX-License-Identifier: Apache-2.0

// Package simenv is the environment of simulated nodes. The package has an event heap with a virtual clock, machines
// with clocks, disks, and processes, and the network between them. The environment runs in one thread and draws every
// fault from one seed. A seed always produces the same history.
//
// A Machine has a wall clock that may jump, a monotonic clock that stops while the machine is suspended, and a boot
// clock that does not stop. Its disk is a vfs.NewCrashableMem, which loses unsynced data in a crash; directories on it
// may be lost or rolled back. Its processes run as tasks (task.go). A task is a goroutine that keeps its stack and
// runs only while the event loop waits for it. Machine.Process is the sched.Driver of one process, so product code
// that waits through package sched runs unchanged. Loop runs the steps of a raftgroup.Host.
//
// The environment knows no rows, clients, or topology. Packages sim (the whole product) and groups (Raft groups alone)
// build on it.
package simenv
