// SPDX-License-Identifier: Apache-2.0

// Package outline copies the schema of one CQL server to another: keyspaces, types, functions, aggregates and tables
// first, indexes and views when the tables are full.
//
// Guarantees: (OL1) what is there already and is the same is taken, what is there and is not the same is an error that
// says how it differs, and nothing that is there is changed; (OL2) what the target refuses is known, by name and
// reason, before the first row is copied: indexes and views are made on tables that are still empty, and dropped until
// the rows are there. It knows nothing of rows. Start at Read and Plan.
package outline
