// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"strings"
	"testing"
)

// sees returns the joined cells of a result, or the error.
func (w *authFixture) sees(s *Session, r Request) string {
	method := (*Session).Query
	switch {
	case r.Statements != nil:
		method = (*Session).Batch
	case r.Text == nil:
		method = (*Session).Execute
	}
	out := w.run(s, method, r)
	if out.Err != nil {
		return out.Err.Error()
	}
	return strings.Join(cells(out), "|")
}

// TestMasksHold checks that a role that can read and write a table but lacks UNMASK cannot obtain masked values. The
// result of a statement must not contain or depend on a masked value.
func TestMasksHold(t *testing.T) {
	w := newAuthFixture(t)
	for _, text := range []string{
		"CREATE TABLE ks.t (k ascii, c ascii MASKED WITH mask_replace('C'), s text static MASKED WITH DEFAULT, " +
			"v text MASKED WITH mask_inner(1, 1), l list<text> MASKED WITH mask_null(), w text, PRIMARY KEY (k, c))",
		"CREATE INDEX ON ks.t (w)", "CREATE INDEX ON ks.t (v)",
		"INSERT INTO ks.t (k, c, s, v, l, w) VALUES ('k', 'hidden', 'static', 'secret', ['list'], 'w')",
		"CREATE ROLE low WITH LOGIN = true", "GRANT SELECT ON ks.t TO low", "GRANT MODIFY ON ks.t TO low",
	} {
		if got := w.answer(w.client, text); got != "" {
			t.Fatalf("%s: %s", text, got)
		}
	}
	low := w.as("low")
	const refused = "User low has no UNMASK nor SELECT_MASKED permission on table ks.t, cannot query masked columns "
	for _, test := range [][2]string{
		{"SELECT * FROM ks.t", "k|C|****|null|s****t|w"},
		{"SELECT JSON * FROM ks.t", `{"k": "k", "c": "C", "s": "****", "l": null, "v": "s****t", "w": "w"}`},
		{"SELECT toJson(v), CAST(v AS text), textAsBlob(v), mask_outer(v, 1, 1) FROM ks.t WHERE k = 'k'",
			`"s****t"|s****t|s****t|******`},
		{"SELECT max(v), min(c), max(s) FROM ks.t", "s****t|C|****"},
		{"SELECT c, v FROM ks.t WHERE k = 'k' GROUP BY k, c", "C|s****t"},
		{"SELECT DISTINCT k, s FROM ks.t", "k|****"},
		{"SELECT v FROM ks.t WHERE w = 'w'", "s****t"},
		{"SELECT v FROM ks.t WHERE k = 'k' AND c = 'hidden'", refused + "[c]"},
		{"SELECT k FROM ks.t WHERE k = 'k' AND c > 'a'", refused + "[c]"},
		{"SELECT k FROM ks.t WHERE k = 'k' AND (c) >= ('h')", refused + "[c]"},
		{"SELECT k FROM ks.t WHERE v = 'secret'", refused + "[v]"},
		{"SELECT k FROM ks.t WHERE v > 'a' AND s = 'x' ALLOW FILTERING", refused + "[s, v]"},
		{"SELECT k FROM ks.t WHERE l CONTAINS 'list' ALLOW FILTERING", refused + "[l]"},
		{"EXPLAIN SELECT k FROM ks.t WHERE v = 'secret'", refused + "[v]"},
		{"INSERT INTO ks.t (k, c, v) VALUES ('k', 'hidden', 'x') IF NOT EXISTS", "\x00|k|C|****|null|s****t|w"},
		{"UPDATE ks.t SET w = 'x' WHERE k = 'k' AND c = 'hidden' IF w = 'z'", "\x00|w"},
		{"UPDATE ks.t SET w = 'x' WHERE k = 'k' AND c = 'hidden' IF v > 'm'", refused + "[v]"},
		{"UPDATE ks.t SET w = 'x' WHERE k = 'k' AND c = 'hidden' IF l[0] = 'list'", refused + "[l]"},
		{"UPDATE ks.t SET s = 'x' WHERE k = 'k' IF s = 'static'", refused + "[s]"},
		{"EXPLAIN UPDATE ks.t SET s = 'x' WHERE k = 'k' IF s = 'static'", refused + "[s]"},
		{"BEGIN BATCH UPDATE ks.t SET w = 'x' WHERE k = 'k' AND c = 'hidden' IF v = 'secret' APPLY BATCH", refused + "[v]"},
		{"BEGIN BATCH INSERT INTO ks.t (k, c) VALUES ('k', 'hidden') IF NOT EXISTS APPLY BATCH",
			"\x00|k|C|****|null|s****t|w"},
		{"BEGIN TRANSACTION SELECT v FROM ks.t WHERE k = 'k' AND c = 'hidden'; COMMIT TRANSACTION", refused + "[c]"},
		{"BEGIN TRANSACTION LET x = (SELECT v FROM ks.t WHERE k = 'k' LIMIT 1); " +
			"UPDATE ks.t SET w = x.v WHERE k = 'k' AND c = 'hidden'; COMMIT TRANSACTION",
			"User low has no UNMASK permission on table ks.t, cannot use masked columns [v] in a transaction"},
	} {
		if got := w.sees(low, Request{Text: []byte(test[0])}); got != test[1] {
			t.Errorf("%s:\n got %q\nwant %q", test[0], got, test[1])
		}
	}
	for _, text := range []string{"UPDATE ks.t SET w = 'x' WHERE k = 'k' AND c = 'hidden' IF v = 'secret'",
		"SELECT k FROM ks.t WHERE v = 'secret'"} {
		p := w.prepared(t, w.client, text)
		if got := w.sees(low, Request{ID: p.ID}); got != refused+"[v]" {
			t.Errorf("%s, prepared by another role: %q", text, got)
		}
		if strings.HasPrefix(text, "SELECT") {
			continue
		}
		if got := w.sees(low, Request{Statements: []BatchStatement{{Prepared: true, ID: p.ID}}}); got != refused+"[v]" {
			t.Errorf("%s, prepared, in a batch: %q", text, got)
		}
	}
}

// TestMaskPermissions checks that permissions are evaluated when a statement is executed instead of when it is
// prepared. UNMASK shows all values. SELECT_MASKED permits restrictions on masked columns. Both permissions can be
// granted on the table and on the resources that contain the table.
func TestMaskPermissions(t *testing.T) {
	w := newAuthFixture(t)
	for _, text := range []string{
		"CREATE TABLE ks.t (k text PRIMARY KEY, v text MASKED WITH mask_replace('*'))",
		"INSERT INTO ks.t (k, v) VALUES ('k', 'v')", "CREATE ROLE low WITH LOGIN = true", "GRANT SELECT ON ks.t TO low",
	} {
		w.query(t, text)
	}
	low := w.as("low")
	all := w.prepared(t, low, "SELECT v FROM ks.t WHERE k = 'k'")
	chosen := w.prepared(t, low, "SELECT v FROM ks.t WHERE v = 'v' ALLOW FILTERING")
	const refused = "User low has no UNMASK nor SELECT_MASKED permission on table ks.t, cannot query masked columns [v]"
	expect := func(when, one, other string) {
		t.Helper()
		if got := w.sees(low, Request{ID: all.ID}); got != one {
			t.Errorf("%s: %q, want %q", when, got, one)
		}
		if got := w.sees(low, Request{ID: chosen.ID}); got != other {
			t.Errorf("%s: chosen by the masked column: %q, want %q", when, got, other)
		}
	}
	expect("without permission", "*", refused)
	for _, on := range []string{"TABLE ks.t", "ALL TABLES IN KEYSPACE ks", "KEYSPACE ks", "ALL KEYSPACES"} {
		w.query(t, "GRANT SELECT_MASKED ON "+on+" TO low")
		expect("SELECT_MASKED ON "+on, "*", "*")
		w.query(t, "GRANT UNMASK ON "+on+" TO low")
		expect("UNMASK ON "+on, "v", "v")
		w.query(t, "REVOKE UNMASK ON "+on+" FROM low")
		w.query(t, "REVOKE SELECT_MASKED ON "+on+" FROM low")
		expect("revoked on "+on, "*", refused)
	}
	w.query(t, "ALTER TABLE ks.t ALTER v DROP MASKED")
	again := w.prepared(t, low, "SELECT v FROM ks.t WHERE k = 'k'")
	if got := w.sees(low, Request{ID: again.ID}); got != "v" {
		t.Errorf("without a mask: %q", got)
	}
}

// TestEncryptedPagingState checks that the paging states of a table with masked keys contain no readable key and cannot
// be forged by a client. A paging state must resume the read at the correct position, even for a different role.
func TestEncryptedPagingState(t *testing.T) {
	w := newAuthFixture(t)
	w.query(t, "CREATE TABLE ks.t (k text MASKED WITH DEFAULT, c text MASKED WITH DEFAULT, w text, PRIMARY KEY (k, c))")
	for _, c := range []string{"hidden-a", "hidden-b", "hidden-c"} {
		w.query(t, "INSERT INTO ks.t (k, c, w) VALUES ('hidden-k', '"+c+"', '"+c[7:]+"')")
	}
	w.query(t, "CREATE ROLE low WITH LOGIN = true")
	w.query(t, "GRANT SELECT ON ks.t TO low")
	low := w.as("low")
	request := Request{Text: []byte("SELECT w FROM ks.t"), PageSize: 1}
	var got []string
	for {
		out := w.run(low, (*Session).Query, request)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		got = append(got, cells(out)...)
		if out.PagingState == nil {
			break
		}
		if strings.Contains(string(out.PagingState), "hidden") {
			t.Fatalf("the paging state shows a key: %q", out.PagingState)
		}
		request.PagingState = out.PagingState
	}
	if strings.Join(got, "") != "abc" {
		t.Errorf("read %q by pages", got)
	}
	table := w.catalog.Snapshot().Table("ks", "t")
	plain := binary.BigEndian.AppendUint32([]byte{1, 0}, table.ID)
	for _, state := range [][]byte{plain, append([]byte{2}, request.PagingState[2:]...), {2}, nil} {
		if state == nil {
			state = append([]byte(nil), request.PagingState...)
			state[len(state)-1] ^= 1
		}
		request.PagingState = state
		if out := w.run(low, (*Session).Query, request); out.Err == nil {
			t.Errorf("a state of the client's own making was accepted: %q", state)
		}
	}
	if !table.SealsPages() || len(table.Secret) != 32 {
		t.Errorf("the secret has %d bytes", len(table.Secret))
	}
	w.query(t, "ALTER TABLE ks.t ALTER k DROP MASKED")
	w.query(t, "ALTER TABLE ks.t ALTER c DROP MASKED")
	now := w.catalog.Snapshot()
	if t2 := now.Table("ks", "t"); t2.SealsPages() || t2.Masked() || now.HasMasks() {
		t.Error("masks are left")
	}
}
