// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// indexedBytesMax is one more than the maximum length of an indexed value.
const indexedBytesMax = 65535

// index is a secondary index and the indexed column.
type index struct {
	*schema.Index
	column *schema.Column
	form   expr.IndexForm
	// lists holds the lists of a vector index.
	lists schema.Lists
}

// indexesOf returns the indexes of a table in ascending order of their IDs. It omits indexes on collections of vectors.
func indexesOf(t *schema.Table) []*index {
	var out []*index
	for _, ix := range t.Indexes {
		if c := t.ByName[ix.Column]; c != nil && (ix.SupportsANN(c) || !t.OfVectors(ix)) {
			i := len(out)
			for i > 0 && out[i-1].ID > ix.ID {
				i--
			}
			out = append(out[:i], append([]*index{{ix, c, expr.FormOf(c, ix), ix.ListsOf(c)}}, out[i:]...)...)
		}
	}
	return out
}

// addIndexValue adds an index entry for a value. It copies the value.
func (x *changes) addIndexValue(g *group, ix *index, clustering, value []byte) error {
	if ix.SupportsANN(ix.column) {
		return x.addVectorEntries(g, ix, clustering, value)
	}
	begin := len(x.arena)
	x.arena = ix.form.Append(x.arena, value)
	return x.addIndexEntry(g, ix, clustering, x.arena.tail(begin))
}

// addIndexEntry adds an index entry for the index form of a value. The execution retains the value.
func (x *changes) addIndexEntry(g *group, ix *index, clustering, value []byte) error {
	if len(value) >= indexedBytesMax {
		t := g.table
		return dberr.Invalidf("Cannot index value of size %d for index %s on %s.%s(%s) (maximum allowed size=%d)",
			len(value), ix.Name,
			t.Keyspace, t.Name, ix.column.Name, indexedBytesMax)
	}
	if ix.column.Kind == schema.Static {
		clustering = nil
	}
	g.ops = append(g.ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID, Value: value})
	return nil
}

// addElementEntries adds the entries for an element of a multi-cell column. For a list, key is nil.
func (x *changes) addElementEntries(g *group, o *operation, clustering, key, value []byte) error {
	for _, ix := range o.indexes {
		begin := len(x.arena)
		switch {
		case ix.Target == schema.IndexEntries:
			x.arena = ix.form.AppendEntry(x.arena, key, value)
		case ix.Target == schema.IndexKeys || o.column.Type.Kind == cqltype.Set:
			x.arena = ix.form.Append(x.arena, key)
		default:
			x.arena = ix.form.Append(x.arena, value)
		}
		if err := x.addIndexEntry(g, ix, clustering, x.arena.tail(begin)); err != nil {
			return err
		}
	}
	return nil
}

// addKeyEntries adds the entries of indexes on key columns. It adds entries for the row and the static row if the
// statement may create these rows.
func (x *changes) addKeyEntries(p *Plan, t *target) error {
	if p.writesRows && (x.putRow || !x.row.Empty()) {
		if err := x.addKeyColumnEntries(p, t.group, t.clustering); err != nil {
			return err
		}
	}
	if len(p.table.Statics) > 0 && (x.putStatic || !x.header.Empty()) {
		return x.addKeyColumnEntries(p, t.group, nil)
	}
	return nil
}

// addKeyColumnEntries adds the entries of indexes on key columns for a written row. The clustering key of the static
// row is nil. For the static row, addKeyColumnEntries adds only entries for partition key columns.
func (x *changes) addKeyColumnEntries(p *Plan, g *group, clustering []byte) error {
	for _, ix := range p.indexes {
		var v []byte
		var err error
		switch ix.column.Kind {
		case schema.PartitionKey:
			v, err = expr.PartitionKeyValue(p.table, g.key, ix.column.Position)
		case schema.Clustering:
			if clustering == nil {
				continue
			}
			v, err = expr.ClusteringValue(p.table, clustering, ix.column.Position)
		default:
			continue
		}
		if err == nil && v != nil {
			err = x.addIndexValue(g, ix, clustering, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addVectorEntries adds the ANN index entries of a vector. It adds one entry for each set of lists in use.
func (x *changes) addVectorEntries(g *group, ix *index, clustering, value []byte) error {
	v, ok := ix.column.Type.Floats(nil, value)
	if !ok {
		return nil
	}
	if err := ix.Similarity().Check(v); err != nil {
		return &dberr.WriteFailure{Level: dberr.One, BlockFor: 1, Failures: 1, WriteType: "SIMPLE",
			Message: "index " + ix.Name + ": " + err.Error()}
	}
	for _, l := range ix.lists {
		if l.None() {
			continue
		}
		begin := len(x.arena)
		x.arena = l.AppendEntry(x.arena, v, g.table.Token(g.key).Position())
		g.ops = append(g.ops, command.Op{Kind: command.OpIndex, Clustering: clustering, Index: ix.ID,
			Value: x.arena.tail(begin)})
	}
	return nil
}
