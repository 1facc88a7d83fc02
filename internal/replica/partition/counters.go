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

// Counts holds the work done by a replica since it was opened. Bytes are logical (see package ru).
type Counts struct {
	Reads, Writes, Conditions uint64
	RowsRead                  uint64
	BytesRead, BytesWritten   uint64
	// Units is the total number of request units.
	Units ru.Units
	// Throttled counts the requests rejected because the partition had exceeded its throughput.
	Throttled uint64
}

// recordWrite charges, counts, and samples a write.
func (r *Replica) recordWrite(who fairshare.Principal, k usage.Kind, u ru.Units, bytes int64, tok token.Token) {
	r.budget.Charge(who, u)
	r.sampleWrite(bytes, int64(r.usage.RecordWrite(k, tok, u, bytes)), tok)
	r.sample(u, tok)
}

// recordRead charges and counts a read. key is nil if the request may have ended, and tok is ignored for a usage.Scan.
// With lent, the replica is a follower that spends borrowed units.
func (r *Replica) recordRead(who fairshare.Principal, lent bool, k usage.Kind, u ru.Units, rows, bytes int64,
	tok token.Token,
	key []byte) {
	if lent {
		r.slice.Spend(u)
	} else {
		r.budget.Charge(who, u)
	}
	r.usage.RecordRead(k, tok, key, u, rows, bytes)
	if k != usage.Scan {
		r.sample(u, tok)
	}
}

// kindOf returns the kind of a read that has returned the given number of rows.
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

// readMeter is a visitor that counts rows and suppresses rows outside of a span.
type readMeter struct {
	ru.Meter
	v command.Visitor
	c *command.Read
	// passed is set once anything has been passed on.
	passed bool
	// sub is the part of a range that the replica holds. span is set if the ends of that part are between keys of one
	// token.
	sub  command.Read
	span *topology.Span
}

func (m *readMeter) begin(v command.Visitor, c *command.Read) { *m = readMeter{v: v, c: c} }

// narrow sets sub to the part of the command in s. It reports whether there is any.
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

// horizon passes on the horizon of the part of the command in s.
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
		m.passed = true // an empty result must be confirmed as well
	}
	return step, err
}

func (m *readMeter) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m.Meter.Row(clustering, r)
	return m.v.Row(clustering, r)
}
