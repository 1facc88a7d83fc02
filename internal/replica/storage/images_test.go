// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// tableWrite returns a mutation of key a with operands, logged as a leader would log it.
func tableWrite(t *testing.T, s *Store, stamp int64, ops ...command.Op) (images []string) {
	t.Helper()
	m := command.Mutation{Table: logTable, Token: token.Hash([]byte("a")), Key: []byte("a"), Timestamp: stamp, Ops: ops}
	err := s.Images(&m, stamp/1e6, nil, func(i *Image) error {
		text := string(i.Clustering) + ":"
		for _, r := range []*row.Row{&i.Before, &i.After} {
			if c := r.Cell(1); c != nil {
				text += string(c.Value)
			}
			text += ">"
		}
		images = append(images, text)
		if !i.Changed() {
			return nil
		}
		op := command.Op{Kind: command.OpChange, Clustering: slices.Clone(i.Clustering), Index: command.ChangePointed}
		if i.After.Exists() {
			op.Index |= command.ChangeLatest
		}
		if i.Entry > 0 {
			op.Value = binary.BigEndian.AppendUint64(nil, uint64(i.Entry))
		}
		m.Ops = append(m.Ops, op)
		return nil
	})
	if err == nil {
		err = s.Apply(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return images
}

// TestImages checks the images that the leader of a table with cdc receives, which are rows before and after a
// mutation. Deletions of the mutation must precede both images, and values hidden by newer timestamps must be omitted.
// The test also checks that every live row has one entry, and that entries are removed with deleted rows. Entries of
// rows deleted by ranges must be swept with their pointers.
func TestImages(t *testing.T) {
	const second = int64(1e6)
	s := openMem(t, Options{})
	s.InstallTable(Table{ID: logTable, Clustering: 1})
	operand := func(kind command.OpKind, clustering string, at int64, fill func(b *row.Builder)) command.Op {
		var b row.Builder
		b.Reset(at)
		fill(&b)
		return command.Op{Kind: kind, Clustering: []byte(clustering), Operand: b.Append(nil)}
	}
	set := func(clustering string, at int64, v string) command.Op {
		return operand(command.OpRow, clustering, at,
			func(b *row.Builder) { b.Cell(1, nil, []byte(v), 0, row.NoExpiry) })
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("images %q, want %q", got, want)
		}
	}
	latest := func(now int64) []string {
		t.Helper()
		return readLog(t, s, command.Read{Key: []byte("a"), Token: token.Hash([]byte("a")), Now: now, Statics: true},
			command.ChangesRead{Upto: 99 * second})
	}
	images := tableWrite(t, s, 10*second, set("x", 10*second, "1"), set("y", 10*second, "2"),
		set("x", 9*second, "0"))
	expect(images, "x:>1>", "y:>2>")
	images = tableWrite(t, s, 11*second, set("x", 5*second, "old"))
	expect(images, "x:1>1>")
	images = tableWrite(t, s, 12*second, set("x", 12*second, "3"),
		operand(command.OpHeader, "", 12*second, func(b *row.Builder) { b.Cell(1, nil, []byte("s"), 0, row.NoExpiry) }))
	expect(images, ":>s>", "x:1>3>")
	if got := latest(13); !slices.Equal(got, []string{"a/y@10000000", "a/@12000000", "a/x@12000000"}) {
		t.Errorf("the log has %q", got)
	}
	images = tableWrite(t, s, 14*second, set("x", 15*second, "4"),
		operand(command.OpHeader, "", 14*second, func(b *row.Builder) { b.DeleteRange([]byte("x"), nil, 14) }))
	expect(images, "x:>4>")
	if got := latest(15); !slices.Equal(got, []string{"a/@12000000", "a/x@14000000"}) {
		t.Errorf("after the deletion of a range the log has %q", got)
	}
	images = tableWrite(t, s, 16*second,
		operand(command.OpRow, "x", 16*second, func(b *row.Builder) { b.DeleteRow(16) }))
	expect(images, "x:4>>")
	left := func() (n int) {
		t.Helper()
		it, err := s.db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		for it.First(); it.Valid(); it.Next() {
			if p, ok := keys.Parse(it.Key()); ok && p.Table == logTable && p.Kind >= keys.Latest {
				n++
			}
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 4 { // entries of the hidden row y and of the static row
		t.Errorf("the log has %d keys", n)
	}
	g, err := s.FindGarbage(t.Context(), keys.Span{Table: logTable}, nil, 20, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, sw := range g.Sweeps {
		if err := s.ApplySweep(&sw); err != nil {
			t.Fatal(err)
		}
	}
	if n := left(); n != 2 {
		t.Errorf("after a sweep the log has %d keys", n)
	}
}
