// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Definitions caches the parsed definitions of containers, one for each revision. The zero value is ready for use. It
// is safe for concurrent use.
type Definitions struct {
	parsed sync.Map // of *Definition by *schema.Table
	count  atomic.Int64
}

// definitionsMax is the maximum number of cached definitions. When this limit is reached, the cache is cleared.
const definitionsMax = 10_000

// of returns the definition of a container's table.
func (d *Definitions) of(t *schema.Table) *Definition {
	if def, ok := d.parsed.Load(t); ok {
		return def.(*Definition)
	}
	def := viewDefinition(t.Container.Definition)
	for _, old := range t.Container.Before {
		def.before = append(def.before, &viewDefinition(old).Index)
	}
	if d.count.Add(1) > definitionsMax {
		d.parsed.Clear()
		d.count.Store(1)
	}
	d.parsed.Store(t, def)
	return def
}

// IndexValues extends expr.IndexValues to container indexes.
func (d *Definitions) IndexValues(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([][]byte,
	error) {
	if t.Container == nil {
		return expr.IndexValues(t, ix, key, clustering, r)
	}
	body := r.Cell(t.ByName[schema.ItemBody].ID)
	if ix.Kind == schema.DocumentKind && body != nil {
		e := entries{policy: &d.of(t).Index, texts: ix.Texts()}
		return e.of(body.Value, timeOf(t, r)), nil
	}
	for n, paths := range d.of(t).unique {
		if unique := t.UniqueIndex(n); unique != nil && ix.ID == unique.ID && body != nil {
			return [][]byte{appendUnique(nil, paths, body.Value)}, nil
		}
	}
	return nil, nil
}

// IndexOps extends expr.IndexOps to container indexes.
func (d *Definitions) IndexOps(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op,
	error) {
	if t.Container == nil {
		return expr.IndexOps(t, ix, key, clustering, r)
	}
	values, err := d.IndexValues(t, ix, key, clustering, r)
	ops := make([]command.Op, len(values))
	for i, v := range values {
		ops[i] = command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID, Value: v}
	}
	return ops, err
}

// Index returns the description of a container index for the store. The description does not depend on the policy,
// because a node may know an older policy than the nodes that write and read.
func (d *Definitions) Index(t *schema.Table, ix *schema.Index) storage.Index {
	body := t.ByName[schema.ItemBody].ID
	value := func(r *row.Row, like []byte) []byte {
		cell := r.Cell(body)
		if cell == nil {
			return nil
		}
		return valueAt(cell.Value, timeOf(t, r), like)
	}
	return storage.Index{ID: ix.ID, Value: value, Holds: func(r *row.Row, v []byte) bool {
		cell := r.Cell(body)
		return cell != nil && hasEntry(cell.Value, timeOf(t, r), v)
	}}
}

// timeOf returns the modification time of an item in seconds.
func timeOf(t *schema.Table, r *row.Row) int64 {
	if cell := r.Cell(t.ByName[schema.ItemTime].ID); cell != nil && len(cell.Value) == 8 {
		return int64(binary.BigEndian.Uint64(cell.Value)) / 1000
	}
	return 0
}
