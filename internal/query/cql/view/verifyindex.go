// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// EntriesOf returns the operands that add a row to an index.
type EntriesOf func(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error)

// BuildEntries returns a function that computes the entries of a row for an index build. For a view, the entries are
// hints, which update the view. For other indexes, the function calls entries.
func BuildEntries(current func() *schema.Schema, entries EntriesOf) EntriesOf {
	return func(t *schema.Table, ix *schema.Index, key, clustering []byte, r *row.Row) ([]command.Op, error) {
		if ix.Kind != schema.ViewKind {
			return entries(t, ix, key, clustering, r)
		}
		ks := current().Keyspace(t.Keyspace)
		if ks == nil {
			return nil, nil // the keyspace was dropped, so the build will end
		}
		return Entries(ks, t, ix, clustering, r)
	}
}

// Index checks that an index contains the rows of a table page. It does not search for false entries. False entries are
// harmless because every lookup validates the row.
func (f *Verifier) Index(ctx context.Context, t *schema.Table, ix *schema.Index, entries EntriesOf, from At,
	limit int) (*Page, error) {
	c := t.Column(ix.Column)
	if ix.Kind == schema.ViewKind || ix.Kind == schema.DocumentKind || t.OfVectors(ix) && !ix.SupportsANN(c) {
		return nil, dberr.Invalidf("Cannot verify index %s.%s: it indexes a container or a collection of vectors",
			t.Keyspace, ix.Name)
	}
	static := c != nil && c.Kind == schema.Static
	now := f.Clock.Wall().Unix()
	rows, next, err := f.rows(ctx, t, from, &rowsOf{limit: limit, statics: static}, now)
	if err != nil {
		return nil, err
	}
	agrees := func(ctx context.Context, s *candidate) (bool, error) {
		ops, err := f.entriesOf(ctx, t, ix, entries, s, now)
		if err != nil {
			return false, err
		}
		s.image = nil
		found := true
		for i := range ops {
			s.image = binary.AppendUvarint(s.image, uint64(len(ops[i].Value)))
			s.image = append(s.image, ops[i].Value...)
			ok, err := f.finds(ctx, t, &ops[i], s, now)
			if err != nil {
				return false, err
			}
			found = found && ok
		}
		if s.what = ""; !found {
			s.what = "the row is missing from the index"
		}
		return found, nil
	}
	out := &Page{Rows: len(rows), Next: next}
	all := make([]*candidate, len(rows))
	for i := range rows {
		all[i] = &candidate{token: rows[i].token, key: rows[i].key, clustering: rows[i].clustering}
	}
	candidates, err := f.compare(ctx, all, agrees)
	if err != nil {
		return nil, err
	}
	return out, f.recheck(ctx, t, out, candidates, agrees, func(s *candidate) (command.Mutation, error) {
		ops, err := f.entriesOf(ctx, t, ix, entries, s, now)
		return command.Mutation{Table: t.ID, Token: s.token, Key: s.key, SchemaVersion: t.Revision, Ops: ops}, err
	})
}

// entriesOf returns the entries that an index must contain for the current row.
func (f *Verifier) entriesOf(ctx context.Context, t *schema.Table, ix *schema.Index, entries EntriesOf, s *candidate,
	now int64) (ops []command.Op, err error) {
	read := command.Read{Table: t.ID, Token: s.token, Key: s.key, Level: dberr.Quorum, Now: now,
		Dropped: t.Hidden()}
	v := &rowsOf{limit: math.MaxInt, each: func(clustering []byte, r *row.Row) error {
		list, err := entries(t, ix, s.key, bytes.Clone(clustering), r)
		for i := range list {
			list[i].Value = bytes.Clone(list[i].Value) // the value refers to the row
		}
		ops = list
		return err
	}}
	if len(s.clustering) > 0 {
		read.Slices = []command.Slice{{Start: s.clustering, End: append(bytes.Clone(s.clustering), 0)}}
	} else if len(t.Clustering) > 0 {
		v.statics, read.Statics = true, true
	}
	return ops, f.Rows.Read(ctx, &read, v)
}

// finds reports whether a lookup of an entry returns a row.
func (f *Verifier) finds(ctx context.Context, t *schema.Table, op *command.Op, s *candidate, now int64) (bool, error) {
	look := &command.IndexLookup{Index: op.Index, Value: op.Value}
	if op.Index&keys.OrderedIndex != 0 && len(op.Clustering) > 0 { // otherwise, the entry refers to a whole partition
		look = &command.IndexLookup{Index: op.Index, Any: [][][]byte{{op.Value}}}
	}
	read := command.Read{Table: t.ID, Token: s.token, Key: s.key, Level: dberr.Quorum, Now: now,
		Dropped: t.Hidden(), Index: look, Statics: len(s.clustering) == 0 && len(t.Clustering) > 0}
	if len(op.Clustering) > 0 {
		read.Slices = []command.Slice{{Start: op.Clustering, End: append(bytes.Clone(op.Clustering), 0)}}
	}
	v := &rowsOf{limit: math.MaxInt, statics: read.Statics}
	err := f.Rows.Read(ctx, &read, v)
	return len(v.rows) > 0, err
}
