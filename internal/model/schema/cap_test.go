// SPDX-License-Identifier: Apache-2.0

package schema

import "testing"

// TestStorageCap checks that the cap of physical partitions can be set within its limits, changed, and removed. The
// test also checks that other values are rejected with a reason.
func TestStorageCap(t *testing.T) {
	s := withOneTable(t)
	for _, c := range []struct {
		value, wrong, text string
		bytes              uint64
	}{
		{"30", "", "30", 30e9},
		{"0.005", "", "0.005", 5e6},
		{"1000", "", "1000", 1e12},
		{"0", "", "", 0},
		{"0.0009", "storage_cap_gb must be 0.001 to 1000", "", 0},
		{"1001", "not 1001", "", 0},
		{"-1", "not -1", "", 0},
		{"NaN", "not NaN", "", 0},
		{"much", "Invalid double value much for 'storage_cap_gb'", "", 0},
	} {
		p := Property{Name: "storage_cap_gb", Value: c.value}
		next, _, err := Apply(s, &AlterTable{Keyspace: "ks", Name: "t", Op: SetOptions, Properties: []Property{p}})
		said(t, "table", p, err, c.wrong)
		if err != nil {
			continue
		}
		if o := next.Table("ks", "t").Options; o.StorageCap() != c.bytes || o.StorageCapText() != c.text {
			t.Errorf("%s is %d bytes, and shown as %q", c.value, o.StorageCap(), o.StorageCapText())
		}
	}
}

// TestAutomaticMerges checks that merges of a table's partitions can be disabled and enabled. Values other than true
// and false must be rejected.
func TestAutomaticMerges(t *testing.T) {
	s := withOneTable(t)
	for _, c := range []struct {
		value, wrong string
		off          bool
	}{
		{"false", "", true}, {"0", "automatic_merges must be true or false, not 0", true},
		{"", "must be true or false", true}, {"TRUE", "", false}, {"False", "", true}, {"true", "", false},
	} {
		p := Property{Name: "automatic_merges", Value: c.value}
		next, _, err := Apply(s, &AlterTable{Keyspace: "ks", Name: "t", Op: SetOptions, Properties: []Property{p}})
		said(t, "table", p, err, c.wrong)
		if err == nil {
			s = next
		}
		if off := s.Table("ks", "t").Options.MergesOff; off != c.off {
			t.Errorf("after %q merges are off: %v", c.value, off)
		}
	}
}

// withOneTable returns a schema with the table ks.t.
func withOneTable(t *testing.T) *Schema {
	t.Helper()
	s, _, err := Apply(New(), &CreateKeyspace{Name: "ks", Properties: []Property{{Name: "replication", IsMap: true,
		Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	key := ColumnSpec{Name: "k", Type: SpecOf(intType)}
	s, _, err = Apply(s, &CreateTable{Keyspace: "ks", Name: "t", Columns: []ColumnSpec{key},
		PartitionKey: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
