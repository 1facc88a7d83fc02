// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// dataSizes holds the overheads that Cassandra adds to the sizes of values, paths, and clustering columns. Cassandra
// uses these overheads to compute the size of a batch. Operators know Cassandra's batch sizes, so the batch limits and
// warnings use the same sizes.
type dataSizes struct {
	update int // a logical partition, including the partition deletion and the header of the static row
	row    int
	ttl    int // the TTL of a row marker
	cell   int // a live or deleted cell
	ranges bool
}

var (
	// sizes50 holds the sizes of Cassandra 5.0. sizes40 holds the sizes of Cassandra 4.0, which counts only cells.
	sizes50 = dataSizes{update: 29, row: 21, ttl: 12, cell: 20, ranges: true}
	sizes40 = dataSizes{cell: 16}
)

// These sizes are equal in all releases.
const (
	// dataCollection is the overhead of a multi-cell column. In a map or set, the path of a cell is the key. In a list,
	// the size of a path is dataListPath. In a user-defined type, the size of a path is dataFieldPath.
	dataCollection = 12
	dataListPath   = 16
	dataFieldPath  = 2
	dataCounter    = 36 // the value of a counter
	dataRanges     = 4  // the overhead of all deleted ranges, in addition to dataRange per range
	dataRange      = 12
)

func (o *Options) dataSizes() *dataSizes {
	if o.CellSizes {
		return &sizes40
	}
	return &sizes50
}

// sizeMayExceed reports whether the data may exceed size. It does not decode the operands, but estimates that each
// operand byte represents at most byteMost bytes.
func (s *groupSet) sizeMayExceed(of *dataSizes, size int) bool {
	const cellLeast = 3 // the minimum size of a cell in an operand, in bytes
	byteMost := (dataCollection + of.cell + cellLeast - 1) / cellLeast
	most := 0
	for i := range s.all() {
		g := &s.list[i]
		most += of.update
		for j := range g.ops {
			most += of.row + of.ttl + byteMost*(len(g.ops[j].Clustering)+len(g.ops[j].Operand))
		}
		for j := range g.updates {
			u := &g.updates[j]
			most += of.row + of.updateSize(u) + byteMost*len(g.rows[u.Row].Clustering)
		}
	}
	return most > size
}

// dataSizeMost returns an upper bound of the size of the group's changes. The bound is exact if no two statements
// change the same row.
func (g *group) dataSizeMost(of *dataSizes) int {
	size := of.update
	for i := range g.ops {
		if op := &g.ops[i]; op.Kind == command.OpRow || op.Kind == command.OpHeader {
			size += of.rowSize(g.table, op.Kind == command.OpHeader, op.Clustering, op.Operand)
		}
	}
	for i := range g.updates {
		u := &g.updates[i]
		size += of.updateSize(u) + of.rowSize(g.table, g.rows[u.Row].Static, g.rows[u.Row].Clustering, nil)
	}
	return size
}

// dataSize returns the size of the group's changes. Several statements on the same row count as one change.
func (g *group) dataSize(of *dataSizes) int {
	type name struct {
		header     bool
		clustering string
	}
	rows := map[name][]byte{} // operands
	for i := range g.ops {
		op := &g.ops[i]
		if op.Kind != command.OpRow && op.Kind != command.OpHeader {
			continue
		}
		n := name{op.Kind == command.OpHeader, string(op.Clustering)}
		if have, ok := rows[n]; ok {
			if merged, err := row.Merge(nil, have, op.Operand); err == nil {
				rows[n] = merged
				continue
			}
		}
		rows[n] = op.Operand
	}
	size := of.update
	for i := range g.updates {
		u := &g.updates[i]
		size += of.updateSize(u)
		if n := (name{g.rows[u.Row].Static, string(g.rows[u.Row].Clustering)}); rows[n] == nil {
			rows[n] = []byte{}
		}
	}
	for n, operand := range rows {
		size += of.rowSize(g.table, n.header, []byte(n.clustering), operand)
	}
	return size
}

// rowSize returns the size of a change to a row or a partition header. The operand may be empty.
func (of *dataSizes) rowSize(t *schema.Table, header bool, clustering, operand []byte) (size int) {
	c := row.Count(operand, func(column uint32, path []byte) { size += pathSize(t.ColumnByID(column), path) })
	size += c.Cells*of.cell + c.Bytes + c.Collections*dataCollection
	alone := len(t.Clustering) == 0 // the partition has only one row, so a row deletion deletes the partition
	deleted := alone && len(operand) > 0 && !c.Marked && c.Cells+c.Collections == 0
	static := alone && t.CompactStorage // as in Cassandra
	if !header && !static && !deleted {
		size += of.row + relation.KeyBytes(t, clustering, false)
		if c.Expires {
			size += of.ttl
		}
	}
	if !of.ranges || len(c.Ranges) == 0 {
		return size
	}
	size += dataRanges
	for _, r := range c.Ranges {
		size += dataRange + relation.KeyBytes(t, r.Start, false) + relation.KeyBytes(t, r.End, true)
	}
	return size
}

// pathSize returns the size of a cell path. The path is the ordered form of a key.
func pathSize(c *schema.Column, path []byte) int {
	switch {
	case c == nil:
		return len(path)
	case c.Type.Kind == cqltype.List:
		return dataListPath
	case c.Type.Kind == cqltype.UDT:
		return dataFieldPath
	}
	key, _, err := c.Type.Elems[0].ReadKey(nil, path, false)
	if err != nil {
		return len(path)
	}
	return len(key)
}

// updateSize returns the size of an update that depends on a stored row. Only part of the size is known before the row
// is read.
func (of *dataSizes) updateSize(u *command.Update) int {
	size := 0
	switch u.Kind {
	case command.CounterAdd:
		return of.cell + dataCounter
	case command.SumAdd:
		size = of.cell
	case command.ListPut: // Args contains paths and values
		size = dataCollection + of.cell*len(u.Args)/2
	default:
		size = dataCollection + of.cell + dataListPath
	}
	for _, v := range u.Args {
		size += len(v)
	}
	return size
}
