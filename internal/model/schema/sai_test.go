// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// attachedTable returns the table ks.t, which has a column of each kind of type.
func attachedTable(t *testing.T) *Schema {
	t.Helper()
	must := func(s *Schema, c Change) *Schema {
		next, _, err := Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	s := must(New(), &CreateKeyspace{Name: "ks", Properties: []Property{{Name: "replication", IsMap: true,
		Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	text, integer := &TypeSpec{Kind: cqltype.Text}, &TypeSpec{Kind: cqltype.Int}
	blob := &TypeSpec{Kind: cqltype.Blob}
	collection := func(kind cqltype.Kind, of ...*TypeSpec) *TypeSpec { return &TypeSpec{Kind: kind, Params: of} }
	vector := func(n int, of cqltype.Kind) *TypeSpec {
		return &TypeSpec{Kind: cqltype.Vector, Params: []*TypeSpec{{Kind: of}}, Dimension: n}
	}
	return must(s, &CreateTable{Keyspace: "ks", Name: "t", PartitionKey: []string{"k"}, Clustering: []string{"ck"},
		Columns: []ColumnSpec{{Name: "k", Type: integer}, {Name: "ck", Type: text}, {Name: "a", Type: integer},
			{Name: "b", Type: text}, {Name: "bl", Type: blob}, {Name: "du", Type: &TypeSpec{Kind: cqltype.Duration}},
			{Name: "m", Type: collection(cqltype.Map, text, integer)},
			{Name: "mb", Type: collection(cqltype.Map, text, blob)},
			{Name: "sb", Type: collection(cqltype.Set, blob)}, {Name: "v", Type: vector(2, cqltype.Float)},
			{Name: "v1", Type: vector(1, cqltype.Float)}, {Name: "vi", Type: vector(2, cqltype.Int)}}})
}

// TestAttachedIndexOptions checks that options of storage-attached indexes are accepted and rejected as in Cassandra
// 5.0.5.
func TestAttachedIndexOptions(t *testing.T) {
	s := attachedTable(t)
	on := func(column string, target IndexTarget) []TargetSpec { return []TargetSpec{{column, target}} }
	for _, tc := range []struct {
		targets []TargetSpec
		class   string
		options []Entry
		want    string
	}{
		{on("a", IndexValue), "sai", nil, ""},
		{on("a", IndexValue), "SAI", []Entry{}, ""},
		{on("a", IndexValue), "storageAttachedIndex", nil, ""},
		{on("a", IndexValue), "org.apache.cassandra.index.sai.StorageAttachedIndex", nil, ""},
		{on("a", IndexValue), "org.apache.cassandra.index.sai.storageattachedindex", nil,
			"Unable to find custom indexer class 'org.apache.cassandra.index.sai.storageattachedindex'"},
		{on("a", IndexValue), "", nil, "Unable to find custom indexer class ''"},
		{on("a", IndexValue), "org.apache.cassandra.index.sasi.SASIIndex", nil,
			"SASI indexes are disabled. Enable in cassandra.yaml to use."},
		{on("ck", IndexValue), "sai", nil, ""},
		{on("ck", IndexValue), "sai", []Entry{{"case_sensitive", "false"}, {"ascii", "true"}},
			"Analysis options are not supported on primary key columns, but found {'ascii': 'true', " +
				"'case_sensitive': 'false'}"},
		{on("b", IndexValue), "sai", []Entry{{"case_sensitive", ""}},
			"Empty value for boolean option 'case_sensitive'"},
		{on("b", IndexValue), "sai", []Entry{{"ascii", "y"}, {"case_sensitive", "x"}},
			"Illegal value for boolean option 'case_sensitive': x"},
		{on("b", IndexValue), "sai", []Entry{{"normalize", "TRUE"}}, ""},
		{on("b", IndexValue), "sai", []Entry{{"nosuch", "x"}},
			"Properties specified [nosuch] are not understood by StorageAttachedIndex"},
		{on("b", IndexValue), "sai", []Entry{{"target", "x"}}, "Cannot specify target as a CUSTOM option"},
		{on("b", IndexValue), "sai", []Entry{{"class_name", "x"}}, "Cannot specify class_name as a CUSTOM option"},
		{on("b", IndexValue), "sai", []Entry{{"similarity_function", "cosine"}},
			"CQL type text cannot have vector options"},
		{on("bl", IndexValue), "sai", []Entry{{"ascii", "true"}}, "CQL type blob cannot be analyzed."},
		{on("bl", IndexValue), "sai", nil, "Unsupported type: blob"},
		{on("du", IndexValue), "sai", nil, "Secondary indexes are not supported on duration columns"},
		{on("sb", IndexValue), "sai", nil, "Unsupported type: blob"},
		{on("mb", IndexEntries), "sai", nil, "Unsupported type: blob"},
		{on("mb", IndexKeys), "sai", nil, ""},
		{on("m", IndexKeys), "sai", []Entry{{"case_sensitive", "false"}}, ""},
		{on("m", IndexValues), "sai", []Entry{{"case_sensitive", "false"}}, "CQL type int cannot be analyzed."},
		{on("m", IndexEntries), "sai", []Entry{{"case_sensitive", "false"}},
			"CQL type 'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.UTF8Type," +
				"org.apache.cassandra.db.marshal.Int32Type)' cannot be analyzed."},
		{nil, "sai", nil, "Failed to retrieve target column for: "},
		{[]TargetSpec{{"m", IndexKeys}, {"a", IndexValue}}, "sai", nil,
			"A storage-attached index cannot be created over multiple columns: keys(m), a"},
		{[]TargetSpec{{"a", IndexValue}, {"a", IndexValue}}, "sai", nil, "Duplicate column 'a' in index target list"},
		{on("v", IndexValue), "sai", []Entry{{"similarity_function", "Dot_Product"}}, ""},
		{on("v", IndexValue), "sai", []Entry{{"similarity_function", ""}},
			"Similarity function  was not recognized for index null. Valid values are: EUCLIDEAN, DOT_PRODUCT, COSINE"},
		{on("v", IndexValue), "sai", []Entry{{"maximum_node_connections", "16"}},
			"Maximum node connections cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS"},
		{on("v", IndexValue), "sai", []Entry{{"optimize_for", "x"}},
			"optimize_for 'X' was not recognized for index null. Valid values are: LATENCY, RECALL"},
		{on("v1", IndexValue), "sai", nil, "Cosine similarity is not supported for single-dimension vectors"},
		{on("vi", IndexValue), "sai", nil, "SAI ANN indexes are only allowed on vector columns with float elements"},
	} {
		c := &CreateIndex{Keyspace: "ks", Table: "t", Name: "i", Targets: tc.targets, Custom: true, Class: tc.class,
			HasClass: true}
		if tc.options != nil {
			c.Properties = []Property{{Name: "options", IsMap: true, Map: tc.options}}
		}
		next, _, err := Apply(s, c)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%v %q %v: %q, want %q", tc.targets, tc.class, tc.options, got, tc.want)
		}
		if err != nil {
			continue
		}
		ix := next.Table("ks", "t").Indexes["i"]
		if !ix.Attached() || ix.ID&keys.OrderedIndex == 0 || ix.Options["class_name"] != tc.class {
			t.Errorf("the index is %+v", ix)
		}
	}
}

// TestOneAttachedIndex checks that a target has at most one storage-attached index in addition to a legacy index. The
// spelling of the index class must not matter. The test also checks that the number of warnings about vector indexes
// is the same as in Cassandra.
func TestOneAttachedIndex(t *testing.T) {
	s := attachedTable(t)
	create := func(name, column, class string) error {
		c := &CreateIndex{Keyspace: "ks", Table: "t", Name: name, Targets: []TargetSpec{{Column: column}},
			Custom: class != "", Class: class, HasClass: class != ""}
		vectors := s.Table("ks", "t").VectorIndexes()
		next, _, err := Apply(s, c)
		if err == nil {
			s = next
		}
		now := s.Table("ks", "t").VectorIndexes()
		if c.Examined != now && c.Examined != 0 || c.Examined < vectors && err == nil {
			t.Errorf("%s: %d indexes on vectors were examined, there are %d", name, c.Examined, now)
		}
		return err
	}
	for _, tc := range []struct{ name, column, class, want string }{
		{"i1", "a", "sai", ""},
		{"i2", "a", "", ""},
		{"i3", "a", "sai", "Index i3 is a duplicate of existing index i1"},
		{"i4", "a", "StorageAttachedIndex", "Cannot create more than one storage-attached index on the same column: a"},
		{"i1", "b", "sai", "Index 'i1' already exists"},
		{"i-5", "b", "sai", "Illegal index name i-5"},
		{"i6", "v", "sai", ""},
		{"i7", "b", "nosuch", "Unable to find custom indexer class 'nosuch'"},
		{"i8", "b", "sai", ""},
	} {
		got := ""
		if err := create(tc.name, tc.column, tc.class); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	table := s.Table("ks", "t")
	if v, a := table.Column("v"), table.Column("a"); table.ANNIndex(v) == nil || table.ANNIndex(a) != nil {
		t.Error("the index on vectors is not found")
	}
}
