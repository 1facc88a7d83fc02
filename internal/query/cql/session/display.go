// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
)

// display returns the statement text for the audit log, traces, the list of prepared statements, and the node's log.
// Other packages must receive only texts that display has returned.
//
// The result contains no password. If a table has masked columns, it contains no constants. If the text cannot be
// parsed or bound, parsed is nil. In this case, the result contains no constants, because the constants may belong to a
// table with masked columns.
//
// The slow-query log and the list of sessions use slowlog.Redact, because their readers may lack permission to see
// data.
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

// withoutPassword truncates a text at its password. If the text contains unbalanced quotes, all text after the
// password's start may belong to the password.
func withoutPassword(text string) string {
	const word = "password"
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return text[:i+len(word)] + " *******"
		}
	}
	return text
}
