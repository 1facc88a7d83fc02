// SPDX-License-Identifier: Apache-2.0

// Package parser converts CQL text (version 3.4.7, the grammars of Cassandra 4.0 to 5.0) into a syntax tree, and a
// syntax tree into text.
//
// Guarantees:
//
//   - (PS1) No input causes a panic, unbounded recursion, or a tree that is too deep for the stack. The text length,
//     the nesting depth, and the number of bind markers are limited.
//   - (PS2) The printed text of a tree parses to an equal tree.
//   - (PS3) Every error is a *dberr.Syntax, or a *dberr.Invalid if a limit is exceeded, in the format of Cassandra's
//     messages.
//
// The package does not depend on the schema. Names are not resolved, types are names with parameters, constants are
// texts with a kind, and values are not checked against columns.
//
// Start reading at Parse, then at ast.go. Each family of statements has a file for its tree (ast_*.go), its parser
// (parse_*.go), and its printer (print_*.go). lexer.go and keyword.go define the tokens.
package parser
