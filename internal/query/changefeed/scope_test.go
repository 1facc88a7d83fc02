// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/token"
)

// readerOf returns a reader for pages of a modelTable.
func readerOf(w *modelTable, at Token, q command.Read) *Reader {
	return &Reader{At: at, Query: q, Max: 3, BytesMax: 1 << 20, Source: w}
}

// TestScopes checks that a token is valid for a part of its scope, even in the middle of a round. A token must be
// rejected for other scopes, even after encoding and decoding.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := &modelTable{begins: []uint64{0, 1 << 62}, clocks: []int64{0, 0}}
	for i := range 9 {
		w.commit(uint64(i)<<60, "k", 1)
	}
	scope := func(begin, limit uint64) command.Read {
		return command.Read{Range: token.Range{Begin: begin, Limit: limit}}
	}
	for _, max := range []int{1, 100} {
		f := readerOf(w, Beginning(0, false), scope(1<<60, 1<<63))
		f.Max = max
		if _, _, err := f.Page(t.Context()); err != nil {
			t.Fatal(err)
		}
		at, err := DecodeToken(f.At.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			q  command.Read
			ok bool
		}{
			{scope(1<<60, 1<<63), true}, {scope(1<<60, 1<<61), true}, {scope(1<<62, 1<<63), true},
			{command.Read{Token: token.AtPosition(1 << 61), Key: []byte("k")}, true},
			{command.Read{Token: token.AtPosition(1 << 63), Key: []byte("k")}, false},
			{scope(0, 1<<63), false}, {scope(1<<60, 0), false}, {scope(1<<60, 1<<63+1), false}, {scope(0, 0), false},
			{scope(0, 1<<60), false}, {scope(1<<63, 0), false},
		} {
			_, _, err := readerOf(w, at, tc.q).Page(t.Context())
			if tc.ok != (err == nil) || !tc.ok && !errors.Is(err, ErrScope) {
				t.Errorf("%v, %q: %v", tc.q.Range, tc.q.Key, err)
			}
		}
	}
	var old Token = Beginning(0, false) // a token of an earlier build contains no scope
	if _, _, err := readerOf(w, old, scope(1<<60, 0)).Page(t.Context()); err != nil {
		t.Error(err)
	}
}

// FuzzToken checks that DecodeToken either rejects the input or returns a token that allows a complete read of the
// feed. Encoding and decoding a token must return an equal token.
func FuzzToken(f *testing.F) {
	w := &modelTable{begins: []uint64{0, 1 << 62, 1 << 63}, clocks: []int64{0, 0, 0}}
	for i := range 12 {
		w.commit(uint64(i)<<60, "k", 1)
	}
	for _, q := range []command.Read{{Range: token.Full}, {Range: token.Range{Begin: 5, Limit: 1 << 63}},
		{Token: token.AtPosition(1 << 61), Key: []byte("k")}} {
		for _, at := range []Token{Beginning(0, false), Beginning(0, true), Now(0, false, 9)} {
			f.Add(at.Append(nil))
			r := readerOf(w, at, q)
			for range 3 {
				if _, _, err := r.Page(context.Background()); err != nil {
					f.Fatal(err)
				}
				f.Add(r.At.Append(nil))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		at, err := DecodeToken(b)
		if err != nil {
			return
		}
		if len(at.since) > 50 || len(at.until) > 50 {
			return // more pages would only make the test slower
		}
		for _, q := range []command.Read{{Range: token.Full}, {Range: token.Range{Begin: 1 << 60, Limit: 1 << 63}},
			{Token: token.AtPosition(1 << 61), Key: []byte("k")}} {
			r := readerOf(w, at, q)
			for n := 0; ; n++ {
				page, ended, err := r.Page(t.Context())
				if err != nil {
					if !errors.Is(err, ErrScope) {
						t.Fatal(err)
					}
					break
				}
				if n > 100 {
					t.Fatalf("%x never ends", b)
				}
				for _, e := range page {
					if e.Stamp <= 0 || e.Stamp == math.MaxInt64 {
						t.Fatalf("%x gives %+v", b, e)
					}
				}
				again, err := DecodeToken(r.At.Append(nil))
				if err != nil {
					t.Fatalf("%x is followed by %+v: %v", b, r.At, err)
				}
				if r.At = again; ended && len(page) == 0 {
					break
				}
			}
		}
	})
}
