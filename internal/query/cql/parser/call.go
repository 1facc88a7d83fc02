// SPDX-License-Identifier: Apache-2.0

package parser

// Call is the statement CALL [[keyspace.]container.]procedure(term, ..) [WITH LOG]. It runs a stored procedure of a
// container. If the name contains one dot, the first part is the keyspace. CALL is not part of Cassandra's CQL. CALL
// and LOG are not keywords.
type Call struct {
	// If the statement does not specify a keyspace or container, Keyspace or Container is empty.
	Keyspace, Container, Procedure Ident
	Args                           []Term
	// Log reports whether the statement requests the procedure's log output.
	Log bool
}

func (*Call) statement() {}

// isCall reports whether the current token begins a CALL.
func (p *parser) isCall() bool { return p.isWord("call") }

// callStatement parses CALL.
func (p *parser) callStatement() Statement {
	p.advance()
	names := make([]Ident, 1, 3)
	for names[0] = p.name(); len(names) < cap(names) && p.accept(tDot); {
		names = append(names, p.name())
	}
	s := &Call{Procedure: names[len(names)-1]}
	if len(names) > 1 {
		s.Keyspace = names[0]
	}
	if len(names) > 2 {
		s.Container = names[1]
	}
	p.expect(tOpen)
	s.Args = p.terms(false, tClose)
	if p.accept(kwWith) {
		p.expectWord("log")
		s.Log = true
	}
	return s
}

// String returns the statement as CQL text that parses to an equal tree.
func (s *Call) String() string {
	return printed(func(p *printer) {
		p.put("CALL ")
		for _, id := range []Ident{s.Keyspace, s.Container} {
			if id.Name != "" {
				p.ident(id)
				p.put(".")
			}
		}
		p.ident(s.Procedure)
		p.put("(")
		p.terms(s.Args)
		p.put(")")
		p.when(s.Log, " WITH LOG")
	})
}
