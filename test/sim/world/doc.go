// SPDX-License-Identifier: Apache-2.0

// Package world is what simulated nodes stand on: an event heap with a virtual clock, machines with clocks, disks and
// processes, and the network between them. One thread runs all of it, everything that can go wrong is drawn from one
// seed, and one seed is one history.
//
// A Machine has a wall clock that may jump, a monotone one that stands still while it is suspended, and a boot clock
// that does not. Its disk is a vfs.NewCrashableMem that forgets in a crash what was not synced; directories on it may
// be lost or rolled back. Its processes run as tasks (task.go): each is a goroutine that keeps its stack and runs only
// while the world waits for it. Machine.Process is the sched.Driver of one process, so product code that waits through
// package sched runs here unchanged. Loop runs the steps of one raftgroup.Host.
//
// The world knows nothing of rows, clients or the map: packages sim (all of the product) and groups (Raft groups alone)
// build on it.
package world
