// SPDX-License-Identifier: Apache-2.0

package session

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
)

func guards(t *testing.T, config string) *guardrail.Guards {
	t.Helper()
	var o guardrail.Options
	if err := yaml.Unmarshal([]byte(config), &o); err != nil {
		t.Fatal(err)
	}
	return guardrail.New(o)
}

// guarded lists statements and the expected text after "Guardrail" in the message. The message is an error if refused
// is true, and a warning otherwise. An error is also returned as a warning.
var guarded = []struct {
	cql     string
	says    string
	refused bool
}{
	{"CREATE TABLE c3 (k int PRIMARY KEY, a int, b int)", "", false},
	{"CREATE TABLE c4 (k int PRIMARY KEY, a int, b int, c int)",
		"columns_per_table violated: The table c4 has 4 columns, this exceeds the warning threshold of 3.", false},
	{"CREATE TABLE c6 (k int PRIMARY KEY, a int, b int, c int, d int, e int)",
		"columns_per_table violated: Tables cannot have more than 5 columns, but 6 provided for table c6", true},
	{"ALTER TABLE c3 ADD c int",
		"columns_per_table violated: The table c3 has 4 columns, this exceeds the warning threshold of 3.", false},
	{"CREATE INDEX ON c4 (a)", "", false},
	{"CREATE INDEX ON c4 (b)",
		"secondary_indexes_per_table violated: Creating secondary index on table c4, current number of indexes 2 " +
			"exceeds warning threshold of 1.", false},
	{"CREATE INDEX third ON c4 (c)",
		"secondary_indexes_per_table violated: Tables cannot have more than 2 secondary indexes, aborting the " +
			"creation of secondary index third on table c4", true},
	{"CREATE TYPE ty (a int, b int, c int)",
		"fields_per_udt violated: The user type ty has 3 columns, this exceeds the warning threshold of 2.", false},
	{"ALTER TYPE ty ADD d int",
		"fields_per_udt violated: User types cannot have more than 3 columns, but 4 provided for user type ty.", true},
	{"CREATE TABLE col (k int PRIMARY KEY, l list<int>, x text)", "", false},
	{"INSERT INTO col (k, l) VALUES (1, [1, 2])", "", false},
	{"INSERT INTO col (k, l) VALUES (1, [1, 2, 3])",
		"items_per_collection violated: Detected collection l with 3 items, this exceeds the warning threshold of 2.",
		false},
	{"UPDATE col SET l = l + [1, 2, 3, 4, 5] WHERE k = 1",
		"items_per_collection violated: Detected collection l with 5 items, this exceeds the failure threshold of 4.",
		true},
	{"INSERT INTO col (k, x) VALUES (1, '" + strings.Repeat("x", 1100) + "')",
		"column_value_size violated: Value of column 'x' has size 1100, this exceeds the warning threshold of 1024.",
		false},
	{"BEGIN BATCH INSERT INTO col (k, x) VALUES (1, '" + strings.Repeat("x", 2100) + "') APPLY BATCH",
		"column_value_size violated: Value of column 'x' has size 2100, this exceeds the failure threshold of 2048.",
		true},
	{"SELECT * FROM col WHERE k IN (1, 2)", "", false},
	{"SELECT * FROM col WHERE k IN (1, 2, 3)",
		"partition_keys_in_select violated: Query with partition keys in IN clause on table col, with number of " +
			"partition keys 3 exceeds warning threshold of 2.", false},
	{"CREATE TABLE cart (a int, b int, c int, PRIMARY KEY (a, b, c))", "", false},
	{"SELECT * FROM cart WHERE a = 1 AND b IN (1, 2) AND c IN (1, 2, 3)",
		"in_select_cartesian_product violated: The cartesian product of the IN restrictions on clustering key " +
			"produces 6 values, this exceeds warning threshold of 3.", false},
	{"SELECT * FROM cart WHERE a = 1 AND b IN (1, 2, 3) AND c IN (1, 2, 3)",
		"in_select_cartesian_product violated: Aborting query because the cartesian product of the IN restrictions " +
			"on clustering key produces 9 values, this exceeds fail threshold of 8.", true},
	{"CREATE TABLE p1 (k int PRIMARY KEY) WITH comment = 'warned'",
		"table_properties violated: Provided values [comment] are not recommended for Table Properties (warned " +
			"values are: [comment])", false},
	{"CREATE TABLE p2 (k int PRIMARY KEY) WITH gc_grace_seconds = 5",
		"table_properties violated: Provided values [gc_grace_seconds] are not allowed for Table Properties " +
			"(disallowed values are: [gc_grace_seconds])", true},
	{"CREATE TABLE p3 (k int PRIMARY KEY) WITH cdc = true",
		"table_properties violated: Ignoring provided values [cdc] as they are not supported for Table Properties " +
			"(ignored values are: [cdc])", false},
	{"CREATE KEYSPACE rf WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 5}",
		"maximum_replication_factor violated: The keyspace rf has a replication factor of 5, above the failure threshold of 3.", true},
	{"INSERT INTO cart (a, b, c) VALUES (1, 1, 1) USING TIMESTAMP 1",
		"minimum_timestamp violated: The modification to table cart has a timestamp 1 before the minimum allowable " +
			"failure threshold ", true},
	{"INSERT INTO cart (a, b, c) VALUES (1, 1, 1) USING TIMESTAMP 99999999999999999",
		"maximum_timestamp violated: The modification to table cart has a timestamp 99999999999999999 after the " +
			"maximum allowable failure threshold ", true},
}

// thresholds returns the guardrails of Cassandra's recordings and one additional guardrail.
func thresholds(t *testing.T) string {
	t.Helper()
	return recorded(t, "recorded.yaml") + "read_consistency_levels_warned: [LOCAL_ONE]\n"
}

// recorded returns the guardrails of a Cassandra recording that test/conformance replays.
func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../guardrail/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// said checks the guardrail messages of a result.
func said(t *testing.T, cql string, r *Result, says string, refused bool) {
	t.Helper()
	var found []string
	for _, w := range r.Warnings {
		if text, ok := strings.CutPrefix(w, "Guardrail "); ok {
			found = append(found, text)
		}
	}
	switch {
	case (r.Err != nil) != refused:
		t.Errorf("%s: error %v", cql, r.Err)
	case says == "" && found != nil || says != "" && (len(found) != 1 || !strings.HasPrefix(found[0], says)):
		t.Errorf("%s:\nwarns %q\n want %q", cql, found, says)
	case refused && r.Err.Error() != "Guardrail "+found[0]:
		t.Errorf("%s: the error is %q", cql, r.Err)
	}
}

func TestGuardrails(t *testing.T) {
	w := newFixture(t, Options{Guards: guards(t, thresholds(t))})
	s := w.NewSession(Client{})
	user := w.NewSession(Client{User: "super"})
	query := func(s *Session, r Request) *Result {
		r.Keyspace = []byte("ks")
		if r.Consistency == 0 {
			r.Consistency = dberr.One
		}
		return w.call(s, (*Session).Query, r)
	}
	for _, g := range guarded {
		said(t, g.cql, query(s, Request{Text: []byte(g.cql)}), g.says, g.refused)
	}
	t.Run("not every violation ends the statement", func(t *testing.T) {
		r := query(s, Request{Text: []byte("SELECT * FROM col WHERE k IN (1, 2, 3, 4, 5)")})
		want := []string{
			"Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on " +
				"partition key produces 5 values, this exceeds warning threshold of 3.",
			"Guardrail partition_keys_in_select violated: Aborting query with partition keys in IN clause on table " +
				"col, number of partition keys 5 exceeds fail threshold of 4.",
		}
		if !slices.Equal(r.Warnings, want) || r.Err == nil || r.Err.Error() != want[1] {
			t.Errorf("%q, %v", r.Warnings, r.Err)
		}
	})
	t.Run("pages", func(t *testing.T) {
		said(t, "20", query(s, Request{Text: []byte("SELECT * FROM col"), PageSize: 20}),
			"page_size violated: Query for table col with page size 20 exceeds warning threshold of 10.", false)
		said(t, "50", query(s, Request{Text: []byte("SELECT * FROM col"), PageSize: 50}),
			"page_size violated: Aborting query for table col, page size 50 exceeds fail threshold of 30.", true)
	})
	t.Run("levels", func(t *testing.T) {
		text := []byte("SELECT * FROM col")
		said(t, "LOCAL_ONE", query(s, Request{Text: text, Consistency: dberr.LocalOne}),
			"read_consistency_levels violated: Provided values [LOCAL_ONE] are not recommended for read "+
				"consistency levels (warned values are: [LOCAL_ONE])", false)
		said(t, "ALL", query(s, Request{Text: text, Consistency: dberr.All}),
			"read_consistency_levels violated: Provided values [ALL] are not allowed for read consistency levels "+
				"(disallowed values are: [ALL])", true)
		text = []byte("INSERT INTO cart (a, b, c) VALUES (1, 1, 1)")
		said(t, "ALL", query(s, Request{Text: text, Consistency: dberr.All}),
			"write_consistency_levels violated: Provided values [ALL] are not allowed for write consistency levels "+
				"(disallowed values are: [ALL])", true)
	})
	t.Run("superusers are exempt", func(t *testing.T) {
		w.opts.Authority = NewAuthority("dc1", access.ConfiguredUsers{user.client.User: ""}, false)
		for _, cql := range []string{"CREATE TABLE c7 (k int PRIMARY KEY, a int, b int, c int, d int, e int)",
			"SELECT * FROM col WHERE k IN (1, 2, 3, 4, 5)"} {
			said(t, cql, query(user, Request{Text: []byte(cql)}), "", false)
		}
	})
}

func TestFeaturesSwitchedOff(t *testing.T) {
	w := newFixture(t, Options{})
	for _, cql := range []string{
		"CREATE TABLE ks.w (k int, c int, v int, l list<int>, PRIMARY KEY (k, c))",
		"CREATE INDEX iv ON ks.w (v)",
	} {
		w.query(t, cql)
	}
	w.opts.Guards = guards(t, recorded(t, "off.yaml"))
	for _, g := range []struct{ cql, says string }{
		{"SELECT * FROM w WHERE c = 1 ALLOW FILTERING",
			"allow_filtering violated: Querying with ALLOW FILTERING is not allowed. "},
		{"SELECT k, count(*) FROM w GROUP BY k", "group_by violated: GROUP BY functionality is not allowed"},
		{"INSERT INTO w (k, c) VALUES (1, 1) USING TIMESTAMP 5",
			"user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed"},
		{"DELETE FROM w USING TIMESTAMP 5 WHERE k = 1",
			"user_timestamps violated: User provided timestamps (USING TIMESTAMP) is not allowed"},
		{"BEGIN BATCH UPDATE w USING TIMESTAMP 5 SET v = 1 WHERE k = 1 AND c = 1 APPLY BATCH",
			"user_timestamps violated: "},
		{"BEGIN BATCH USING TIMESTAMP 5 INSERT INTO w (k, c) VALUES (1, 1); APPLY BATCH", ""},
		{"TRUNCATE w", "drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"},
		{"DROP TABLE w", "drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"},
		{"DROP KEYSPACE ks", "drop_keyspace_enabled violated: DROP KEYSPACE functionality is not allowed"},
		{"CREATE INDEX ON w (c)", "secondary_indexes violated: Creating secondary indexes is not allowed"},
		{"CREATE TABLE u (k int PRIMARY KEY) WITH compression = {'enabled': false}",
			"uncompressed_tables_enabled violated: Uncompressed table is not allowed"},
		{"CREATE TABLE u (k int PRIMARY KEY) WITH COMPACT STORAGE",
			"compact_tables violated: Creation of new COMPACT STORAGE tables is not allowed"},
		{"ALTER TABLE w ADD x int", "alter_table violated: ALTER TABLE changing columns is not allowed"},
		{"UPDATE w SET l[0] = 1 WHERE k = 1 AND c = 1",
			"read_before_write_list_operations violated: Setting of list items by index requiring read before write is not allowed"},
		{"DELETE l[0] FROM w WHERE k = 1 AND c = 1",
			"read_before_write_list_operations violated: Removal of list items by index requiring read before write is not allowed"},
		{"UPDATE w SET l = l - [1] WHERE k = 1 AND c = 1",
			"read_before_write_list_operations violated: Removal of list items requiring read before write is not allowed"},
		{"UPDATE w SET l = l + [1] WHERE k = 1 AND c = 1", ""},
		{"CREATE KEYSPACE gs WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
			"simplestrategy violated: SimpleStrategy is not allowed"},
		{"CREATE TABLE tw (k int PRIMARY KEY) WITH compaction = {'class': 'TimeWindowCompactionStrategy'}",
			"zero_ttl_on_twcs violated: 0 default_time_to_live on a table with TimeWindowCompactionStrategy " +
				"compaction strategy is not allowed. "},
		{"SELECT * FROM w WHERE v = 1",
			"non_partition_restricted_index_query_enabled violated: Non-partition key restricted query is not allowed. "},
		{"SELECT * FROM w WHERE k = 1", ""},
		{"DROP INDEX iv", ""},
	} {
		r := w.call(w.NewSession(Client{}), (*Session).Query, Request{Text: []byte(g.cql), Keyspace: []byte("ks"),
			Consistency: dberr.One})
		said(t, g.cql, r, g.says, g.says != "")
	}
}

// TestGuardrailOptions checks that options have Cassandra's names and that errors contain the name of the invalid
// option.
func TestGuardrailOptions(t *testing.T) {
	for config, want := range map[string]string{
		"tables_warn_threshold: 5":               "",
		"tables_fail_threshold: -1":              "",
		"column_value_size_fail_threshold: 5MiB": "",
		"tables_warn_threshold: many":            `line 1: guardrails.tables_warn_threshold: "many" is not a number`,
		"column_value_size_fail_threshold: 5d":   `"5d" is not a size`,
		"maximum_timestamp_warn_threshold: 5KiB": `"5KiB" is not a duration`,
		"collections_per_moon_warn_threshold: 5": `line 1: unknown key ` +
			`"collections_per_moon_warn_threshold" in guardrails`,
		"tables_warn_threshold: 9\ntables_fail_threshold: 5": "guardrails.tables_warn_threshold 9 " +
			"exceeds guardrails.tables_fail_threshold 5",
		"allow_filtering_enabled: sometimes":                                 "guardrails.allow_filtering_enabled",
		"minimum_replication_factor_warn_threshold: 3\ntables_enabled: true": `unknown key "tables_enabled"`,
	} {
		var o guardrail.Options
		err := yaml.Unmarshal([]byte(config), &o)
		if err == nil {
			err = o.Validate()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
