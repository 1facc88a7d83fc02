// SPDX-License-Identifier: Apache-2.0

package parser

import "regexp"

// constant is a constant in a statement: text, identifiers of 128 bits, numbers and blobs. One that does not end goes
// to the end of the text.
var constant = regexp.MustCompile(`(?s)'(?:[^']|'')*'?|\$\$.*?(?:\$\$|$)|` +
	`\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\b[0-9][0-9a-zA-Z.]*`)

// WithoutConstants puts a question mark for every constant of a text, which need not be a statement, nor a whole one.
func WithoutConstants(s string) string { return constant.ReplaceAllString(s, "?") }
