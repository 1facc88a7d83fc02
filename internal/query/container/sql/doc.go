// SPDX-License-Identifier: Apache-2.0

// Package sql implements the query language of Azure Cosmos DB for NoSQL.
//
// It parses a query to a syntax tree, prints a tree, binds a tree to its parameters, and evaluates the bound Query
// over items.
//
// Guarantees:
//
//   - (QS1) No text causes a panic, unbounded recursion, or an evaluation that ignores its context.
//   - (QS2) The printed form of a tree is a valid query, and parsing it yields a tree with the same printed form.
//   - (QS3) The merged results of several Collectors over parts of the items equal the results of one Collector over
//     all items.
//   - (QS4) The memory for items is limited. If the limit is reached, the query fails with an error that suggests a
//     solution.
//   - (QS5) A continuation resumes where its page ended. Items that have not changed since then are neither skipped
//     nor repeated. This does not apply to ORDER BY RANK, because changes of other items change the scores.
//
// The package does not depend on the storage of items. A Source yields the items with their places, which are compared
// as bytes.
//
// Start reading at Compile, then Query.Run. Query.Keys and Query.Filter describe the items that a Source must yield,
// and Plan implements the query plan endpoint. The tree is defined in ast.go, its semantics in bind.go and node.go,
// and the functions in functions*.go.
package sql
