// SPDX-License-Identifier: Apache-2.0

// Package history checks the requests and results of a store's clients. It determines whether their transactions were
// serializable in the order of time. If not, it determines the anomaly and whether snapshot isolation would have
// allowed the anomaly.
//
// It uses Adya's dependency graph. The nodes of the graph are transactions. A transaction depends on another one in
// three cases: it overwrote or read a version that the other wrote, it overwrote a version that the other read, or it
// started after the other had ended. Each version of an item is written once, and its writer reports the version that
// it replaced, as far as that is known. The order of versions is therefore known instead of guessed, and a cycle is a
// proof. Unknown dependencies are omitted, which can hide cycles but never create one.
//
// Start reading at Check.
package history
