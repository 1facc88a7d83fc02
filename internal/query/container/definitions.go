// SPDX-License-Identifier: Apache-2.0

package container

import (
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// Definitions keeps the definitions of containers, which are parsed once for each revision. The zero value is ready for
// use, by many goroutines at once.
type Definitions struct {
	parsed sync.Map // of *Definition by *schema.Table
	count  atomic.Int64
}

// definitionsMax bounds the definitions that are kept; then all are parsed anew.
const definitionsMax = 10_000

// of is the definition of a container's table.
func (d *Definitions) of(t *schema.Table) *Definition {
	if def, ok := d.parsed.Load(t); ok {
		return def.(*Definition)
	}
	def := viewDefinition(t.Container.Definition)
	if d.count.Add(1) > definitionsMax {
		d.parsed.Clear()
		d.count.Store(1)
	}
	d.parsed.Store(t, def)
	return def
}

// IndexValues is expr.IndexValues, for the indexes of containers as well.
func (d *Definitions) IndexValues(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([][]byte,
	error) {
	if ix.Kind != schema.UniqueKind || t.Container == nil {
		return expr.IndexValues(t, ix, key, clustering, r)
	}
	body := r.Cell(t.ByName[schema.ItemBody].ID)
	for n, paths := range d.of(t).unique {
		if ix.ID == t.UniqueIndex(n).ID && body != nil {
			return [][]byte{appendUnique(nil, paths, body.Value)}, nil
		}
	}
	return nil, nil
}
