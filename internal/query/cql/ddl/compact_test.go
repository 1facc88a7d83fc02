// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
)

// TestCompactStorage checks changes to tables WITH COMPACT STORAGE. In release 5.0, columns cannot be added, and
// COMPACT STORAGE can be dropped only if an option enables this change. In release 4.0, columns can be added if the
// table has no clustering columns. The expected texts are from Cassandra 5.0.5.
func TestCompactStorage(t *testing.T) {
	const kept = "DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use."
	for _, c := range []struct {
		rel             *compat.Release
		kept            bool
		add, drop, last string
	}{
		{compat.Cassandra50, true, "Cannot add new column to a COMPACT STORAGE table", kept, kept},
		{compat.Cassandra50, false, "Cannot add new column to a COMPACT STORAGE table", "UPDATED TABLE ks s",
			"Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"},
		{compat.Cassandra40, false, "UPDATED TABLE ks s", "UPDATED TABLE ks s",
			"Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"},
	} {
		e := newTestExecutor()
		e.opts.Release, e.opts.KeepsCompact = c.rel, c.kept
		for _, step := range [][2]string{
			{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "CREATED"},
			{"CREATE TABLE s (k int PRIMARY KEY, v int) WITH COMPACT STORAGE", "CREATED"},
			{"ALTER TABLE s ADD v int", "Column with name 'v' already exists"},
			{"ALTER TABLE s ADD w int", c.add},
			{"ALTER TABLE nosuch DROP COMPACT STORAGE", "Table 'ks.nosuch' doesn't exist"},
			{"ALTER TABLE s DROP COMPACT STORAGE", c.drop},
			{"ALTER TABLE s DROP COMPACT STORAGE", c.last},
		} {
			var b strings.Builder
			if run(&b, e, step[0], "ks"); !strings.Contains(b.String(), step[1]) {
				t.Errorf("%s, kept %v: %s:\n got %s want %s", c.rel.Name, c.kept, step[0], b.String(), step[1])
			}
		}
	}
}
