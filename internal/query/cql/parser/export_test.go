// SPDX-License-Identifier: Apache-2.0

package parser

// TermString prints a term as CQL.
func TermString(t Term) string {
	var p printer
	p.term(t)
	return p.String()
}
