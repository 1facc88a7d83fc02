// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// halting is a visitor that counts rows, and stops at every position that the read reports.
type halting struct {
	silent
	stops, looked int
	tok           token.Token
	key           []byte
}

func (w *halting) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	w.stops++
	w.looked += looked
	w.tok, w.key = tok, bytes.Clone(key)
	return command.Stop, nil
}

// TestPassed checks a read of a range over thousands of deleted partitions or rows. The read must be able to stop
// repeatedly and resume after its position, until it has found all live rows. A reader that does not stop must find the
// same rows. The same applies to a read through an index whose entries lead to no rows.
func TestPassed(t *testing.T) {
	const n, every = 5000, 1250
	s := openMem(t, Options{})
	for i := range n {
		key := fmt.Sprint("k", i)
		m := insert(key, "c", 1)
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: testIndex, Value: []byte("v"),
			Clustering: []byte("c")})
		apply(t, s, m)
		switch {
		case i%every == 0:
		case i%2 == 0:
			apply(t, s, remove(key, "c", 2, 2))
		default:
			apply(t, s, mutationOf(command.OpHeader, key, "", 2, func(b *row.Builder) { b.DeleteRow(2) }))
		}
	}
	for _, index := range []*command.IndexLookup{nil, {Index: testIndex, Value: []byte("v")}} {
		r := command.Read{Table: testTable, Range: token.Full, Now: 1, Index: index}
		var all silent
		if err := s.Read(t.Context(), &r, &all); err != nil || all.rows != n/every {
			t.Fatalf("%d rows, %v", all.rows, err)
		}
		var w halting
		for commands := 1; ; commands++ {
			before := w.stops
			if err := s.Read(t.Context(), &r, &w); err != nil {
				t.Fatal(err)
			}
			if w.stops == before {
				break
			}
			r.AfterToken, r.AfterKey, r.AfterPartition = w.tok, w.key, true
		}
		if w.rows != n/every {
			t.Errorf("index %v: %d rows with stops, want %d", index != nil, w.rows, n/every)
		}
		if w.stops < 2 || w.looked < w.stops*passedEvery {
			t.Errorf("index %v: %d stops after %d keys", index != nil, w.stops, w.looked)
		}
	}
}
