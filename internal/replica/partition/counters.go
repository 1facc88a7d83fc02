// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/usage"
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

// wrote charges and counts a write, and has it sampled.
func (r *Replica) wrote(who fairshare.Principal, k usage.Kind, u ru.Units, bytes int64, tok token.Token) {
	r.budget.Charge(who, u)
	r.weighed(bytes, int64(r.usage.Wrote(k, tok, u, bytes)), tok)
	r.sample(u, tok)
}

// hasRead charges and counts what a request has read; key is nil if it may have ended already, and tok nothing for a
// usage.Scan. With lent it is a follower that spends what it was lent.
func (r *Replica) hasRead(who fairshare.Principal, lent bool, k usage.Kind, u ru.Units, rows, bytes int64,
	tok token.Token,
	key []byte) {
	if lent {
		r.slice.Spend(u)
	} else {
		r.budget.Charge(who, u)
	}
	r.usage.Read(k, tok, key, u, rows, bytes)
	if k != usage.Scan {
		r.sample(u, tok)
	}
}

// kindOf is what a read is that has come to so many rows.
func kindOf(c *command.Read, rows int64) usage.Kind {
	switch {
	case c.Key == nil:
		return usage.Scan
	case rows > 1 || c.Continued:
		return usage.Slice
	}
	return usage.Point
}

// Counts returns the counters of the replica.
func (r *Replica) Counts() Counts {
	c := r.usage.Counts()
	n := c.Requests
	decided := n[usage.Condition] + n[usage.Update]
	return Counts{Reads: n[usage.Point] + n[usage.Slice] + n[usage.Scan] + decided,
		Writes: n[usage.Write] + n[usage.Applied], Conditions: decided,
		RowsRead: c.RowsRead, BytesRead: c.BytesRead, BytesWritten: c.BytesWritten,
		Units: c.Total(), Throttled: r.budget.Throttled()}
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

// horizon passes the horizon of the part of the command that is in s on.
func (m *meter) horizon(s *state, stamp int64) error {
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
	m.Entries(m.c, looked)
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
