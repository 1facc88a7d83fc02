// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/ilion-db/ilion/internal/node/options"
)

// TestMasksSurvive checks that masks exist after a restart, and that the leader applies masks in transactions. A node
// with masking disabled shows all values and rejects new masks.
func TestMasksSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	auth := options.Auth{Users: map[string]string{"boss": hash(t, "b")}, Roles: true}
	run := func(masking bool, role, password string, f func(s *gocql.Session)) {
		t.Helper()
		withRole(t, Options{Data: dir, Auth: auth, Masking: &masking}, role, password, f)
	}
	const (
		transaction = "BEGIN TRANSACTION SELECT v FROM ks.t WHERE k = 1; COMMIT TRANSACTION"
		copied      = "BEGIN TRANSACTION LET x = (SELECT v FROM ks.t WHERE k = 1); " +
			"UPDATE ks.t SET w = x.v WHERE k = 1; COMMIT TRANSACTION"
		mask = "ALTER TABLE ks.t ALTER w MASKED WITH DEFAULT"
	)
	expect := func(s *gocql.Session, text, want string) {
		t.Helper()
		got, err := "", error(nil)
		if strings.HasPrefix(text, "SELECT") || text == transaction {
			err = s.Query(text).Scan(&got)
		} else {
			err = s.Query(text).Exec()
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	run(true, "boss", "b", func(s *gocql.Session) {
		for _, text := range []string{
			"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE ks.t (k int PRIMARY KEY, v text MASKED WITH mask_inner(1, 1), w text)",
			"INSERT INTO ks.t (k, v) VALUES (1, 'secret')", "CREATE ROLE low WITH LOGIN = true AND PASSWORD = 'l'",
			"GRANT SELECT ON ks.t TO low", "GRANT MODIFY ON ks.t TO low",
		} {
			expect(s, text, "")
		}
	})
	run(true, "low", "l", func(s *gocql.Session) {
		expect(s, "SELECT v FROM ks.t WHERE k = 1", "s****t")
		expect(s, transaction, "s****t")
		if err := s.Query(copied).Exec(); err == nil || !strings.Contains(err.Error(), "UNMASK") {
			t.Errorf("a masked value was copied: %v", err)
		}
	})
	run(true, "boss", "b", func(s *gocql.Session) {
		expect(s, transaction, "secret")
		if err := s.Query(copied).Exec(); err != nil {
			t.Error(err)
		}
		expect(s, "SELECT w FROM ks.t WHERE k = 1", "secret")
	})
	run(false, "boss", "b", func(s *gocql.Session) {
		expect(s, mask, "Cannot mask columns because dynamic data masking is not enabled.")
		expect(s, "ALTER TABLE ks.t ALTER v MASKED WITH mask_null()", "Cannot mask columns")
	})
	run(false, "low", "l", func(s *gocql.Session) {
		expect(s, "SELECT v FROM ks.t WHERE k = 1", "secret")
		expect(s, "SELECT v FROM ks.t WHERE v = 'secret' ALLOW FILTERING", "secret")
	})
}
