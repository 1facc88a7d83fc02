// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Counts is what a replica has done since it was opened. Bytes are logical (see package ru).
type Counts struct {
	Reads, Writes, Conditions uint64
	RowsRead                  uint64
	BytesRead, BytesWritten   uint64
	// Units are the request units of all of them.
	Units ru.Units
	// Throttled are the requests that were refused because the partition had spent what it may take.
	Throttled uint64
}

type counters struct {
	reads, writes, conditions atomic.Uint64
	rowsRead                  atomic.Uint64
	bytesRead, bytesWritten   atomic.Uint64
	units                     atomic.Int64
}

// wrote counts a write, and has it sampled.
func (r *Replica) wrote(u ru.Units, bytes int64, tok token.Token) {
	c := &r.count
	c.units.Add(int64(u))
	r.budget.Charge(u)
	r.weighed(bytes, int64(c.bytesWritten.Add(uint64(bytes))), tok)
	r.sample(c.writes.Add(1), tok)
}

// hasRead counts a read and returns how many there are.
func (r *Replica) hasRead(u ru.Units, rows, bytes int64) uint64 {
	r.budget.Charge(u)
	return r.count.read(u, rows, bytes)
}

func (c *counters) read(u ru.Units, rows, bytes int64) uint64 {
	if rows > 0 {
		c.rowsRead.Add(uint64(rows))
		c.bytesRead.Add(uint64(bytes))
	}
	c.units.Add(int64(u))
	return c.reads.Add(1)
}

// Counts returns the counters of the replica.
func (r *Replica) Counts() Counts {
	c := &r.count
	return Counts{Reads: c.reads.Load(), Writes: c.writes.Load(), Conditions: c.conditions.Load(),
		RowsRead: c.rowsRead.Load(), BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		Units: ru.Units(c.units.Load()), Throttled: r.budget.Throttled()}
}

// meter is a visitor that counts what passes it, and holds back what lies outside a span.
type meter struct {
	ru.Meter
	v command.Visitor
	c *command.Read
	// passed is set once something was passed on.
	passed bool
	// sub is the part of a range that the replica holds. span is set if its ends lie between keys of one token.
	sub  command.Read
	span *topology.Span
}

func (m *meter) begin(v command.Visitor, c *command.Read) { *m = meter{v: v, c: c} }

// narrow makes sub the part of the command that is in s; it reports whether there is any.
func (m *meter) narrow(s *state) bool {
	r, ok := m.c.Range.Intersect(s.span.Tokens())
	m.sub = *m.c
	m.sub.Range = r
	m.c = &m.sub
	if len(s.span.Begin.Key) > 0 || len(s.span.Limit.Key) > 0 {
		m.span = &s.span
	}
	return ok
}

func (m *meter) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if m.span != nil && !m.span.Contains(t, key) {
		return command.NextPartition, nil
	}
	m.passed = true
	m.Meter.Partition(m.c, key, static)
	return m.v.Partition(t, key, static)
}

// Passed implements command.Walker.
func (m *meter) Passed(t token.Token, key []byte, looked int) (command.Step, error) {
	if m.span != nil && !m.span.Contains(t, key) {
		return command.More, nil
	}
	step, err := command.Passed(m.v, t, key, looked)
	if step == command.Stop {
		m.passed = true // that nothing was found is an answer, which has to be confirmed
	}
	return step, err
}

func (m *meter) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m.Meter.Row(clustering, r)
	return m.v.Row(clustering, r)
}
