// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
)

// display returns the text of a statement for storage and display: in the audit log, in traces, in the list of prepared
// statements, and in the node's log. Every statement text that leaves this package is the result of display.
//
// The result contains no password. If a table has masked columns, it contains no constants. parsed is nil if the text
// could not be parsed or bound. In this case, the result contains no constants, because they may belong to a table with
// masked columns.
//
// The slow-query log and the list of sessions show less, because their readers may not be permitted to see data. See
// slowlog.Redact.
func display(text string, parsed parser.Statement, tables []*schema.Table) string {
	switch {
	case parsed == nil:
		return parser.WithoutConstants(withoutPassword(text))
	case roles.Handles(parsed):
		return withoutPassword(text)
	case slices.ContainsFunc(tables, hasMasks):
		return parser.WithoutConstants(text)
	}
	return text
}

func hasMasks(t *schema.Table) bool {
	for c := range t.Columns() {
		if c.Mask != nil {
			return true
		}
	}
	return false
}

// withoutPassword truncates a text at its password. If the quotes are wrong, the rest of the text may belong to the
// password.
func withoutPassword(text string) string {
	const word = "password"
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return text[:i+len(word)] + " *******"
		}
	}
	return text
}
