// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"
	"testing"
)

// TestAudit checks that every completed request of every entry point is audited once. The entry must contain
// Cassandra's request type, the object, and the error. Audit entries must not contain passwords.
func TestAudit(t *testing.T) {
	w := newAuthFixture(t)
	query := func(s *Session, text string) { w.run(s, (*Session).Query, Request{Text: []byte(text)}) }
	expect := func(what string, want ...string) {
		t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Equal(w.log, want) {
			t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(w.log, "\n     "), strings.Join(want, "\n     "))
		}
		w.log = nil
	}
	w.log = nil
	for _, c := range []struct{ text, want string }{
		{"CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE_TABLE|DDL|ks|t"},
		{"INSERT INTO ks.t (k, v) VALUES (1, 1)", "UPDATE|DML|ks|t"},
		{"INSERT INTO ks.t (k, v) VALUES (1, 1) IF NOT EXISTS", "UPDATE|DML|ks|t"},
		{"UPDATE ks.t SET v = 2 WHERE k = 1", "UPDATE|DML|ks|t"},
		{"DELETE FROM ks.t WHERE k = 1", "DELETE|DML|ks|t"},
		{"BEGIN BATCH INSERT INTO ks.t (k) VALUES (2); INSERT INTO ks.t (k) VALUES (3) APPLY BATCH", "BATCH|DML|ks|t"},
		{"SELECT * FROM ks.t", "SELECT|QUERY|ks|t"},
		{"TRUNCATE ks.t", "TRUNCATE|DDL|ks|t"},
		{"CREATE INDEX ix ON ks.t (v)", "CREATE_INDEX|DDL|ks|t"},
		{"ALTER TABLE ks.t ADD w int", "ALTER_TABLE|DDL|ks|t"},
		{"USE ks", "USE_KEYSPACE|OTHER|ks|"},
		{"DESCRIBE TABLE ks.t", "DESCRIBE|OTHER||"},
		{"CREATE ROLE low", "CREATE_ROLE|DCL||"},
		{"GRANT SELECT ON ks.t TO low", "GRANT|DCL||"},
		{"REVOKE SELECT ON ks.t FROM low", "REVOKE|DCL||"},
		{"ADD IDENTITY 'spiffe://a' TO ROLE low", "ADD_IDENTITY|DCL||"},
		{"DROP IDENTITY 'spiffe://a'", "DROP_IDENTITY|DCL||"},
		{"LIST ROLES", "LIST_ROLES|DCL||"},
		{"SELECT nothing FROM ks.nowhere", "REQUEST_FAILURE|ERROR||"},
		{"SELEKT", "REQUEST_FAILURE|ERROR||"},
	} {
		query(w.client, c.text)
		expect(c.text, "boss|"+c.want+"|"+c.text)
	}
	for text, want := range map[string]string{
		"ALTER ROLE low WITH PASSWORD = 'hush' AND LOGIN = true": "ALTER_ROLE|DCL|||" +
			"ALTER ROLE low WITH PASSWORD *******",
		"ALTER ROLE low WITH PASSWORD = hush'": "REQUEST_FAILURE|ERROR|||" +
			"ALTER ROLE low WITH PASSWORD *******",
		"CREATE USER low WITH PASSWORD 'hush'": "REQUEST_FAILURE|ERROR|||" +
			"CREATE USER low WITH PASSWORD *******",
		"/* İİİİİİİİİİİİ */ ALTER ROLE low WITH PASSWORD = 'hush'": "ALTER_ROLE|DCL|||" +
			"/* İİİİİİİİİİİİ */ ALTER ROLE low WITH PASSWORD *******",
		"SELECT nothing FROM ks.nowhere WHERE v = 'hush'": "REQUEST_FAILURE|ERROR|||" +
			"SELECT nothing FROM ks.nowhere WHERE v = ?",
	} {
		query(w.client, text)
		expect(text, "boss|"+want)
	}
	low := w.as("low")
	query(low, "SELECT * FROM ks.t")
	expect("denied", "low|UNAUTHORIZED_ATTEMPT|AUTH|ks|t|SELECT * FROM ks.t")
	p := w.run(w.client, (*Session).Prepare, Request{Text: []byte("SELECT * FROM ks.t")})
	expect("prepare", "boss|PREPARE_STATEMENT|PREPARE|ks|t|SELECT * FROM ks.t")
	w.run(w.client, (*Session).Execute, Request{ID: p.Prepared.ID})
	expect("execute", "boss|SELECT|QUERY|ks|t|SELECT * FROM ks.t")
	insert := []byte("INSERT INTO ks.t (k) VALUES (5)")
	w.run(w.client, (*Session).Batch, Request{Statements: []BatchStatement{{Text: insert}, {Text: insert}}})
	expect("batch message", "boss|BATCH|DML|||INSERT INTO ks.t (k) VALUES (5); INSERT INTO ks.t (k) VALUES (5)")
}
