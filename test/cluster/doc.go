// SPDX-License-Identifier: Apache-2.0

// Package cluster starts clusters of real processes on loopback addresses and injects faults. It checks every result
// that clients receive during the faults.
//
// By default, the package runs a few short tests. The flag -cluster.long runs all tests. Flags such as -requests,
// -rows, and -faults make the tests longer. Each test has a separate cluster with separate addresses (127.x.y.1 and
// above), so tests and test binaries can run in parallel. ILION_BIN names a binary to test instead of a binary built
// from the source.
//
// fleet_test.go controls the processes. load_test.go contains the load and its models, and registers_test.go contains
// the checks with porcupine. The file for each fault has the fault's name.
package cluster
