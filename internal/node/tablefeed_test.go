// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/test/eventually"
)

// feedRow is a row of a change feed. It maps columns to values.
type feedRow map[string]string

// texts decodes the rows of a result as CQL literals.
func texts(r *session.Result) (out []feedRow) {
	b := r.Cells
	for range r.RowCount {
		row := feedRow{}
		for _, c := range r.Metadata.Columns {
			n := int32(binary.BigEndian.Uint32(b))
			if b = b[4:]; n < 0 {
				row[c.Name] = "-"
				continue
			}
			row[c.Name] = c.Type.Format(b[:n])
			b = b[n:]
		}
		out = append(out, row)
	}
	return out
}

// follow reads a change feed page by page from a paging state to its end. If the state is nil, it starts at the
// position that the statement specifies.
func (c *client) follow(text string, size int32, state []byte) (rows []feedRow, end []byte) {
	c.t.Helper()
	defer func() { c.call.Request.PageSize, c.call.Request.PagingState = 0, nil }()
	for {
		c.call.Request.PageSize, c.call.Request.PagingState = size, slices.Clone(state)
		r := c.query(text)
		state = slices.Clone(r.PagingState)
		if r.RowCount == 0 {
			return rows, state
		}
		rows = append(rows, texts(r)...)
	}
}

// brief formats a change. It includes the operation, the key, and the named columns of the row after and before the
// change.
func (r feedRow) brief(key []string, columns ...string) string {
	op := strings.Trim(r["operation"], "'")
	if op == "delete_range" {
		op += " " + strings.ReplaceAll(r["deleted_range"], "'", "")
	}
	var of, after, before []string
	for _, c := range key {
		of = append(of, r[c])
		if r[c] != r["previous("+c+")"] {
			of = append(of, "is not "+r["previous("+c+")"])
		}
	}
	for _, c := range columns {
		after, before = append(after, r[c]), append(before, r["previous("+c+")"])
	}
	return op + " " + strings.Join(append(of, after...), " ") + " < " + strings.Join(before, " ")
}

// TestTableFeed checks the change feed of a table with cdc = true for each kind of write. The feed of all changes must
// contain the operation, and the row after and before the operation. The feed of the latest versions must contain the
// existing rows.
func TestTableFeed(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int, c int, d text, s int static, v int, l list<int>, m map<text, int>, " +
		"PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC) AND cdc = true")
	c.query("CREATE INDEX ON ks.t (v)")
	const all = "SELECT k, c, d, s, v, l, m FROM ks.t WHERE k = %d AND cosmos_changefeed_start_time() = 0 " +
		"AND cosmos_changefeed_mode() = 'all'"
	for key, tc := range []struct {
		writes []string
		want   []string
	}{
		{[]string{"INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 5)",
			"UPDATE ks.t SET v = 6 WHERE k = ? AND c = 1 AND d = 'a'",
			"DELETE v FROM ks.t WHERE k = ? AND c = 1 AND d = 'a'",
			"DELETE FROM ks.t WHERE k = ? AND c = 1 AND d = 'a'",
			"DELETE FROM ks.t WHERE k = ? AND c = 1 AND d = 'a'"},
			[]string{"create 1 'a' - 5 - - < - - - -", "replace 1 'a' - 6 - - < - 5 - -",
				"replace 1 'a' - - - - < - 6 - -", "delete 1 'a' - - - - < - - - -"}},
		{[]string{"UPDATE ks.t SET l = [1, 2], m = {'x': 1} WHERE k = ? AND c = 1 AND d = 'a'",
			"UPDATE ks.t SET l = l + [3], m['y'] = 2 WHERE k = ? AND c = 1 AND d = 'a'",
			"UPDATE ks.t SET l[0] = 9 WHERE k = ? AND c = 1 AND d = 'a'",
			"UPDATE ks.t SET l = l - [2], m = m - {'x'} WHERE k = ? AND c = 1 AND d = 'a'",
			"UPDATE ks.t SET l = null, m = {} WHERE k = ? AND c = 1 AND d = 'a'"},
			[]string{"create 1 'a' - - [1, 2] {'x': 1} < - - - -",
				"replace 1 'a' - - [1, 2, 3] {'x': 1, 'y': 2} < - - [1, 2] {'x': 1}",
				"replace 1 'a' - - [9, 2, 3] {'x': 1, 'y': 2} < - - [1, 2, 3] {'x': 1, 'y': 2}",
				"replace 1 'a' - - [9, 3] {'y': 2} < - - [9, 2, 3] {'x': 1, 'y': 2}",
				"delete 1 'a' - - - - < - - [9, 3] {'y': 2}"}},
		{[]string{"UPDATE ks.t SET s = 1 WHERE k = ?", "INSERT INTO ks.t (k, c, d, s) VALUES (?, 1, 'a', 2)",
			"DELETE s FROM ks.t WHERE k = ?"},
			[]string{"create - - 1 - - - < - - - -", "replace - - 2 - - - < 1 - - -",
				"create 1 'a' - - - - < - - - -", "delete - - - - - - < 2 - - -"}},
		{[]string{"INSERT INTO ks.t (k, c, d, s, v) VALUES (?, 1, 'a', 1, 1)",
			"DELETE FROM ks.t WHERE k = ? AND c = 1", "DELETE FROM ks.t WHERE k = ? AND c > 2 AND c <= 5",
			"DELETE FROM ks.t WHERE k = ? AND c = 1 AND d >= 'b'", "DELETE FROM ks.t WHERE k = ? AND c IN (1, 3)",
			"DELETE FROM ks.t WHERE k = ?"},
			[]string{"create - - 1 - - - < - - - -", "create 1 'a' - 1 - - < - - - -",
				"delete_range c = 1 - - - - - - < - - - -",
				"delete_range c >= 3 AND c <= 5 - - - - - - < - - - -",
				"delete_range c = 1 AND d >= b - - - - - - < - - - -",
				"delete_range c = 1 - - - - - - < - - - -", "delete_range c = 3 - - - - - - < - - - -",
				"delete_partition - - - - - - < - - - -"}},
		{[]string{"INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 1) USING TIMESTAMP 100",
			"INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 2) USING TIMESTAMP 50",
			"UPDATE ks.t USING TIMESTAMP 60 SET m['z'] = 3 WHERE k = ? AND c = 1 AND d = 'a'",
			"DELETE FROM ks.t USING TIMESTAMP 70 WHERE k = ? AND c = 1 AND d = 'a'",
			"INSERT INTO ks.t (k, c, d, v) VALUES (?, 2, 'a', 2) USING TIMESTAMP 100",
			"DELETE FROM ks.t USING TIMESTAMP 200 WHERE k = ? AND c = 2 AND d = 'a'",
			"INSERT INTO ks.t (k, c, d, v) VALUES (?, 2, 'a', 3) USING TIMESTAMP 150"},
			[]string{"create 1 'a' - 1 - - < - - - -", "replace 1 'a' - 1 - {'z': 3} < - 1 - -",
				"replace 1 'a' - 1 - - < - 1 - {'z': 3}", "create 2 'a' - 2 - - < - - - -",
				"delete 2 'a' - - - - < - 2 - -"}},
		{[]string{"INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 1) IF NOT EXISTS",
			"INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 2) IF NOT EXISTS",
			"UPDATE ks.t SET v = 3 WHERE k = ? AND c = 1 AND d = 'a' IF v = 1",
			"BEGIN TRANSACTION LET x = (SELECT v FROM ks.t WHERE k = ? AND c = 1 AND d = 'a'); " +
				"IF x.v = 3 THEN UPDATE ks.t SET v = 4 WHERE k = ? AND c = 1 AND d = 'a'; " +
				"INSERT INTO ks.t (k, c, d) VALUES (?, 1, 'b'); END IF COMMIT TRANSACTION"},
			[]string{"create 1 'a' - 1 - - < - - - -", "replace 1 'a' - 3 - - < - 1 - -",
				"create 1 'b' - - - - < - - - -", "replace 1 'a' - 4 - - < - 3 - -"}},
		{[]string{"BEGIN BATCH INSERT INTO ks.t (k, c, d, v) VALUES (?, 1, 'a', 1); " +
			"UPDATE ks.t SET m['q'] = 1 WHERE k = ? AND c = 1 AND d = 'a'; " +
			"UPDATE ks.t SET l = l + [1] WHERE k = ? AND c = 1 AND d = 'a'; " +
			"INSERT INTO ks.t (k, c, d, v) VALUES (1000, 1, 'a', 1); APPLY BATCH",
			"BEGIN BATCH DELETE FROM ks.t USING TIMESTAMP 1 WHERE k = ?; " +
				"INSERT INTO ks.t (k, c, d, v) VALUES (?, 0, 'a', 1); APPLY BATCH",
			"BEGIN UNLOGGED BATCH INSERT INTO ks.t (k, c, d, v) VALUES (?, 2, 'a', 1); " +
				"INSERT INTO ks.t (k, c, d, v) VALUES (1001, 1, 'a', 1); APPLY BATCH"},
			[]string{"create 1 'a' - 1 [1] {'q': 1} < - - - -", "delete_partition - - - - - - < - - - -",
				"create 0 'a' - 1 - - < - - - -", "create 2 'a' - 1 - - < - - - -"}},
	} {
		for _, w := range tc.writes {
			c.query(strings.ReplaceAll(w, "?", fmt.Sprint(key)))
		}
		for _, size := range []int32{1, 100} {
			rows, end := c.follow(fmt.Sprintf(all, key), size, nil)
			var got []string
			for _, r := range rows {
				if r["k"] != fmt.Sprint(key) {
					t.Errorf("%v does not have key %d", r, key)
				}
				got = append(got, r.brief([]string{"c", "d"}, "s", "v", "l", "m"))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q:\n%s\nwant\n%s", tc.writes, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if more, _ := c.follow(fmt.Sprintf(all, key), size, end); more != nil {
				t.Errorf("rows after the end of the feed: %v", more)
			}
		}
	}
	latest, _ := c.follow("SELECT k, c, d, s, v FROM ks.t WHERE cosmos_changefeed_start_time() = 0", 2, nil)
	now := texts(c.query("SELECT k, c, d, s, v FROM ks.t"))
	key := func(r feedRow) string { return fmt.Sprint(r["k"], r["c"], r["d"], r["s"], r["v"]) }
	a, b := []string{}, []string{}
	for _, r := range latest {
		a = append(a, key(r))
	}
	for _, r := range now {
		b = append(b, key(r))
	}
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Errorf("the latest versions are\n%q, the rows\n%q", a, b)
	}
}

// TestTableFeedBounds checks where the change feed of a table begins. The feed must omit no change without an error. A
// table with cdc = false must have no feed. The feed must begin when cdc is enabled. Paging states from before that
// time, and start times before the retention, must be rejected.
func TestTableFeedBounds(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	c.query("INSERT INTO ks.t (k, v) VALUES (1, 1)")
	const latest = "SELECT k, v FROM ks.t WHERE cosmos_changefeed_start_time() = 0"
	const all = latest + " AND cosmos_changefeed_mode() = 'all'"
	if err := attempt(c, latest); err == nil || !strings.Contains(err.Error(), "WITH cdc = true") {
		t.Errorf("without cdc: %v", err)
	}
	c.query("ALTER TABLE ks.t WITH cdc = true AND cdc_retention_seconds = 0")
	c.query("INSERT INTO ks.t (k, v) VALUES (2, 2)")
	if err := attempt(c, all); err == nil || !strings.Contains(err.Error(), "cdc_retention_seconds") {
		t.Errorf("all changes without a retention: %v", err)
	}
	rows, end := c.follow(latest, 10, nil)
	if len(rows) != 1 || rows[0]["k"] != "2" {
		t.Errorf("latest versions: %v", rows)
	}
	c.query("ALTER TABLE ks.t WITH cdc_retention_seconds = 100")
	c.query("INSERT INTO ks.t (k, v) VALUES (1, 3)")
	if rows, _ = c.follow(latest, 10, end); len(rows) != 1 || rows[0]["v"] != "3" {
		t.Errorf("after resuming: %v", rows)
	}
	if rows, _ = c.follow(all, 10, nil); len(rows) != 1 || rows[0].brief(nil, "v") != "replace 3 < 1" {
		t.Errorf("all changes: %v", rows)
	}
	text := string(c.query("DESCRIBE TABLE ks.t").Cells)
	if !strings.Contains(text, "cdc = true") || !strings.Contains(text, "cdc_retention_seconds = 100") {
		t.Errorf("DESCRIBE returns %s", text)
	}
	old := fmt.Sprintf(strings.Replace(all, "= 0", "= %d", 1), time.Now().Add(-time.Hour).UnixMilli())
	if err := attempt(c, old); err == nil || !strings.Contains(err.Error(), "are not retained") {
		t.Errorf("from before the retention: %v", err)
	}
	c.query("ALTER TABLE ks.t WITH cdc = false")
	if err := attempt(c, latest); err == nil {
		t.Error("a table with cdc = false has a feed")
	}
	c.query("INSERT INTO ks.t (k, v) VALUES (1, 4)")
	time.Sleep(time.Until(time.Unix(time.Now().Unix()+1, 0))) // the new log must begin in a later second
	c.query("ALTER TABLE ks.t WITH cdc = true")
	c.call.Request.PageSize, c.call.Request.PagingState = 10, end
	err := attempt(c, latest)
	c.call.Request.PageSize, c.call.Request.PagingState = 0, nil
	if err == nil || !strings.Contains(err.Error(), "was disabled or recreated") {
		t.Errorf("a paging state from before: %v", err)
	}
	c.query("TRUNCATE ks.t")
	if rows, _ = c.follow(latest, 10, nil); rows != nil {
		t.Errorf("after TRUNCATE: %v", rows)
	}
	c.query("CREATE TABLE ks.n (k int PRIMARY KEY, n counter) WITH cdc = true")
	c.query("UPDATE ks.n SET n = n + 2 WHERE k = 1")
	c.query("UPDATE ks.n SET n = n - 1 WHERE k = 1")
	rows, _ = c.follow("SELECT k, n FROM ks.n WHERE cosmos_changefeed_start_time() = 0 AND "+
		"cosmos_changefeed_mode() = 'all'", 10, nil)
	if len(rows) != 2 || rows[0].brief(nil, "n") != "create 2 < -" || rows[1].brief(nil, "n") != "replace 1 < 2" {
		t.Errorf("a counter: %v", rows)
	}
	// The expiry of a row is not a change. The previous image of the next change does not contain the expired row.
	c.query("INSERT INTO ks.t (k, v) VALUES (9, 9) USING TTL 1")
	eventually.True(t, "a row to expire", func() bool {
		return c.query("SELECT v FROM ks.t WHERE k = 9").RowCount == 0
	})
	if rows, _ = c.follow(latest, 10, nil); rows != nil {
		t.Errorf("an expired row is shown: %v", rows)
	}
	c.query("UPDATE ks.t SET v = 10 WHERE k = 9")
	rows, _ = c.follow(strings.Replace(all, "SELECT k, v", "SELECT k, v, ttl(v)", 1), 10, nil)
	if len(rows) != 2 || !strings.HasPrefix(rows[0].brief(nil, "v", "ttl(v)"), "create 9 ") ||
		rows[1].brief(nil, "v") != "create 10 < -" {
		t.Errorf("after a row has expired: %v", rows)
	}
}
