// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// TestMiddle proves that the middle of a span leaves about half of its bytes on each side, wherever they are, that it
// lies inside the span, and that there is none where all is one token.
func TestMiddle(t *testing.T) {
	s := openMem(t, Options{})
	const table = 600
	put := func(key string, size int) {
		t.Helper()
		b := s.NewBatch()
		defer b.Close()
		k := keys.AppendRow(nil, table, token.Hash([]byte(key)), []byte(key), nil)
		if err := errors.Join(b.b.Set(k, make([]byte, size), nil), b.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	whole := keys.Span{Table: table}
	if at, err := s.Middle(whole); err != nil || at.Ring != 1<<63 {
		t.Errorf("of nothing: %v, %v", at, err)
	}
	put("a", 10)
	if at, err := s.Middle(whole); !errors.Is(err, ErrOneToken) {
		t.Errorf("of one key: %v, %v", at, err)
	}
	big := token.Hash([]byte("a")).Position()
	for i := range 200 {
		size := 100
		if token.Hash(fmt.Append(nil, i)).Position() < big {
			size = 1
		}
		put(fmt.Sprint(i), size)
	}
	at, err := s.Middle(whole)
	if err != nil {
		t.Fatal(err)
	}
	var before, after int
	for i := range 200 {
		p := token.Hash(fmt.Append(nil, i)).Position()
		size := 100
		if p < big {
			size = 1
		}
		if size += 30; p < at.Ring {
			before += size
		} else {
			after += size
		}
	}
	if before < 2*after/3 || after < 2*before/3 {
		t.Errorf("at %v: %d bytes before, %d after it", at, before, after)
	}
}
