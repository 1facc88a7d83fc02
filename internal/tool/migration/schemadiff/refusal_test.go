// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"strings"
	"testing"
)

// TestRefusal checks that a statement from the source is executed only if it creates the object that it describes.
// Unsupported objects are rejected with the reason.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		object Object
		reason string // the beginning of the reason; "" if it is not refused
	}{
		{Object{"ks", Table, "t", "CREATE TABLE ks.t (k int PRIMARY KEY) WITH comment = 'a';", "t"}, ""},
		{Object{"ks", Keyspace, "ks", "CREATE KEYSPACE ks WITH replication = {'class': 'LocalStrategy'};", ""}, ""},
		{Object{"ks", Function, "f(int)", "CREATE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int " +
			"LANGUAGE java AS $$return a;$$;", ""}, ""},
		{Object{"ks", Index, "i", "CREATE CUSTOM INDEX i ON ks.t (v) USING 'StorageAttachedIndex';", "t"}, ""},
		{Object{"ks", Index, "i", "CREATE CUSTOM INDEX i ON ks.t (v) USING 'org.example.SASIIndex';", "t"},
			"unsupported index class org.example.SASIIndex"},
		{Object{"ks", Function, "f(int)", "CREATE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int " +
			"LANGUAGE scala AS $$a$$;", ""}, "unsupported function language scala"},
		{Object{"ks", "trigger", "x", "CREATE TRIGGER x ON ks.t USING 'c'", "t"}, "this kind of object is not"},
		{Object{"ks", Table, "t", "DROP KEYSPACE other", "t"}, "this kind of object is not"},
		{Object{"ks", Table, "t", "CREATE ROLE m WITH SUPERUSER = true", "t"}, "this kind of object is not"},
		{Object{"ks", Table, "t", "CREATE TABLE other.t (k int PRIMARY KEY)", "t"}, "the source returned a statement"},
		{Object{"ks", Table, "t", "CREATE TABLE ks.u (k int PRIMARY KEY)", "t"}, "the source returned a statement"},
		{Object{"ks", Table, "t", "CREATE TYPE ks.t (k int)", "t"}, "the source returned a statement"},
		{Object{"ks", Function, "f(int)", "CREATE OR REPLACE FUNCTION ks.f(a int) CALLED ON NULL INPUT RETURNS int " +
			"LANGUAGE java AS $$return a;$$;", ""}, "the source returned a statement"},
		{Object{"ks", Index, "i", "CREATE INDEX i ON other.t (v)", "t"}, "the source returned a statement"},
		{Object{"ks", Table, "t", "CREATE TABLE ks.t (k int PRIMARY KEY); DROP TABLE ks.u", "t"}, "cannot parse"},
	} {
		got := refusal(c.object)
		if !strings.HasPrefix(got, c.reason) || (got == "") != (c.reason == "") {
			t.Errorf("%s: %q, not %q", c.object.Text, got, c.reason)
		}
	}
}

// TestCompact checks that a table WITH COMPACT STORAGE is created without changes. Cassandra describes such a table in
// a comment that contains the clustering order of a column that does not exist.
func TestCompact(t *testing.T) {
	const was = "/*\nWarning: Table ks.t omitted because it has constructs not compatible with CQL.\n\n" +
		"CREATE TABLE ks.t (\n    k int,\n    v int,\n    PRIMARY KEY (k)\n) WITH COMPACT STORAGE\n" +
		"    AND CLUSTERING ORDER BY (column1 ASC)\n    AND comment = '';\n*/"
	o := Object{"ks", Table, "t", compact(was), "t"}
	if why := refusal(o); why != "" || strings.Contains(o.Text, "column1") {
		t.Errorf("%s: %s", o.Text, why)
	}
	const own = "CREATE TABLE ks.t (\n    k int,\n    column1 int,\n    PRIMARY KEY (k, column1)\n) WITH COMPACT STORAGE\n" +
		"    AND CLUSTERING ORDER BY (column1 ASC)\n"
	if text := compact("/*" + own + "*/"); text != own {
		t.Errorf("the statement is now %s", text)
	}
}
