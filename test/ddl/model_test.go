// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// op is a statement that a client sent, and what came of it.
type op struct {
	text     string
	from, to time.Time // to is zero if there was no answer
	// answer is the error, or what changed; open says that nobody knows whether the statement was carried out, now or later.
	answer string
	open   bool
}

func (o *op) String() string { return fmt.Sprintf("%s => %s", o.text, o.answer) }

// memory is a schema that changes at once.
type memory struct{ catalog *catalog.Catalog }

// Apply implements ddl.Store.
func (m memory) Apply(_ context.Context, c schema.Change) (*schema.Schema, []schema.Event, error) {
	s, events, err := schema.Apply(m.catalog.Snapshot(), c)
	if err == nil {
		m.catalog.Publish(s, events...)
	}
	return s, events, err
}

func newWorld(s *schema.Schema) (*catalog.Catalog, *ddl.Executor) {
	info := catalog.NodeInfo{Endpoint: catalog.Endpoint{Listen: netip.MustParseAddrPort("127.0.0.1:7000"), Datacenter: "datacenter1"}}
	c := catalog.New(s, func() catalog.NodeInfo { return info })
	return c, ddl.New(c, memory{c}, ddl.Options{UUID: func() schema.UUID { return schema.UUID(uuid.New()) }})
}

// step carries a statement out on a schema and returns the next one with the answer.
func step(t *testing.T, s *schema.Schema, text string) (*schema.Schema, string) {
	t.Helper()
	c, e := newWorld(s)
	stmt, _, err := parser.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r, err := e.Execute(t.Context(), stmt, "")
	switch {
	case err != nil:
		return s, err.Error()
	case r.Change == nil:
		return c.Snapshot(), "nothing"
	}
	return c.Snapshot(), fmt.Sprint(*r.Change)
}

// describe is the text of a schema.
func describe(t *testing.T, s *schema.Schema, text string) string {
	t.Helper()
	_, e := newWorld(s)
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

// drawn matches what is drawn or read from the clock, and so is another in every world.
var drawn = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f-]{27}|USING TIMESTAMP \d+`)

// search looks for an order of the statements that explains every answer and the schema in the end.
type search struct {
	t    *testing.T
	ops  []*op
	want string // DESCRIBE SCHEMA in the end
	seen map[string]bool
	best int // how many statements were explained at most
	last []string
}

// serial fails the test unless there is such an order in which no statement comes after one that began when it was over.
func serial(t *testing.T, ops []*op, want string) {
	t.Helper()
	s := &search{t: t, ops: ops, want: want, seen: map[string]bool{}}
	if s.from(make([]bool, len(ops)), 0, catalog.WithSystem(schema.New())) {
		return
	}
	t.Errorf("no order of the statements explains all answers and the schema in the end; %d of %d can be explained, then one of\n%s\nschema in the end\n%s",
		s.best, len(ops), strings.Join(s.last, "\n"), want)
}

func (s *search) from(done []bool, n int, now *schema.Schema) bool {
	key := state(done) + drawn.ReplaceAllString(describe(s.t, now, "DESCRIBE SCHEMA WITH INTERNALS"), "")
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	next, over := s.next(done)
	if over && describe(s.t, now, "DESCRIBE SCHEMA") == s.want {
		return true
	}
	if n >= s.best {
		s.best, s.last = n, nil
	}
	for _, i := range next {
		o := s.ops[i]
		after, answer := step(s.t, now, o.text)
		if !o.open && answer != o.answer {
			if n == s.best {
				s.last = append(s.last, fmt.Sprintf("%v (should be %s)", o, answer))
			}
			continue
		}
		if o.open && after == now {
			continue
		}
		done[i] = true
		if s.from(done, n+1, after) {
			return true
		}
		done[i] = false
	}
	return false
}

// next lists the statements that may come next: those that began before any other that is left was over. over says that none must come.
func (s *search) next(done []bool) (next []int, over bool) {
	var first time.Time
	for i, o := range s.ops {
		if !done[i] && !o.open && (first.IsZero() || o.to.Before(first)) {
			first = o.to
		}
	}
	for i, o := range s.ops {
		if !done[i] && (first.IsZero() || !o.from.After(first)) {
			next = append(next, i)
		}
	}
	return next, first.IsZero()
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
