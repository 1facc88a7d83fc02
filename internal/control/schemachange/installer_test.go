// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/catalog"
)

// TestFirstChange proves that clients hear of the first change of a cluster's schema, and not of the system keyspaces that are recorded with it.
func TestFirstChange(t *testing.T) {
	empty := schema.New()
	next, _, err := schema.Apply(catalog.WithSystem(empty), &schema.CreateKeyspace{Name: "ks", Properties: []schema.Property{
		{Name: "replication", IsMap: true, Map: []schema.Entry{{Key: "class", Value: "SimpleStrategy"}, {Key: "replication_factor", Value: "1"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Event{{Change: schema.Created, Target: schema.TargetKeyspace, Keyspace: "ks"}}
	installer := Installer{Whole: catalog.WithSystem}
	if got := installer.happened(empty, next); !slices.Equal(got, want) {
		t.Errorf("clients are told %v", got)
	}
}
