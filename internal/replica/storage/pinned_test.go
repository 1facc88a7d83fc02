// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestPinnedRow checks that a writer gets the same newest timestamp whether or not it has read the only row of a
// logical partition, in a table without clustering columns. The test covers all writes and deletions, live and deleted
// rows, and the state before and after the first deletion of a partition in the table.
func TestPinnedRow(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(Table{ID: testTable})
	rnd := rand.New(rand.NewPCG(1, 1))
	key := []byte("k")
	for i := range 300 {
		ts := rnd.Int64N(1000)
		switch kind := rnd.IntN(8); {
		case kind == 0:
			apply(t, s, remove("k", "", ts, ts))
		case kind == 1 && i > 150:
			apply(t, s, mutationOf(command.OpHeader, "k", "", ts, func(b *row.Builder) { b.DeleteRow(ts) }))
		case kind < 5:
			apply(t, s, insert("k", "", ts))
		default:
			apply(t, s, mutation("k", "", ts, func(b *row.Builder) { b.Cell(2, nil, []byte("w"), 0, 0) }))
		}
		p := s.Pin(testTable, token.Hash(key), key)
		var found silent
		if err := p.Read(context.Background(), &command.Read{Table: testTable, Key: key, Token: token.Hash(key), Now: 1,
			Slices: []command.Slice{{End: []byte{0}}}, Limit: 1}, &found); err != nil {
			t.Fatal(err)
		}
		if known := len(p.newest); i < 150 && known != 1 {
			t.Fatalf("the timestamps of %d rows are known", known)
		}
		m := insert("k", "", 1)
		got, err := p.Newest(&m)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := s.Newest(&m); err != nil || got != want {
			t.Fatalf("step %d: the newest is %d, after reading %d: %v", i, want, got, err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
