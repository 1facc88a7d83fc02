// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ddl

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// op is a statement that a client sent, and the statement's result.
type op struct {
	text     string
	from, to time.Time // zero if the statement received no response
	// answer is the error or the change that the statement returned. open is set if the outcome of the statement is
	// unknown.
	answer string
	open   bool
}

func (o *op) String() string { return fmt.Sprintf("%s => %s", o.text, o.answer) }

// memory is a ddl.Store that applies each change immediately.
type memory struct{ catalog *catalog.Catalog }

// Apply implements ddl.Store.
func (m memory) Apply(_ context.Context, c schema.Change, _ string) (*schema.Schema, []schema.Event, error) {
	s, events, err := schema.Apply(m.catalog.Snapshot(), c)
	if err == nil {
		m.catalog.Publish(s, events...)
	}
	return s, events, err
}

func newFixture(s *schema.Schema) (*catalog.Catalog, *ddl.Executor) {
	info := catalog.NodeInfo{Endpoint: catalog.Endpoint{Listen: netip.MustParseAddrPort("127.0.0.1:7000"),
		Datacenter: "datacenter1"}}
	c := catalog.NewForRelease(compat.Cassandra50, s, func() catalog.NodeInfo { return info })
	return c, ddl.New(c, memory{c}, ddl.Options{Release: compat.Cassandra50,
		UUID: func() schema.UUID { return schema.UUID(uuid.New()) }})
}

// step executes a statement on a schema and returns the next schema and the result.
func step(t *testing.T, s *schema.Schema, text string) (*schema.Schema, string) {
	t.Helper()
	c, e := newFixture(s)
	stmt, _, err := parser.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r, err := e.Execute(t.Context(), stmt, "", ddl.Actor{}, nil)
	switch {
	case err != nil:
		return s, err.Error()
	case r.Change == nil:
		return c.Snapshot(), "nothing"
	}
	return c.Snapshot(), fmt.Sprint(*r.Change)
}

// describe returns the text of a schema.
func describe(t *testing.T, s *schema.Schema, text string) string {
	t.Helper()
	_, e := newFixture(s)
	stmt, _, err := parser.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := e.Describe(stmt.(*parser.Describe), "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, row := range rows.Rows {
		b.Write(row[len(row)-1])
		b.WriteByte('\n')
	}
	return b.String()
}

// drawn matches values that are random or read from the clock. Such values differ in every run.
var drawn = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f-]{27}|USING TIMESTAMP \d+`)

// changed reports whether the statement changed the schema according to its result.
func (o *op) changed() bool { return strings.HasPrefix(o.answer, "{") }

// search searches for an order of the statements that explains every result and the final schema.
type search struct {
	t    *testing.T
	ops  []*op
	want string // the final DESCRIBE SCHEMA
	seen map[string]bool
	best int // maximum number of statements that an order has explained
	last []string
}

// serial fails the test unless a serial order explains the results. In this order, no statement may precede a
// statement that had ended before it started. Pairs of statements that changed nothing are exempt. A later statement
// may miss a concurrent change that the earlier statement has seen.
func serial(t *testing.T, ops []*op, want string) {
	t.Helper()
	s := &search{t: t, ops: ops, want: want, seen: map[string]bool{}}
	if s.from(make([]bool, len(ops)), 0, catalog.WithSystemOf(compat.Cassandra50, schema.New())) {
		return
	}
	began := ops[0].from
	for _, o := range ops {
		t.Logf("%8.3f-%8.3f %v", o.from.Sub(began).Seconds(), o.to.Sub(began).Seconds(), o)
	}
	t.Errorf("no order of the statements explains all results and the final schema; %d of %d can be "+
		"explained, then one of\n%s\nfinal schema\n%s",
		s.best, len(ops), strings.Join(s.last, "\n"), want)
}

func (s *search) from(done []bool, n int, now *schema.Schema) bool {
	done = slices.Clone(done)
	var wrong []string
	for again := true; again; { // place statements that change nothing at the first position that fits
		again, wrong = false, nil
		for i, o := range s.ops {
			if done[i] || o.changed() || o.open || !s.may(done, i) {
				continue
			}
			if _, answer := step(s.t, now, o.text); answer != o.answer {
				wrong = append(wrong, fmt.Sprintf("%v (should be %s)", o, answer))
				continue
			}
			done[i], again = true, true
			n++
		}
	}
	key := state(done) + drawn.ReplaceAllString(describe(s.t, now, "DESCRIBE SCHEMA WITH INTERNALS"), "")
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	if n >= s.best {
		s.best, s.last = n, wrong
	}
	left := false
	for i, o := range s.ops {
		left = left || !done[i] && !o.open
		if done[i] || !o.changed() && !o.open || !s.may(done, i) {
			continue
		}
		after, answer := step(s.t, now, o.text)
		switch {
		case o.open && after == now:
			continue
		case !o.open && answer != o.answer:
			if n == s.best {
				s.last = append(s.last, fmt.Sprintf("%v (should be %s)", o, answer))
			}
			continue
		}
		done[i] = true
		if s.from(done, n+1, after) {
			return true
		}
		done[i] = false
	}
	return !left && describe(s.t, now, "DESCRIBE SCHEMA") == s.want
}

// may reports whether a statement may be next. All statements that must precede statement i must be done.
func (s *search) may(done []bool, i int) bool {
	for j, o := range s.ops {
		if !done[j] && j != i && !o.open && o.to.Before(s.ops[i].from) &&
			(o.changed() || s.ops[i].changed() || s.ops[i].open) {
			return false
		}
	}
	return true
}

func state(done []bool) string {
	b := make([]byte, len(done))
	for i, d := range done {
		b[i] = '0'
		if d {
			b[i] = '1'
		}
	}
	return string(b)
}
