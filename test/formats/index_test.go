// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/container"
)

// indexed holds the items of TestIndexForm.
var indexed = []string{
	`{"id":"1","k":"k","n":1.5,"s":"text","b":true,"z":null,"o":{"a b":[1,"x",{"y":-2}]},"e":"\u0000\u0001"}`,
	`{"id":"2","n":-0,"s":"` + strings.Repeat("long ", 30) + `","o":{}}`,
	`{"id":"3","many":[` + strings.Repeat("1,", 1000) + `1]}`,
}

// compositeIndexes are the members of a definition with composite indexes. textIndexes are the members of a definition
// with full-text indexes, and texts holds its items.
const (
	compositeIndexes = `"indexingPolicy":{"compositeIndexes":[[{"path":"/n"},{"path":"/o/\"a b\"","order":"descending"}],
		[{"path":"/s","order":"descending"},{"path":"/e"},{"path":"/_ts"}]]}`
	textIndexes = `"fullTextPolicy":{"fullTextPaths":[{"path":"/t"},{"path":"/o/\"a b\"","language":"de-DE"}]},
		"indexingPolicy":{"includedPaths":[],"excludedPaths":[{"path":"/*"}],
		"fullTextIndexes":[{"path":"/t"},{"path":"/o/\"a b\""}]}`
)

var texts = []string{
	`{"id":"1","k":"k","t":"The mountain's bicycles, and red mountains","o":{"a b":"Die Stra\u00dfe"}}`,
	`{"id":"2","k":"k","t":["red"],"o":{"a b":""}}`,
	`{"id":"3","k":"k","t":"` + manyWords() + `"}`,
}

// manyWords returns a text with more terms than an index contains for an item.
func manyWords() string {
	var out strings.Builder
	for i := range 2001 {
		fmt.Fprintf(&out, "w%d ", i)
	}
	return out.String()
}

// indexForm returns the keys of the items' index entries as text. members are members of the container's definition.
func indexForm(t *testing.T, members string, items []string) string {
	t.Helper()
	d, bad := container.ParseDefinition([]byte(`{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},` +
		members + `}`))
	if bad != nil {
		t.Fatal(bad)
	}
	s := schema.New()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Name: "d", Properties: []schema.Property{{Name: "replication", IsMap: true,
			Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}}}},
		&schema.CreateContainer{Keyspace: "d", Name: "c", Indexed: true, Texts: true, Container: schema.Container{
			ID: "c", Paths: d.Paths, Scheme: d.Hash, Definition: json.RawMessage(d.JSON)}},
	} {
		var err error
		if s, _, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	table := s.Table("d", "c")
	var out strings.Builder
	var definitions container.Definitions
	for i, body := range items {
		r := &row.Row{Cells: []row.Cell{{Column: table.ByName[schema.ItemBody].ID, Value: []byte(body)}}}
		clustering := table.Clustering[0].Type.AppendKey(nil, []byte(fmt.Sprint(i+1)), false)
		ops, err := definitions.IndexOps(table, table.DocumentIndex(), nil, clustering, r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, body)
		for _, op := range ops {
			key := epk.AppendKey(nil, epk.Key{epk.Text("k")})
			fmt.Fprintf(&out, "\t%q %x\n", op.Value, keys.AppendIndex(nil, keys.OrderedIndex|7, op.Value,
				token.Token(5), key, op.Clustering))
		}
	}
	return out.String()
}

// TestIndexForm checks that the index entries of items equal the entries that earlier builds of this format have
// written. Otherwise, reads would not find the existing entries.
func TestIndexForm(t *testing.T) {
	compareIndexForm(t, "index.txt", indexForm(t, compositeIndexes, indexed))
}

// TestTextIndexForm works like TestIndexForm for the entries of full-text indexes, which feature level 10 introduced.
func TestTextIndexForm(t *testing.T) {
	compareIndexForm(t, "indextexts.txt", indexForm(t, textIndexes, texts))
}

// compareIndexForm compares index entries with a fixture.
func compareIndexForm(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join(present, name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("the format of index entries has changed:\n%s\nwant\n%s", got, want)
	}
}
