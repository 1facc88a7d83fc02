// SPDX-License-Identifier: Apache-2.0

package read

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// TestGroupKeepsEmptyValues checks that an empty value in the first row of the first group is not converted to null.
func TestGroupKeepsEmptyValues(t *testing.T) {
	g := group{plan: &Plan{table: &schema.Table{}}, bind: &expr.Bindings{Row: [][]byte{{}, nil, {1}}},
		first: make([][]byte, 3)}
	if err := g.start(nil); err != nil {
		t.Fatal(err)
	}
	if g.first[0] == nil || g.first[1] != nil || len(g.first[2]) != 1 {
		t.Errorf("the first row is %v", g.first)
	}
}
