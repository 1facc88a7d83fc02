// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// Explain is the EXPLAIN statement, which returns the price of a statement. Statement is a *Select, *Insert, *Update,
// *Delete, *Batch, *Transaction, or *Call. EXPLAIN is not part of Cassandra's CQL. The word is not a keyword, so it is
// a valid name in other statements.
type Explain struct{ Statement Statement }

func (*Explain) statement() {}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Explain) String() string { return "EXPLAIN " + s.Statement.String() }

// isExplain reports whether the current token begins an EXPLAIN.
func (p *parser) isExplain() bool { return p.is(tIdent) && strings.EqualFold(p.text(), "explain") }

// explain parses EXPLAIN.
func (p *parser) explain() Statement {
	p.advance()
	switch p.tok.kind {
	case kwSelect, kwInsert, kwUpdate, kwDelete, kwBegin:
		return &Explain{Statement: p.statement()}
	}
	if p.isCall() {
		return &Explain{Statement: p.callStatement()}
	}
	p.fail()
	return nil
}
