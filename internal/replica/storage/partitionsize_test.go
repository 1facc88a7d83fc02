// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestMeasurePartition checks that the size of a logical partition includes only its own data. The size must be
// approximately correct if only the beginning of the partition is read.
func TestMeasurePartition(t *testing.T) {
	s := openMem(t, Options{})
	const table, rows, size = 600, 2000, 1000
	at := token.Hash([]byte("k"))
	for i := range rows {
		value := make([]byte, size)
		rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%32d", i))).Read(value)
		var w row.Builder
		w.Reset(1)
		w.Live(0, 0)
		w.Cell(1, nil, value, 0, 0)
		b := s.NewBatch()
		for _, key := range []string{"k", fmt.Sprint("other ", i)} {
			k := keys.AppendRow(nil, table, token.Hash([]byte(key)), []byte(key), fmt.Appendf(nil, "%06d", i))
			if err := b.b.Set(k, w.Bytes(), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	weigh := func(most int64) PartitionSize {
		t.Helper()
		w, err := s.MeasurePartition(t.Context(), table, at, 1, most)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	w := weigh(1 << 30)
	if string(w.Key) != "k" || w.Values != rows || w.Bytes < rows*size || w.Bytes > rows*(size+50) {
		t.Errorf("%s has %d bytes and %d values", w.Key, w.Bytes, w.Values)
	}
	part := weigh(rows * size / 4)
	if part.Bytes < w.Bytes*9/10 || part.Bytes > w.Bytes*11/10 || part.Values < rows*9/10 || part.Values > rows*11/10 {
		t.Errorf("by its first quarter it has %d bytes and %d values", part.Bytes, part.Values)
	}
	if none, err := s.MeasurePartition(t.Context(), table, at+1, 1, 1<<30); err != nil || none.Key != nil ||
		none.Bytes != 0 {
		t.Errorf("nothing weighs %+v, %v", none, err)
	}
}
