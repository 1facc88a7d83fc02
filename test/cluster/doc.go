// SPDX-License-Identifier: Apache-2.0

// Package cluster starts clusters of real processes on loopback addresses, breaks them, and checks every answer that
// clients get meanwhile.
//
// Its tests are few and short by default: -cluster.long runs all, -requests, -rows, -faults and the like make them
// longer. Each test has a cluster of its own at addresses of its own (127.x.y.1 and up), so that tests and whole test
// binaries run beside each other; ILION_BIN names a binary that is to be tested instead of one built from the source.
//
// fleet_test.go controls the processes, load_test.go is the load and its models, registers_test.go what porcupine
// checks. The faults are in the files that are named after them.
package cluster
