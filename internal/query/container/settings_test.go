// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// TestRootOfIndex checks that the root of an indexing policy may be written as / with the index kinds of early API
// versions. The test also checks that the paths below the root keep their own rules.
func TestRootOfIndex(t *testing.T) {
	d, e := ParseDefinition([]byte(`{"id":"c","indexingPolicy":{"includedPaths":[{"path":"/","indexes":[
		{"kind":"Hash","dataType":"Number","precision":2},{"kind":"range","dataType":"String"}]}],
		"excludedPaths":[{"path":"/\"systemMetadata\"/*"}]}}`))
	if e != nil {
		t.Fatal(e)
	}
	for path, want := range map[string]bool{"/a": true, "/a/b": true, "/systemMetadata/a": false} {
		p, err := document.ParseIndexPath(path + "/?")
		if err != nil {
			t.Fatal(err)
		}
		if d.Index.Includes(p.Steps) != want {
			t.Errorf("%s is indexed: %v, want %v", path, !want, want)
		}
	}
	if _, e := ParseDefinition([]byte(`{"id":"c","indexingPolicy":{"includedPaths":[{"path":"/"}],
		"excludedPaths":[{"path":"/*"}]}}`)); e == nil {
		t.Error("the root was accepted as both included and excluded")
	}
}

// TestSettingsWithoutEffect checks that a definition is rejected if its settings have no effect in Ilion or have values
// that Cosmos DB rejects. The test also checks that the values that SDKs send for unset settings are accepted.
func TestSettingsWithoutEffect(t *testing.T) {
	for _, bad := range []string{
		`"computedProperties":{"name":"l"}`,
		`"computedProperties":[` + strings.Repeat("1,", 20) + `1]`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v/*","dataType":"float32","dimensions":3}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"dataType":"float32","dimensions":3}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v"},{"path":"/v"}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"text"}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":4097}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":1.5}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","distanceFunction":"l1"}]}`,
		`"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dimensions":3}]},` +
			`"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"tree"}]}`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v"}]},` +
			`"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}]}`,
		`"fullTextPolicy":{"defaultLanguage":"tlh"}`,
		`"fullTextPolicy":[{"path":"/t"}]`,
		`"fullTextPolicy":{"fullTextPaths":{"path":"/t"}}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t","language":"en"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t/*"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t/[]"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"language":"en-US"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t"},{"path":"/t"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[` + strings.Repeat("1,", 100) + `1]}`,
		`"indexingPolicy":{"fullTextIndexes":[{"path":"/t"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":{"fullTextIndexes":{"path":"/t"}}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/u"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/t/?"}]}`,
		`"fullTextPolicy":{"fullTextPaths":[{"path":"/t"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/t"},` +
			`{"path":"/t"}]}`,
		`"indexingPolicy":{"spatialIndexes":[{"path":"/p/*","types":["Circle"]}]}`,
		`"indexingPolicy":{"spatialIndexes":[{"types":["Point"]}]}`,
		`"clientEncryptionPolicy":{"includedPaths":[{"path":"/s"}]}`,
		`"analyticalStorageTtl":-1`,
		`"conflictResolutionPolicy":{"mode":"Whatever"}`,
		`"geospatialConfig":{"type":"Flat"}`,
		`"indexingPolicy":{"includedPaths":[{"path":"/*","indexes":[{"kind":"Tree","dataType":"String"}]}]}`,
		`"indexingPolicy":{"includedPaths":[{"path":"/*","indexes":[{"kind":"Hash","dataType":"Date"}]}]}`,
		`"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/a/?","indexes":"Hash"}]}`,
	} {
		if _, e := ParseDefinition([]byte(`{"id":"c",` + bad + `}`)); e == nil || e.Status != 400 {
			t.Errorf("%s: %v", bad, e)
		}
	}
	for _, good := range []string{
		`"computedProperties":null,"vectorEmbeddingPolicy":{},"fullTextPolicy":null,"analyticalStorageTtl":0`,
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","distanceFunction":"cosine",` +
			`"dimensions":3},{"path":"/a/w","distanceFunction":"dotProduct"}]},"indexingPolicy":{"vectorIndexes":[` +
			`{"path":"/v","type":"flat"},{"path":"/a/w","type":"diskANN"}]}`,
		`"indexingPolicy":{"vectorIndexes":[],"spatialIndexes":[],"fullTextIndexes":null}`,
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t"},{"path":"/a/b","language":"de-DE"}]},` +
			`"indexingPolicy":{"fullTextIndexes":[{"path":"/t"},{"path":"/a/b"}]}`,
		`"fullTextPolicy":{"defaultLanguage":"fr-fr","fullTextPaths":[]}`,
		`"conflictResolutionPolicy":{"mode":"custom","conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s"}`,
		`"geospatialConfig":{"type":"Geometry"}`,
		`"indexingPolicy":{"spatialIndexes":[{"path":"/p/*","types":["Point","MultiPolygon"]}]}`,
	} {
		if _, e := ParseDefinition([]byte(`{"id":"c",` + good + `}`)); e != nil {
			t.Errorf("%s: %v", good, e)
		}
	}
}
