// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
)

// TestTableFeedHeedsMasks checks that a role that sees masked values in a table also sees masked values in the table's
// change feed. The masks must apply to both images, the latest versions, deleted ranges, and paging states, which
// contain keys.
func TestTableFeedHeedsMasks(t *testing.T) {
	t.Parallel()
	auth := options.Auth{Users: map[string]string{"boss": hash(t, "b")}, Roles: true}
	masking := true
	n := startNode(t, Options{Auth: auth, Masking: &masking})
	boss, err := as(n.CQLAddr().String(), "boss", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer boss.Close()
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int, c text MASKED WITH DEFAULT, v text MASKED WITH DEFAULT, PRIMARY KEY (k, c)) " +
			"WITH cdc = true",
		"INSERT INTO ks.t (k, c, v) VALUES (1, 'secret1', 'secret2')",
		"INSERT INTO ks.t (k, c, v) VALUES (1, 'secret1', 'secret3')",
		"DELETE FROM ks.t WHERE k = 1 AND c > 'secret4'",
		"CREATE ROLE low WITH LOGIN = true AND PASSWORD = 'l'", "GRANT SELECT ON ks.t TO low",
	} {
		if err := boss.Query(text).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	low, err := as(n.CQLAddr().String(), "low", "l")
	if err != nil {
		t.Fatal(err)
	}
	defer low.Close()
	for mode, changes := range map[string]int{"latest": 1, "all": 3} {
		text := "SELECT k, c, v FROM ks.t WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = '" +
			mode + "'"
		var state []byte
		for range changes {
			iter := low.Query(text).PageSize(1).PageState(state).Iter()
			rows, err := iter.SliceMap()
			if state = iter.PageState(); err != nil || len(rows) != 1 || strings.Contains(fmt.Sprint(rows), "secret") ||
				bytes.Contains(state, []byte("secret")) {
				t.Errorf("%s: %v, %q, %v", mode, rows, state, err)
			}
		}
		rows, err := boss.Query(text).PageSize(10).PageState(nil).Iter().SliceMap()
		if shown := fmt.Sprint(rows); err != nil || len(rows) != changes || !strings.Contains(shown, "secret3") ||
			strings.Contains(shown, "secret4") != (mode == "all") {
			t.Errorf("%s: the owner sees %v, %v", mode, rows, err)
		}
	}
}
