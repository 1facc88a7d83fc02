// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/tool/migration"
)

// TestCompact checks that rows of compact tables whose last clustering columns are null are copied. A later pass must
// change and delete these rows without an effect on other rows. Afterward, both sides must be equal.
func TestCompact(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run(
		"CREATE TABLE ks.c (p int, a int, b text, d int, v int, PRIMARY KEY (p, a, b, d)) WITH COMPACT STORAGE AND "+
			"CLUSTERING ORDER BY (a DESC, b DESC, d ASC)",
		"CREATE TABLE ks.o (p int, a int, b int, PRIMARY KEY (p, a, b)) WITH COMPACT STORAGE",
		"CREATE TABLE ks.n (p int, a int, b int, n counter, PRIMARY KEY (p, a, b)) WITH COMPACT STORAGE",
		"CREATE TABLE ks.s (p int PRIMARY KEY, v int, w int) WITH COMPACT STORAGE",
		"INSERT INTO ks.c (p, a, v) VALUES (1, 1, 1)", "INSERT INTO ks.c (p, a, b, v) VALUES (1, 1, '', 2)",
		"INSERT INTO ks.c (p, a, b, d, v) VALUES (1, 1, '', 3, 3)",
		"UPDATE ks.c USING TTL 1000 SET v = 4 WHERE p = 1 AND a = 2",
		"INSERT INTO ks.c (p, a, v) VALUES (2, 1, 5)", "INSERT INTO ks.o (p, a) VALUES (1, 1)",
		"INSERT INTO ks.o (p, a, b) VALUES (1, 1, 1)", "UPDATE ks.n SET n = n + 3 WHERE p = 1 AND a = 1",
		"UPDATE ks.n SET n = n + 4 WHERE p = 1 AND a = 1 AND b = 1", "INSERT INTO ks.s (p, v) VALUES (1, 1)",
		"INSERT INTO ks.s (p, w) VALUES (2, 1)")
	all := func() {
		t.Helper()
		p.same("SELECT p, a, b, d, v, writetime(v) FROM ks.c")
		p.same("SELECT * FROM ks.o")
		p.same("SELECT * FROM ks.n")
		p.same("SELECT p, v, writetime(v), w, writetime(w) FROM ks.s")
	}
	p.migrate()
	all()
	p.source.run("UPDATE ks.c SET v = null WHERE p = 1 AND a = 1", "UPDATE ks.c SET v = 9 WHERE p = 2 AND a = 1",
		"UPDATE ks.n SET n = n + 1 WHERE p = 1 AND a = 1", "DELETE v FROM ks.s WHERE p = 1")
	p.migrate()
	all()
	if got := p.target.rows("SELECT d FROM ks.c WHERE p = 1 AND a = 1"); got != "d=3 \nd=null " {
		t.Errorf("of the rows that begin with (1, 1) these are left: %q", got)
	}
	p.Verify = true
	if rep := p.migrate(); rep.Tally.Different != 0 {
		t.Errorf("%+v", rep)
	}
}

// TestRefusedRow checks that a row that the target rejects is recorded in the error file. The remaining rows and
// tables must be copied.
func TestRefusedRow(t *testing.T) {
	p := twoServers(t, ilion.Options{})
	p.source.run("CREATE TABLE ks.c (p int, a int, b int, v int, PRIMARY KEY (p, a, b)) WITH COMPACT STORAGE",
		"CREATE TABLE ks.d (p int PRIMARY KEY, v int)", "INSERT INTO ks.d (p, v) VALUES (1, 1)",
		"INSERT INTO ks.c (p, a, v) VALUES (1, 1, 5)", "INSERT INTO ks.c (p, a, b, v) VALUES (1, 1, 1, 6)",
		"INSERT INTO ks.c (p, a, b, v) VALUES (2, 1, 1, 7)")
	p.target.run(keyspace, "CREATE TABLE ks.c (p int, a int, b int, v int, PRIMARY KEY (p, a, b))")
	if _, err := migration.Run(t.Context(), p.Options); err == nil ||
		!strings.Contains(err.Error(), "too many rejected rows") {
		t.Errorf("without --max-errors: %v", err)
	}
	p.MaxErrors, p.SkipRefused, p.Restart = -1, true, true
	_, _ = migration.Run(t.Context(), p.Options)
	why, err := os.ReadFile(p.Errors)
	if err != nil || !strings.Contains(string(why), "p = 1 AND a = 1 AND b = null") ||
		!strings.Contains(string(why), "Some clustering keys are missing: b") {
		t.Errorf("the error file: %s, %v", why, err)
	}
	if got := p.target.rows("SELECT v FROM ks.c"); got != "v=6 \nv=7 " {
		t.Errorf("these rows are copied: %q", got)
	}
	p.same("SELECT * FROM ks.d")
}
