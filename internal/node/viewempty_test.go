// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/eventually"
)

// TestViewWithEmptyKey checks that a view contains rows with an empty partition key. Scans must return them page by
// page, and verification must find no differences. A client cannot name the empty key.
func TestViewWithEmptyKey(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 3})
	c := newClient(t, n)
	c.query("CREATE KEYSPACE v WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	c.query("CREATE TABLE v.t (k int PRIMARY KEY, v text, b blob, w int)")
	c.query("CREATE MATERIALIZED VIEW v.by_v AS SELECT * FROM v.t WHERE v IS NOT NULL AND k IS NOT NULL " +
		"PRIMARY KEY (v, k)")
	c.query("CREATE MATERIALIZED VIEW v.by_b AS SELECT * FROM v.t WHERE b IS NOT NULL AND k IS NOT NULL " +
		"PRIMARY KEY (b, k)")
	for k := range 20 {
		v, b := "", "0x"
		if k%2 == 1 {
			v, b = fmt.Sprint("x", k), fmt.Sprintf("0x%02x", k)
		}
		c.query(fmt.Sprintf("INSERT INTO v.t (k, v, b, w) VALUES (%d, '%s', %s, 1)", k, v, b))
	}
	count := func(view, where string) int {
		c.t.Helper()
		defer func() { c.call.Request.PageSize, c.call.Request.PagingState = 0, nil }()
		rows := 0
		for state := []byte(nil); ; {
			c.call.Request.PageSize, c.call.Request.PagingState = 3, state
			r := c.query("SELECT k FROM " + view + where)
			rows += r.RowCount
			if state = slices.Clone(r.PagingState); len(state) == 0 {
				return rows
			}
		}
	}
	for _, view := range []string{"v.by_v", "v.by_b"} {
		eventually.True(t, view+" to follow", func() bool { return count(view, "") == 20 })
		verifyAll(t, n, "view", view)
	}
	for where, want := range map[string]int{
		" WHERE token(v) >= -9223372036854775808": 20, " WHERE k = 4 ALLOW FILTERING": 1,
		" WHERE v < 'x' ALLOW FILTERING": 10, " WHERE v IN ('x1', 'x3')": 2,
	} {
		if got := count("v.by_v", where); got != want {
			t.Errorf("%s: %d rows, want %d", where, got, want)
		}
	}
	if err := attempt(c, "SELECT * FROM v.by_v WHERE v = ''"); err == nil ||
		!strings.Contains(err.Error(), "Key may not be empty") {
		t.Errorf("the empty key: %v", err)
	}
	c.query("UPDATE v.t SET v = 'y' WHERE k = 2")
	c.query("UPDATE v.t SET v = '' WHERE k = 3")
	c.query("DELETE FROM v.t WHERE k = 4")
	eventually.True(t, "by_v to follow", func() bool {
		return count("v.by_v", "") == 19 && count("v.by_v", " WHERE v = 'y'") == 1 &&
			count("v.by_v", " WHERE v = 'x3'") == 0
	})
	verifyAll(t, n, "view", "v.by_v")
	rows := texts(c.query("SELECT token(v), v, k FROM v.by_v"))
	if first := rows[0]; len(rows) != 19 || first["system.token(v)"] != "-9223372036854775808" || first["v"] != "''" {
		t.Errorf("the scan begins with %v", first)
	}
}
