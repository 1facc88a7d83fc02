// SPDX-License-Identifier: Apache-2.0

package schema

import "testing"

// TestThroughput checks which throughput applies to a table. The throughput must be the table's own throughput if it
// is set, and otherwise the throughput of its keyspace. The last option counts. Both Cosmos DB's and Ilion's option
// names are accepted, but only Ilion's names can remove the throughput.
func TestThroughput(t *testing.T) {
	s, _, err := Apply(New(), &CreateKeyspace{Name: "ks", Properties: []Property{{Name: "replication", IsMap: true,
		Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if s, _, err = Apply(s, &CreateTable{Keyspace: "ks", Name: "t", PartitionKey: []string{"k"},
		Columns: []ColumnSpec{{Name: "k", Type: SpecOf(intType)}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keyspace    bool
		name, value string
		want        Throughput
	}{
		{true, "cosmosdb_provisioned_throughput", "600", Throughput{Units: 600, Shared: true}},
		{false, "throughput", "18000", Throughput{Units: 18000}},
		{false, "cosmosdb_autoscale_max_throughput", "4000", Throughput{Units: 4000, Autoscale: true}},
		{false, "cosmosdb_provisioned_throughput", "400", Throughput{Units: 400}},
		{false, "throughput", "0", Throughput{Units: 600, Shared: true}},
		{true, "autoscale_max_throughput", "5000", Throughput{Units: 5000, Shared: true, Autoscale: true}},
		{true, "throughput", "0", Throughput{}},
	} {
		p := []Property{{Name: c.name, Value: c.value}}
		var change Change = &AlterTable{Keyspace: "ks", Name: "t", Op: SetOptions, Properties: p}
		if c.keyspace {
			change = &AlterKeyspace{Name: "ks", Properties: p}
		}
		if s, _, err = Apply(s, change); err != nil {
			t.Fatal(err)
		}
		if got := s.Keyspace("ks").Throughput(s.Table("ks", "t")); got != c.want {
			t.Errorf("after %s = %s: %+v, want %+v", c.name, c.value, got, c.want)
		}
	}
}
