// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// clouds draws vectors around some middles, as those of texts and pictures are.
func clouds(rnd *rand.Rand, n, dimension, middles int, spread float32) [][]float32 {
	at := make([][]float32, middles)
	for i := range at {
		at[i] = make([]float32, dimension)
		for j := range at[i] {
			at[i][j] = float32(rnd.NormFloat64())
		}
	}
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, dimension)
		m := at[rnd.IntN(middles)]
		for j := range out[i] {
			out[i][j] = m[j] + spread*float32(rnd.NormFloat64())
		}
	}
	return out
}

// found is what a search finds by entries: rows by their bounds, until no entry can lead to a nearer one. looked is how
// many entries it looked at, read how many rows.
func found(l *Lists, entries map[int][]int, codes [][]byte, all [][]float32, target []float32, limit int) (
	best []float32, looked, read int) {
	s := l.NewSearch(target)
	type hint struct {
		bound float32
		row   int
	}
	var hints []hint
	for _, st := range s.Next(0, 1<<64-1) {
		list := int(st.From[1]-1)*255 + int(st.From[2]) - 1
		for _, row := range entries[list] {
			hints = append(hints, hint{s.Bound(codes[row]), row})
		}
	}
	slices.SortFunc(hints, func(a, b hint) int { return cmp.Compare(b.bound, a.bound) })
	for _, h := range hints {
		if len(best) >= limit && best[limit-1] >= h.bound {
			break
		}
		read++
		best = append(best, l.Similarity.Of(target, all[h.row]))
		slices.SortFunc(best, func(a, b float32) int { return cmp.Compare(b, a) })
		best = best[:min(limit, len(best))]
	}
	return best, len(hints), read
}

// TestDot compares the product by the processor's vectors with the plain one, for all lengths and the largest numbers.
func TestDot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := range 2200 {
		w, code := weights{n: make([]int16, n)}, make([]byte, n)
		for i := range code {
			w.n[i], code[i] = int16(rnd.IntN(2*weightMax+1)-weightMax), byte(rnd.IntN(255)+1)
			if n%3 == 0 {
				w.n[i], code[i] = weightMax, 255
			}
			w.sum += int64(w.n[i])
		}
		if got, want := w.dot(code), dotPlain(w.n, code)-128*w.sum; got != want {
			t.Fatalf("%d elements: %d instead of %d", n, got, want)
		}
	}
}

// TestRecall compares what searches find by entries with what looking at all vectors finds, for each similarity: at
// least 95 of 100, reading few rows. Without centres it is all of them.
func TestRecall(t *testing.T) {
	const rows, dimension, limit, searches = 20_000, 32, 10, 50
	for similarity := range Euclidean + 1 {
		rnd := rand.New(rand.NewPCG(7, uint64(similarity)))
		all := clouds(rnd, rows+searches, dimension, 300, 0.6)
		all, targets := all[:rows], all[rows:]
		first := NewLists(similarity, dimension)
		for _, l := range []*Lists{first, first.Train(all[:4000], rows)} {
			entries, codes := map[int][]int{}, make([][]byte, rows)
			for i, v := range all {
				codes[i] = l.AppendEntry(nil, v, uint64(i)<<40)
				list := int(codes[i][1]-1)*255 + int(codes[i][2]) - 1
				entries[list] = append(entries[list], i)
				if bytes.IndexByte(codes[i], 0) >= 0 || !l.Holds(codes[i], v) || i > 0 && l.Holds(codes[i], all[i-1]) {
					t.Fatalf("entry %x", codes[i])
				}
			}
			hits, looked, read := 0, 0, 0
			for _, target := range targets {
				got, a, b := found(l, entries, codes, all, target, limit)
				looked, read = looked+a, read+b
				exact := make([]float32, rows)
				for i, v := range all {
					exact[i] = similarity.Of(target, v)
				}
				slices.SortFunc(exact, func(a, b float32) int { return cmp.Compare(b, a) })
				for _, x := range got {
					if x >= exact[limit-1] {
						hits++
					}
				}
			}
			recall := float64(hits) / (searches * limit)
			t.Logf("%v: %d lists, recall %.3f, %d entries and %d rows looked at for each search", similarity, l.Len(),
				recall, looked/searches, read/searches)
			if l.Len() == 1 && hits != searches*limit || recall < 0.95 || read > searches*limit*4 {
				t.Errorf("%v: recall %v of %d lists", similarity, recall, l.Len())
			}
			again, err := DecodeLists(l.Append(nil))
			if err != nil || !bytes.Equal(again.Append(nil), l.Append(nil)) ||
				again.Assign(all[5]) != l.Assign(all[5]) {
				t.Errorf("lists are others after they were stored: %v", err)
			}
		}
	}
}
