// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/parser"
	"github.com/ilion-db/ilion/internal/query/roles"
)

// display returns the text of a statement as it is stored or shown: in the audit log, in traces, among prepared
// statements, in the node's log. Every text that leaves this package comes from here. It has no password, and no
// constant where a table has masked columns. parsed is nil for a text that could not be parsed or bound; then nothing
// is known of its constants, and it is shown without them.
//
// The slow log and the list of sessions show less, as their readers need not be allowed to see data: see slow.Shown.
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

// withoutPassword ends a text at its password: all that follows may be a part of it if there is a mistake in the
// quotes.
func withoutPassword(text string) string {
	const word = "password"
	for i := 0; i+len(word) <= len(text); i++ {
		if strings.EqualFold(text[i:i+len(word)], word) {
			return text[:i+len(word)] + " *******"
		}
	}
	return text
}
