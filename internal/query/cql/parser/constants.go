// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"regexp"
	"strings"
)

// constant matches a constant, a comment, or a quoted name in a statement. Constants are texts, UUIDs, numbers, blobs,
// durations, and booleans. An unterminated text or comment extends to the end of the statement. The pattern matches
// comments and names because a quote in a comment or a name does not start a text.
var constant = regexp.MustCompile(`(?s)'(?:[^']|'')*'?|\$\$.*?(?:\$\$|$)|` +
	`\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\bP[0-9T][0-9a-zA-Z:.-]*|\b[0-9][0-9a-zA-Z.]*|` +
	`\b(?i:true|false|nan|infinity)\b|` + comment + `|"(?:[^"]|"")*"?`)

const comment = `/\*.*?(?:\*/|$)|(?:--|//)[^\n]*`

// WithoutConstants replaces every constant in a statement with a question mark and every comment with a space. The
// statement may be invalid or incomplete.
func WithoutConstants(s string) string {
	return constant.ReplaceAllStringFunc(s, func(found string) string {
		switch {
		case found[0] == '"' && len(found) > 1 && strings.HasSuffix(found, `"`):
			return found
		case strings.HasPrefix(found, "/*"), strings.HasPrefix(found, "--"), strings.HasPrefix(found, "//"):
			return " "
		}
		return "?"
	})
}
