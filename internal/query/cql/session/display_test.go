// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
)

// TestSecretsAreNotShown checks that passwords and values of tables with masked columns are not displayed. The audit
// log, traces, the list of prepared statements, and the slow-query log are checked for every entry point.
func TestSecretsAreNotShown(t *testing.T) {
	w := newAuthFixture(t)
	w.query(t, "CREATE TABLE ks.m (k int PRIMARY KEY, v text MASKED WITH DEFAULT)")
	w.query(t, "CREATE INDEX ON ks.m (v)")
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	w.log = nil
	w.opts.Slow = slowlog.New(slowlog.Options{Threshold: 1})
	const insert = "INSERT INTO ks.m (k, v) VALUES (1, 'hush')"
	for _, text := range []string{
		"ALTER ROLE low WITH PASSWORD = 'hush'", "ALTER ROLE low WITH HASHED PASSWORD = 'hush'",
		"/* it's */ CREATE USER x WITH PASSWORD 'hush'", insert, "SELECT * FROM ks.m WHERE v = 'hush'",
		"UPDATE ks.m SET v = 'other' WHERE k = 1 IF v = 'hush'", "BEGIN BATCH " + insert + " APPLY BATCH",
		"EXPLAIN SELECT * FROM ks.m WHERE v = 'hush'", "SELECT * FROM ks.m WHERE v = 'hush' AND nope = 2",
		"BEGIN TRANSACTION SELECT k FROM ks.m WHERE k = 1; " + insert + "; COMMIT TRANSACTION", "SELEKT 'hush'",
	} {
		for _, do := range []func(*Session, string){
			func(s *Session, text string) { w.run(s, (*Session).Query, Request{Text: []byte(text), Tracing: true}) },
			func(s *Session, text string) {
				r := w.run(s, (*Session).Prepare, Request{Text: []byte(text), Tracing: true})
				if r.Prepared != nil {
					w.run(s, (*Session).Execute, Request{ID: r.Prepared.ID, Tracing: true})
				}
			},
			func(s *Session, text string) {
				w.run(s, (*Session).Batch, Request{Statements: []BatchStatement{{Text: []byte(text)}}, Tracing: true})
			},
		} {
			do(w.client, text)
		}
	}
	shown := append(w.log, cells(w.query(t, "SELECT parameters FROM system_traces.sessions"))...)
	shown = append(shown, cells(w.query(t, "SELECT activity FROM system_traces.events"))...)
	for _, p := range w.PreparedStatements() {
		shown = append(shown, p.Query)
	}
	for _, r := range w.opts.Slow.Report("n").Requests {
		shown = append(shown, r.Statement)
	}
	if len(shown) < 100 {
		t.Errorf("only %d texts were shown", len(shown))
	}
	for _, text := range shown {
		if strings.Contains(text, "hush") {
			t.Errorf("shown: %s", text)
		}
	}
}

// TestOwnTraces checks that a role can read only its own traces and must select the traces by ID. Superusers and roles
// with the SELECT permission are exempt. A role that is created again must not read the traces of the dropped role.
func TestOwnTraces(t *testing.T) {
	w := newAuthFixture(t)
	const refused = "can read only its own traces"
	trace := func(s *Session) string {
		id := w.run(s, (*Session).Query, Request{Text: []byte("SELECT key FROM system.local"), Tracing: true}).TraceID
		return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	look := func(s *Session, where string) string {
		var got []string
		for _, q := range []string{"SELECT count(*) FROM system_traces.sessions",
			"SELECT * FROM system_traces.events"} {
			got = append(got, w.answer(s, q+where))
		}
		if got[0] != got[1] && strings.Contains(got[0], refused) != strings.Contains(got[1], refused) {
			t.Errorf("%s: %q", where, got)
		}
		return got[0]
	}
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	w.query(t, "CREATE ROLE other WITH LOGIN = true")
	low, other := w.as("low"), w.as("other")
	own, boss, foreign := trace(low), trace(w.client), trace(other)
	for _, c := range []struct {
		s     *Session
		where string
		ok    bool
	}{
		{low, " WHERE session_id = " + own, true},
		{w.as("low"), " WHERE session_id = " + own, true},
		{low, " WHERE session_id = " + boss, false},
		{low, " WHERE session_id = " + foreign, false},
		{low, " WHERE session_id IN (" + own + ", " + foreign + ")", false},
		{low, "", false},
		{low, " WHERE token(session_id) > 0", false},
		{w.client, "", true},
		{w.client, " WHERE session_id = " + own, true},
	} {
		if got := look(c.s, c.where); strings.Contains(got, refused) == c.ok {
			t.Errorf("%s%s: %q", c.s.client.User, c.where, got)
		}
	}
	if got := w.answer(low, "EXPLAIN SELECT * FROM system_traces.sessions"); !strings.Contains(got, refused) {
		t.Errorf("EXPLAIN: %q", got)
	}
	w.query(t, "GRANT SELECT ON KEYSPACE system_traces TO other")
	if got := look(other, ""); strings.Contains(got, refused) {
		t.Errorf("granted: %q", got)
	}
	w.query(t, "DROP ROLE low")
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	if got := look(w.as("low"), " WHERE session_id = "+own); !strings.Contains(got, refused) {
		t.Errorf("a role of the same name: %q", got)
	}
}
