// SPDX-License-Identifier: Apache-2.0

// Package parser converts CQL text into a syntax tree and a syntax tree into CQL text. It supports CQL 3.4.7 and the
// grammars of Cassandra 4.0 to 5.0.
//
// Guarantees:
//
//   - (PS1) No input causes a panic, unbounded recursion, or a tree that is too deep for the stack. The text length,
//     the nesting depth, and the number of bind markers are limited.
//   - (PS2) The printed text of a tree parses to an equal tree.
//   - (PS3) Every error is a *dberr.Syntax, or a *dberr.Invalid if a limit is exceeded. Error messages have Cassandra's
//     format.
//
// The package does not depend on the schema. It does not resolve names or types, evaluate constants, or check values
// against columns.
//
// Start reading at Parse and continue with ast.go. Each family of statements has a file for its tree (ast_*.go), its
// parser (parse_*.go), and its printer (print_*.go). lexer.go and keyword.go define the tokens.
package parser
