// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// putSized stores a row of a logical partition with an incompressible value of the given size.
func putSized(t *testing.T, s *Store, table uint32, key string, size int) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	k := keys.AppendRow(nil, table, token.Hash([]byte(key)), []byte(key), nil)
	value := make([]byte, size)
	rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%32s", key))).Read(value)
	if err := errors.Join(b.b.Set(k, value, nil), b.Commit()); err != nil {
		t.Fatal(err)
	}
}

// TestMiddle checks that the split point of a span is inside the span. For all distributions of the bytes, about half
// of the bytes must be on each side. A span of one token must have no split point.
func TestMiddle(t *testing.T) {
	s := openMem(t, Options{})
	const table = 600
	whole := keys.Span{Table: table}
	if h, err := s.FindSplitPoint(whole); err != nil || h.At.Ring != 1<<63 {
		t.Errorf("of nothing: %v, %v", h, err)
	}
	putSized(t, s, table, "a", 10)
	big := token.Hash([]byte("a"))
	if h, err := s.FindSplitPoint(whole); !errors.Is(err, ErrOneToken) || h.LargestToken != big ||
		h.LargestTokenBytes != h.Left {
		t.Errorf("of one key: %v, %v", h, err)
	}
	for i := range 200 {
		size := 100
		if token.Hash(fmt.Append(nil, i)) < big {
			size = 1
		}
		putSized(t, s, table, fmt.Sprint(i), size)
	}
	h, err := s.FindSplitPoint(whole)
	if err != nil {
		t.Fatal(err)
	}
	var before, after uint64
	for i := range 200 {
		tok := token.Hash(fmt.Append(nil, i))
		size := uint64(100)
		if tok < big {
			size = 1
		}
		if size += 30; tok.Position() < h.At.Ring {
			before += size
		} else {
			after += size
		}
	}
	if before < 2*after/3 || after < 2*before/3 {
		t.Errorf("at %v: %d bytes before, %d after it", h.At, before, after)
	}
	if h.Left < before/2 || h.Left > 2*before || h.Right < after/2 || h.Right > 2*after {
		t.Errorf("sizes %d and %d, reported as %d and %d", before, after, h.Left, h.Right)
	}
}

// TestMiddleOnDisk checks that a span is divided evenly by the sizes of its tables. A token that has most of the bytes
// must be reported. A split next to this token must leave as many bytes as possible on the smaller side.
func TestMiddleOnDisk(t *testing.T) {
	s := openMem(t, Options{})
	const table = 600
	whole := keys.Span{Table: table}
	for i := range 400 {
		putSized(t, s, table, fmt.Sprint(i), 10_000)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := s.splitPointOnDisk(whole)
	if err != nil || h.Left < h.Right*9/10 || h.Right < h.Left*9/10 || h.Left+h.Right < 4_000_000 {
		t.Errorf("of 4 MB: %+v, %v", h, err)
	}
	for i := range 1200 {
		tok, key := token.Hash([]byte("big")), []byte("big")
		b := s.NewBatch()
		value := make([]byte, 10_000)
		rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%32d", i))).Read(value)
		row := keys.AppendRow(nil, table, tok, key, fmt.Append(nil, i))
		if err := errors.Join(b.b.Set(row, value, nil), b.Commit()); err != nil {
			t.Fatal(err)
		}
		b.Close()
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	big := token.Hash([]byte("big"))
	h, err = s.splitPointOnDisk(whole)
	if err != nil || h.LargestToken != big || h.LargestTokenBytes < 11_000_000 || h.LargestTokenBytes > 13_000_000 {
		t.Errorf("of a token with most of it: %+v, %v", h, err)
	}
	if at := h.At.Ring; at != big.Position() && at != big.Position()+1 || min(h.Left, h.Right) < 1_500_000 {
		t.Errorf("it is cut at %v, beside %v: %+v", h.At, big, h)
	}
	if key, err := s.KeyAt(table, big); err != nil || string(key) != "big" {
		t.Errorf("the key of the token is %q, %v", key, err)
	}
	if key, err := s.KeyAt(table, big+1); err != nil || key != nil {
		t.Errorf("the key of no token is %q, %v", key, err)
	}
}

// TestSize checks that a size includes sstables, and includes memtables only if they affect the result.
func TestSize(t *testing.T) {
	s := openMem(t, Options{})
	const table = 600
	whole := keys.Span{Table: table}
	size := func(enough uint64) uint64 {
		t.Helper()
		n, err := s.Size(whole, enough)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 100 {
		putSized(t, s, table, fmt.Sprint(i), 1000)
	}
	if n := size(100_000); n < 100_000 || n > 110_000 {
		t.Errorf("100 KB in memory are %d", n)
	}
	if n := size(10 << 20); n != 0 {
		t.Errorf("100 KB in memory, where 10 MiB matter, are %d", n)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := size(walkMax + 1); n < 100_000 || n > 120_000 {
		t.Errorf("100 KB on disk are %d", n)
	}
}

// TestMiddleOfLargeRows checks that a span is divided by bytes if most of the bytes belong to rows in separate value
// files. The tables that reference these files record their total bytes, but not the keys.
func TestMiddleOfLargeRows(t *testing.T) {
	s := openMem(t, Options{})
	const table = 600
	var large []uint64 // the tokens of rows of 64 KiB, all in the right half of the ring
	for i := range 2400 {
		key, size := fmt.Sprint(i), 100
		if tok := token.Hash([]byte(key)); tok > 0 {
			size = 64 << 10
			large = append(large, tok.Position())
		}
		putSized(t, s, table, key, size)
	}
	if err := errors.Join(s.db.Flush(), s.Compact(context.Background())); err != nil {
		t.Fatal(err)
	}
	if m := s.db.Metrics(); m.BlobFiles.ValueSize < uint64(len(large))*64<<10 || m.BlobFiles.ValueSize < walkMax {
		t.Fatalf("%d bytes of %d large rows stand apart", m.BlobFiles.ValueSize, len(large))
	}
	h, err := s.FindSplitPoint(keys.Span{Table: table})
	before := 0
	for _, at := range large {
		if at < h.At.Ring {
			before++
		}
	}
	if err != nil || before < len(large)*9/20 || before > len(large)*11/20 {
		t.Errorf("%d of %d large rows are on the left: %+v, %v", before, len(large), h, err)
	}
	if n := uint64(before) * 64 << 10; h.Left < n || h.Left > n*21/20 {
		t.Errorf("%d bytes on the left, reported as %d", n, h.Left)
	}
}
