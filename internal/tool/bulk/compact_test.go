// SPDX-License-Identifier: Apache-2.0

package bulk_test

import (
	"path/filepath"
	"testing"

	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// TestCompactRoundTrip checks that rows whose last clustering columns are null are unloaded and loaded correctly.
func TestCompactRoundTrip(t *testing.T) {
	s := serve(t)
	tables := map[string]string{
		"c": "(p int, a int, b text, d int, v int, PRIMARY KEY (p, a, b, d))",
		"o": "(p int, a int, b int, PRIMARY KEY (p, a, b))",
		"n": "(p int, a int, b int, n counter, PRIMARY KEY (p, a, b))",
	}
	for name, columns := range tables {
		for _, copied := range []string{"", "csv", "json"} {
			s.run("CREATE TABLE ks." + name + copied + " " + columns + " WITH COMPACT STORAGE")
		}
	}
	s.run("INSERT INTO ks.c (p, a, v) VALUES (1, 1, 1)", "INSERT INTO ks.c (p, a, b, v) VALUES (1, 1, 'x', 2)",
		"INSERT INTO ks.c (p, a, b, d, v) VALUES (1, 1, 'x', 3, 3)", "INSERT INTO ks.c (p, a, v) VALUES (2, 1, 5)",
		"INSERT INTO ks.o (p, a) VALUES (1, 1)", "INSERT INTO ks.o (p, a, b) VALUES (1, 1, 1)",
		"UPDATE ks.n SET n = n + 3 WHERE p = 1 AND a = 1", "UPDATE ks.n SET n = n + 4 WHERE p = 1 AND a = 1 AND b = 1")
	for name := range tables {
		for _, json := range []bool{false, true} {
			f, to := csv, name+"csv"
			if json {
				f.JSON, to = true, name+"json"
			}
			dir := t.TempDir()
			if _, err := bulk.Unload(t.Context(), bulk.UnloadOptions{Client: s.Client, Table: named(name), Path: dir,
				Format: f, Ranges: 3}); err != nil {
				t.Fatal(err)
			}
			rep, err := bulk.Load(t.Context(), bulk.LoadOptions{Client: s.Client, Table: named(to),
				Paths: []string{dir}, Format: f, Errors: filepath.Join(dir, "errors")})
			if err != nil || rep.Rejected > 0 {
				t.Fatalf("%s: %+v, %v", to, rep, err)
			}
			if was, is := s.unload(csv, name), s.unload(csv, to); was != is {
				t.Errorf("%s: it was\n%s\nand is\n%s", to, was, is)
			}
		}
	}
}
