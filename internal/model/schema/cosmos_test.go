// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"testing"
)

// TestCosmosOptions checks that Cosmos DB options are stored if Cosmos DB accepts them. Otherwise, the error must name
// the option.
func TestCosmosOptions(t *testing.T) {
	replication := Property{Name: "replication", IsMap: true, Map: []Entry{{"class", "SimpleStrategy"},
		{"replication_factor", "1"}}}
	for _, c := range []struct {
		p               Property
		table, keyspace string // the expected errors, or empty
	}{
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "400"}, "", ""},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "18000"}, "", ""},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "300"}, "from 400", "from 400"},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "450"}, "in steps of 100", "in steps of 100"},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "abc"}, "not abc", "not abc"},
		{Property{Name: "cosmosdb_provisioned_throughput", IsMap: true}, "should be a string", "should be a string"},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "1000100"}, "to 1000000 request",
			"to 1000000 request"},
		{Property{Name: "cosmosdb_provisioned_throughput", Value: "0"}, "from 400", "from 400"},
		{Property{Name: "throughput", Value: "50"}, "throughput must be from 400", "must be from 400"},
		{Property{Name: "cosmosdb_autoscale_max_throughput", Value: "4000"}, "", ""},
		{Property{Name: "cosmosdb_autoscale_max_throughput", Value: "900"}, "from 1000", "from 1000"},
		{Property{Name: "cosmosdb_cell_level_timestamp", Value: "True"}, "", "Unknown property"},
		{Property{Name: "cosmosdb_cell_level_timestamp", Value: "1"}, "must be true or false", "Unknown property"},
		{Property{Name: "cosmosdb_nosuch", Value: "1"}, "Unknown property 'cosmosdb_nosuch'",
			"Unknown property 'cosmosdb_nosuch'"},
	} {
		s, _, err := Apply(New(), &CreateKeyspace{Name: "ks", Properties: []Property{replication, c.p}})
		said(t, "keyspace", c.p, err, c.keyspace)
		if err == nil && s.Keyspace("ks").Options[c.p.Name] != c.p.Value {
			t.Errorf("%v of the keyspace is not kept", c.p)
		}
		s, _, err = Apply(New(), &CreateKeyspace{Name: "ks", Properties: []Property{replication}})
		if err != nil {
			t.Fatal(err)
		}
		integer := ColumnSpec{Name: "k", Type: SpecOf(intType)}
		s, _, err = Apply(s, &CreateTable{Keyspace: "ks", Name: "t", Columns: []ColumnSpec{integer},
			PartitionKey: []string{"k"}, Properties: []Property{c.p}})
		said(t, "table", c.p, err, c.table)
		if err == nil && s.Table("ks", "t").Options.Cosmos[c.p.Name] != c.p.Value {
			t.Errorf("%v of the table is not kept", c.p)
		}
	}
}

// TestOneThroughput checks that a statement cannot set both a fixed and an automatic throughput, in any spelling.
// Setting one kind of throughput must replace the other kind.
func TestOneThroughput(t *testing.T) {
	replication := Property{Name: "replication", IsMap: true, Map: []Entry{{"class", "SimpleStrategy"},
		{"replication_factor", "1"}}}
	for _, manual := range []string{cosmosThroughput, ownThroughput} {
		for _, autoscale := range []string{cosmosAutoscale, ownAutoscale} {
			both := []Property{{Name: autoscale, Value: "4000"}, {Name: manual, Value: "400"}}
			_, _, err := Apply(New(), &CreateKeyspace{Name: "ks", Properties: append(both, replication)})
			if err == nil || !strings.Contains(err.Error(), manual+" and "+autoscale+" cannot both be set") {
				t.Errorf("keyspace with %s and %s: %v", manual, autoscale, err)
			}
			s, _, err := Apply(New(), &CreateKeyspace{Name: "ks", Properties: []Property{replication, both[0]}})
			if err != nil {
				t.Fatal(err)
			}
			create := &CreateTable{Keyspace: "ks", Name: "t", Columns: []ColumnSpec{{Name: "k", Type: SpecOf(intType)}},
				PartitionKey: []string{"k"}, Properties: both}
			if _, _, err := Apply(s, create); err == nil {
				t.Errorf("table with %s and %s was created", manual, autoscale)
			}
			s, _, err = Apply(s, &AlterKeyspace{Name: "ks", Properties: both[1:]})
			if err != nil {
				t.Fatal(err)
			}
			if got := throughputIn(s.Keyspace("ks").Options); got != (Throughput{Units: 400}) {
				t.Errorf("after %s = 400: %+v", manual, got)
			}
		}
	}
}

func said(t *testing.T, what string, p Property, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v of a %s: %v, want %q", p, what, err, want)
	}
}
