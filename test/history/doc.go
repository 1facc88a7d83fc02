// SPDX-License-Identifier: Apache-2.0

// Package history checks the requests and results of the clients of a store. It determines whether their transactions
// were strictly serializable, which means serializable in an order that respects time. If not, it determines the
// anomaly and whether snapshot isolation would have allowed the anomaly.
//
// The package uses Adya's dependency graph. The nodes of the graph are transactions. A transaction depends on another
// transaction if it overwrote or read a version that the other wrote. It also depends on the other if it overwrote a
// version that the other read, or started after the other had ended. Each version of an item is written once. The
// writer reports the version that it replaced, if that version is known. The order of versions is therefore not a
// guess, and a cycle proves an anomaly. Unknown dependencies are omitted. The omission can hide cycles but never
// creates a cycle.
//
// Start reading at Check.
package history
