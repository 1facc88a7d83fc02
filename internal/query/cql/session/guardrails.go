// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// guardrails returns the guardrails for the client, or nil if no guardrail applies. Superusers are exempt.
func (i *identity) guardrails() *guardrail.Guards {
	if who, _ := i.subject(); who != nil && who.Superuser {
		return nil
	}
	return i.engine.opts.Guards
}

// failGuardrail ends a call that violates a guardrail.
func (c *Call) failGuardrail(g *guardrail.Check, err error) Status {
	c.Result.Warnings = append(c.Result.Warnings, g.Warnings...)
	return c.Result.Fail(err)
}

// checkSelectGuardrails checks a SELECT without its values. read.Plan.Execute checks the values.
func checkSelectGuardrails(g *guardrail.Check, st *statement, r *Request) error {
	if st.computed {
		return nil
	}
	if err := g.ReadLevel(r.Consistency); err != nil {
		return err
	}
	s := st.parsed.(*parser.Select)
	if s.AllowFiltering {
		if err := g.Filtering(); err != nil {
			return err
		}
	}
	if len(s.GroupBy) > 0 {
		return g.GroupBy()
	}
	return nil
}

// checkGuardrails checks a modification without its values. write.Executor checks the values.
func (m *modification) checkGuardrails() error {
	g := m.request.Guard
	if !g.On() {
		return nil
	}
	r := &m.call.Request
	if err := g.WriteLevels(r.Consistency, r.Serial, m.kind == KindConditional); err != nil {
		return err
	}
	if m.st == nil {
		return nil // method items checks each statement of a batch message
	}
	return checkTimestampGuardrails(g, m.st.parsed)
}

// checkTimestampGuardrails checks the USING TIMESTAMP clause of a modification. Like Cassandra, it ignores the
// timestamp of a batch.
func checkTimestampGuardrails(g *guardrail.Check, s parser.Statement) error {
	var using parser.Using
	switch s := s.(type) {
	case *parser.Insert:
		using = s.Using
	case *parser.Update:
		using = s.Using
	case *parser.Delete:
		using = s.Using
	case *parser.Batch:
		for _, one := range s.Statements {
			if err := checkTimestampGuardrails(g, one); err != nil {
				return err
			}
		}
	}
	if using.Timestamp == nil {
		return nil
	}
	return g.UserTimestamp()
}
