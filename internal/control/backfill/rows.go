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

// visitor turns the rows of one chunk into index entries.
type visitor struct {
	entries   Entries
	table     *schema.Table
	index     *schema.Index
	mutations []command.Mutation
	rows      int
	looked    int // keys with nothing in them
	full      bool
	whole     bool // the last partition was read to its end
	token     token.Token
	key       []byte
	// clustering is the last row's; nil before the first row of a partition.
	clustering []byte
}

// Partition begins a mutation for the logical partition.
func (v *visitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if len(v.mutations) >= chunkRows {
		v.full, v.whole = true, true // go on after the partition before this one
		return command.Stop, nil
	}
	v.token, v.key, v.clustering = tok, append([]byte(nil), key...), nil
	m := command.Mutation{Table: v.table.ID, Token: tok, Key: v.key, SchemaVersion: v.table.Revision}
	if static != nil && v.kind(schema.Static, schema.PartitionKey) {
		if err := v.enter(&m, nil, static); err != nil {
			return command.Stop, err
		}
	}
	v.mutations = append(v.mutations, m)
	return command.More, nil
}

// Passed implements command.Walker: a chunk ends where the table has nothing for long.
func (v *visitor) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if v.looked += looked; v.looked < chunkLooked {
		return command.More, nil
	}
	v.full, v.whole, v.token, v.key, v.clustering = true, true, tok, bytes.Clone(key), nil
	return command.Stop, nil
}

// Row adds the entries of a row.
func (v *visitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	m := &v.mutations[len(v.mutations)-1]
	v.clustering = append([]byte(nil), clustering...)
	if !v.kind(schema.Static) {
		if err := v.enter(m, v.clustering, r); err != nil {
			return command.Stop, err
		}
	}
	if v.rows++; v.rows >= chunkRows {
		v.full = true
		return command.Stop, nil
	}
	return command.More, nil
}

// kind reports whether the index is on a column of one of some kinds. Some are on none.
func (v *visitor) kind(of ...schema.ColumnKind) bool {
	c := v.table.Column(v.index.Column)
	return c != nil && slices.Contains(of, c.Kind)
}

func (v *visitor) enter(m *command.Mutation, clustering []byte, r *row.Row) error {
	ops, err := v.entries(v.table, v.index, m.Key, clustering, r)
	for i := range ops {
		ops[i].Value = bytes.Clone(ops[i].Value) // a view over the row
	}
	m.Ops = append(m.Ops, ops...)
	return err
}
