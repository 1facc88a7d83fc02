// SPDX-License-Identifier: Apache-2.0

package parser

// Call is CALL [[keyspace.]container.]procedure(term, ..) [WITH LOG], but that a name with one dot is of a keyspace:
// it runs a stored procedure of a container. It is not of Cassandra's CQL. CALL and LOG are no keywords.
type Call struct {
	// Keyspace and Container are empty where they were not given.
	Keyspace, Container, Procedure Ident
	Args                           []Term
	// Log asks for what the procedure logs.
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

// String prints the statement as CQL that parses back to an equal tree.
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
