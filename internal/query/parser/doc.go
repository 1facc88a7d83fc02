// SPDX-License-Identifier: Apache-2.0

// Package parser turns CQL text (version 3.4.7: the grammars of Cassandra 4.0 to 5.0) into a syntax tree and a syntax
// tree back into text.
//
// Guarantees: (PS1) no input makes it panic, recurse without bound or build a tree deeper than the stack stands: text
// length, nesting and the number of bind markers are bounded; (PS2) what it prints parses back to an equal tree; (PS3)
// every refusal is a *dberr.Syntax (or *dberr.Invalid where a bound is hit) in the shape of Cassandra's own messages.
//
// It refuses to know the schema: names are not resolved, types are names with parameters, constants are text with a
// kind, values are not checked against columns. Syntax of newer versions that the database does not implement (masked
// columns, vectors, ANN ordering) is recognised, so that the planner can refuse it by name.
//
// Start at Parse, then ast.go; one file per family of statements holds the tree (ast_*.go), the parser (parse_*.go) and
// the printer (print_*.go); lexer.go and keyword.go are the words.
package parser
