// SPDX-License-Identifier: Apache-2.0

// Package sql is the query language of containers, which is that of Azure Cosmos DB for NoSQL: text to a tree and back,
// a tree to a Query bound to its parameters, and a Query over items, wherever those come from.
//
// Guarantees: (QS1) no text makes it panic, recurse without bound or run without looking at its context; (QS2) what it
// prints parses back to a tree that prints the same; (QS3) results that several Collectors have of parts of the items,
// merged, equal those of one Collector of all of them, whatever the parts; (QS4) what it keeps of items is bounded, and
// reaching the bound is an error that says what to do; (QS5) a continuation goes on where its page has ended: items
// that did not change in between are neither left out nor repeated.
//
// It refuses to know where items are stored: a Source yields them with their places, which it compares as bytes.
//
// Start at Compile, then Query.Run; Query.Keys and Query.Conditions say how few items a Source has to yield, and Plan
// what clients ask the plan endpoint. The tree is in ast.go, what it means in bind.go and node.go, the functions in
// functions*.go.
package sql
