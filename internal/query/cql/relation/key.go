// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// PartitionMarkers returns the indexes of the partition key markers in a WHERE clause in key order. It returns nil
// unless all components are markers. If a component has several markers, it returns the last marker.
func PartitionMarkers(relations []parser.Relation, table *schema.Table) []uint16 {
	indexes := make([]uint16, len(table.PartitionKey))
	found := make(map[int]bool, len(indexes))
	for i := range relations {
		r := &relations[i]
		if r.Kind != parser.SingleColumn || r.Key != nil {
			continue
		}
		c := table.ByName[r.Columns[0].Name]
		if c == nil || c.Kind != schema.PartitionKey {
			continue
		}
		values := r.Values
		if r.Op != parser.In {
			values = []parser.Term{r.Value}
		}
		for _, v := range values {
			if m, ok := v.(*parser.Marker); ok {
				indexes[c.Position] = uint16(m.Index)
				found[c.Position] = true
			}
		}
	}
	if len(found) < len(indexes) {
		return nil
	}
	return indexes
}
