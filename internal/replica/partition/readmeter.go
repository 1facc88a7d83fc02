// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// readMeter is a visitor that counts rows and drops rows outside of a span.
type readMeter struct {
	ru.Meter
	v command.Visitor
	c *command.Read
	// passed is set when the visitor has received data.
	passed bool
	// sub is the part of the command that the replica holds. span is set if an end of this part is between two keys
	// with the same token.
	sub  command.Read
	span *topology.Span
}

func (m *readMeter) begin(v command.Visitor, c *command.Read) { *m = readMeter{v: v, c: c} }

// narrow sets sub to the part of the command in the span of s. It returns false if this part is empty.
func (m *readMeter) narrow(s *state) bool {
	r, ok := m.c.Range.Intersect(s.span.Tokens())
	m.sub = *m.c
	m.sub.Range = r
	m.c = &m.sub
	if len(s.span.Begin.Key) > 0 || len(s.span.Limit.Key) > 0 {
		m.span = &s.span
	}
	return ok
}

// horizon passes the horizon of the command's part in the span of s to the visitor.
func (m *readMeter) horizon(s *state, stamp int64) error {
	tok, key := m.c.Token, m.c.Key
	if key == nil {
		tok, key = token.AtPosition(m.c.Range.Begin), []byte{}
		if b := &s.span.Begin; b.Ring == m.c.Range.Begin && len(b.Key) > 0 {
			key = b.Key
		}
	}
	step, err := m.Partition(tok, key, nil)
	if err != nil || step != command.More {
		return err
	}
	_, err = m.Row(binary.BigEndian.AppendUint64(nil, uint64(max(stamp, 0))), &row.Row{})
	return err
}

func (m *readMeter) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if m.span != nil && !m.span.Contains(t, key) {
		return command.NextPartition, nil
	}
	m.passed = true
	m.Meter.Partition(m.c, key, static)
	return m.v.Partition(t, key, static)
}

// Passed implements command.ProgressVisitor.
func (m *readMeter) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	m.Entries(m.c, looked)
	if m.span != nil && !m.span.Contains(t, key) {
		return command.More, nil
	}
	step, err := command.Passed(m.v, t, key, looked)
	if step == command.Stop {
		m.passed = true // empty results must also be confirmed
	}
	return step, err
}

func (m *readMeter) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m.Meter.Row(clustering, r)
	return m.v.Row(clustering, r)
}

// kindOf returns the usage kind of a read that has returned the given number of rows.
func kindOf(c *command.Read, rows int64) usage.Kind {
	switch {
	case c.Key == nil:
		return usage.Scan
	case rows > 1 || c.Continued:
		return usage.Slice
	}
	return usage.Point
}
