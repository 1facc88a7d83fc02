// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDropUsingTimestamp checks that ALTER TABLE .. DROP .. USING TIMESTAMP behaves like Cassandra 5.0.5. When the
// column is added again, only cells with later timestamps are visible. The test covers regular, static, and collection
// columns and all kinds of reads. Cells of a column that was dropped without a timestamp must remain invisible.
func TestDropUsingTimestamp(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int, c int, v int, s int static, w int, m map<int, int>, PRIMARY KEY (k, c))")
	for _, text := range []string{
		"INSERT INTO ks.t (k, c, v, s) VALUES (1, 1, 1, 1) USING TIMESTAMP 10000",
		"INSERT INTO ks.t (k, c, v, s) VALUES (2, 2, 2, 2) USING TIMESTAMP 30000",
		"UPDATE ks.t USING TIMESTAMP 30000 SET v = 3 WHERE k = 3 AND c = 3",
		"UPDATE ks.t USING TIMESTAMP 30000 SET s = 4 WHERE k = 4",
		"UPDATE ks.t USING TIMESTAMP 20000 SET v = 5 WHERE k = 5 AND c = 5",
		"UPDATE ks.t USING TIMESTAMP 10000 SET m[1] = 1 WHERE k = 6 AND c = 6",
		"UPDATE ks.t USING TIMESTAMP 30000 SET m[2] = 2 WHERE k = 6 AND c = 6",
	} {
		c.query(text)
	}
	check := func(what, columns string, want ...string) {
		t.Helper()
		var got []string
		names := strings.Split(columns, ", ")
		for _, r := range texts(c.query("SELECT " + columns + " FROM ks.t")) {
			var values []string
			for _, name := range names {
				values = append(values, r[name])
			}
			got = append(got, strings.Join(values, " "))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	c.query("ALTER TABLE ks.t DROP (v, s, m) USING TIMESTAMP 20000")
	check("dropped", "k, c, w", "1 1 -", "2 2 -")
	if err := n.store.Sync(); err != nil {
		t.Fatal(err)
	}
	c.query("ALTER TABLE ks.t ADD v int")
	check("added again", "k, c, v", "1 1 -", "2 2 2", "3 3 3")
	c.query("ALTER TABLE ks.t ADD s int static")
	c.query("ALTER TABLE ks.t ADD m map<int, int>")
	all := []string{"1 1 - - -", "2 2 2 2 -", "3 3 3 - -", "4 - - 4 -", "6 6 - - {2: 2}"}
	check("all added again", "k, c, v, s, m", all...)
	if r := c.query("SELECT v, writetime(v) FROM ks.t WHERE k = 3 AND c = 3"); r.RowCount != 1 {
		t.Errorf("a point read finds %d rows", r.RowCount)
	}
	if r := c.query("SELECT v FROM ks.t WHERE k = 5 AND c = 5"); r.RowCount != 0 {
		t.Error("a point read finds a cell that is older than the drop")
	}
	c.query("UPDATE ks.t USING TIMESTAMP 15000 SET v = 9, m[3] = 3 WHERE k = 6 AND c = 6")
	check("a write from before the time of the drop", "k, c, v, s, m", all...)
	c.query("UPDATE ks.t SET w = 1 WHERE k = 1 AND c = 1 IF v = null")
	c.query("UPDATE ks.t SET w = 2 WHERE k = 3 AND c = 3 IF v = 3")
	check("conditions", "k, w, v", "1 1 -", "2 - 2", "3 2 3", "4 - -", "6 - -")
	c.query("CREATE INDEX by_v ON ks.t (v)")
	for v, want := range map[int]int{1: 0, 2: 1, 3: 1, 5: 0} {
		if got := c.query(fmt.Sprintf("SELECT k FROM ks.t WHERE v = %d", v)).RowCount; got != want {
			t.Errorf("the index finds %d rows with v = %d, want %d", got, v, want)
		}
	}
	c.query("DROP INDEX ks.by_v")
	if text := string(c.query("DESCRIBE TABLE ks.t WITH INTERNALS").Cells); !strings.Contains(text,
		"DROP v USING TIMESTAMP 20000") {
		t.Errorf("DESCRIBE returns %s", text)
	}
	c.query("ALTER TABLE ks.t DROP v")
	c.query("ALTER TABLE ks.t ADD v int")
	check("dropped without a time", "k, v", "1 -", "2 -", "3 -", "4 -", "6 -")
	c.query("ALTER TABLE ks.t DROP v USING TIMESTAMP 9223372036854775807")
	c.query("ALTER TABLE ks.t ADD v int")
	c.query("UPDATE ks.t SET v = 9 WHERE k = 1 AND c = 1")
	check("dropped by the end of all times", "k, v", "1 -", "2 -", "3 -", "4 -", "6 -")
}
