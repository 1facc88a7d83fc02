// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// visitor converts the rows of one chunk to index entries.
type visitor struct {
	entries   Entries
	table     *schema.Table
	index     *schema.Index
	mutations []command.Mutation
	// bytes is the size of the entries of the last mutation.
	bytes int
	// partitions, rows, rowBytes, and entryBytes are totals of the chunk.
	partitions, rows, rowBytes, entryBytes int

	examined int // number of empty keys
	full     bool
	whole    bool // the partition was read to its end
	token    token.Token
	key      []byte
	// clustering is the clustering key of the last row, or nil before the first row of a partition.
	clustering []byte
	// resumed is the key of the partition in which the chunk resumes. The entries of this partition's static row
	// already exist.
	resumed []byte
}

// begin prepares the visitor for the chunk of a read.
func (v *visitor) begin(read *command.Read) {
	v.mutations, v.bytes, v.partitions, v.rows, v.rowBytes, v.entryBytes = nil, 0, 0, 0, 0, 0
	v.examined, v.full, v.whole, v.resumed = 0, false, false, nil
	if !read.AfterPartition && len(read.AfterClustering) > 0 {
		v.resumed = read.AfterKey
	}
}

// ends reports whether the chunk is full.
func (v *visitor) ends() bool {
	return v.partitions > chunkRows || v.rows >= chunkRows || v.rowBytes >= chunkRowBytes ||
		v.entryBytes >= chunkEntryBytes
}

// Partition implements command.Visitor.
func (v *visitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if v.partitions++; v.partitions > 1 && v.ends() {
		v.full, v.whole = true, true // resume after the previous partition
		return command.Stop, nil
	}
	v.token, v.key, v.clustering = tok, bytes.Clone(key), nil
	v.addMutation()
	if static != nil && v.kind(schema.Static, schema.PartitionKey) && !bytes.Equal(key, v.resumed) {
		return command.More, v.enter(nil, static)
	}
	return command.More, nil
}

// end removes the last mutation if it has no entries.
func (v *visitor) end() {
	if n := len(v.mutations); n > 0 && len(v.mutations[n-1].Ops) == 0 {
		v.mutations = v.mutations[:n-1]
	}
}

// addMutation adds a mutation for the current partition. It reuses a mutation without entries.
func (v *visitor) addMutation() {
	v.end()
	v.mutations = append(v.mutations, command.Mutation{Table: v.table.ID, Token: v.token, Key: v.key,
		SchemaVersion: v.table.Revision})
	v.bytes = 0
}

// Passed implements command.ProgressVisitor. It ends the chunk after many empty keys.
func (v *visitor) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if v.examined += looked; v.examined < chunkExamined {
		return command.More, nil
	}
	v.full, v.whole, v.token, v.key, v.clustering = true, true, tok, bytes.Clone(key), nil
	return command.Stop, nil
}

// Row adds the entries of a row.
func (v *visitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	v.clustering = bytes.Clone(clustering)
	if !v.kind(schema.Static) {
		if err := v.enter(v.clustering, r); err != nil {
			return command.Stop, err
		}
	}
	for i := range r.Cells {
		v.rowBytes += len(r.Cells[i].Path) + len(r.Cells[i].Value)
	}
	if v.rows++; v.ends() {
		v.full = true
		return command.Stop, nil
	}
	return command.More, nil
}

// kind reports whether the index is on a column of one of the given kinds.
func (v *visitor) kind(of ...schema.ColumnKind) bool {
	c := v.table.Column(v.index.Column)
	return c != nil && slices.Contains(of, c.Kind)
}

// enter adds the entries of a row to the last mutation. If the mutation becomes too large, enter adds more mutations.
func (v *visitor) enter(clustering []byte, r *row.Row) error {
	ops, err := v.entries(v.table, v.index, v.key, clustering, r)
	if len(v.index.Lists) > 1 {
		ops = ops[:min(1, len(ops))] // keep only the entries in the newest lists, because the older lists are complete
	}
	for i := range ops {
		size := len(ops[i].Value) + len(clustering) + len(v.key)
		if v.bytes > 0 && v.bytes+size > mutationBytes {
			v.addMutation()
		}
		v.bytes += size
		v.entryBytes += size
		ops[i].Value = bytes.Clone(ops[i].Value) // the value aliases the row
		m := &v.mutations[len(v.mutations)-1]
		m.Ops = append(m.Ops, ops[i])
	}
	return err
}
