// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// clouds draws vectors around a few centers. Embeddings of texts and images have a similar distribution.
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

// found returns the result of a search by entries. found reads rows in the order of their bounds until no entry can
// lead to a nearer row. looked is the number of examined entries. read is the number of rows read.
func found(l *Lists, entries map[int][]int, codes [][]byte, all [][]float32, target []float32, limit int) (
	best []float32, looked, read int) {
	s := l.NewSearch(target)
	type hint struct {
		bound float32
		row   int
	}
	var hints []hint
	var bounds []float32
	for i, list := range s.Next() {
		if len(bounds) >= limit && s.TooFar(i, bounds[limit-1]) {
			break
		}
		for _, row := range entries[list] {
			hints = append(hints, hint{s.Bound(codes[row]), row})
			bounds = append(bounds, s.Bound(codes[row]))
		}
		slices.SortFunc(bounds, func(a, b float32) int { return cmp.Compare(b, a) })
		bounds = bounds[:min(limit, len(bounds))]
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

// TestDot compares the vectorized product with the plain product, for all lengths and the largest numbers.
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

// TestDots compares the products with many codes with the individual products, for all numbers of codes.
func TestDots(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 700; n++ {
		w, codes := weights{n: make([]int16, n)}, make([]byte, n*(n%9))
		for i := range w.n {
			w.n[i] = int16(rnd.IntN(2*weightMax+1) - weightMax)
			if n%2 == 0 {
				w.n[i] = -weightMax
			}
			w.sum += int64(w.n[i])
		}
		for i := range codes {
			codes[i] = byte(rnd.IntN(255) + 1)
			if n%4 == 0 {
				codes[i] = 255
			}
		}
		got := make([]int64, n%9)
		w.dots(got, codes)

		for i, x := range got {
			if want := w.dot(codes[i*n:]); x != want {
				t.Fatalf("%d elements, code %d: %d instead of %d", n, i, x, want)
			}
		}
	}
}

// TestEntriesStay pins the entry values of several vectors. Nodes of all builds must compute the same entries.
func TestEntriesStay(t *testing.T) {
	const dimension, lists, each = 33, 700, 31
	for similarity, want := range []uint32{0xb4cde299, 0x799fba3c, 0x48c86d7d} {
		rnd := rand.New(rand.NewPCG(9, 9))
		draw := func() []float32 { // exact on any machine, because no rounding occurs
			v := make([]float32, dimension+1)
			for i := range v {
				v[i] = float32(rnd.IntN(2001)-1000) / 256
			}
			return v
		}
		l := &Lists{Generation: 7, Similarity: Similarity(similarity), Dimension: dimension, MaxLength: 30}
		var centres [][]float32
		for i := range lists {
			centres = append(centres, draw())
			if i%each == each-1 || i == lists-1 {
				l.ends = append(l.ends, i+1)
			}
		}
		l.store(centres)
		sum := crc32.NewIEEE()
		for i := range 2000 {
			sum.Write(l.AppendEntry(nil, draw()[:dimension], uint64(i)<<50))
		}
		if sum.Sum32() != want {
			t.Errorf("%v: the checksum of entries is %#x, not %#x", l.Similarity, sum.Sum32(), want)
		}
	}
}

// TestHits checks that the comparison of many codes at the same time finds exactly the codes with sufficient bounds.
// The test also checks the bounds of these codes. The codes include codes of vectors with very different lengths, and
// of vectors whose distances are not numbers.
func TestHits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for round := range 300 {
		s := Similarity(round % 3)
		dimension := 1 + rnd.IntN(70)
		l := &Lists{Generation: 1, Similarity: s, Dimension: dimension}
		draw := func() []float32 {
			v := make([]float32, dimension)
			length := math.Exp(rnd.NormFloat64() * float64(round/3%4))
			if round > 250 && rnd.IntN(9) == 0 {
				length = 1e36
			}
			for i := range v {
				v[i] = float32(length * (1 + rnd.NormFloat64()))
			}
			return v
		}
		search := l.NewSearch(draw())
		var c Codes
		var bounds []float32
		for i := range 300 {
			e := l.AppendEntry(nil, draw(), 0)
			c.Add(e)
			bounds = append(bounds, search.Bound(e))
			if !bytes.Equal(c.AppendCode(nil, i), search.Code(e)) {
				t.Fatalf("code %x of %x", c.AppendCode(nil, i), e)
			}
		}
		c = c.Clone()
		first := rnd.IntN(200)
		limit := first + rnd.IntN(c.Len()-first+1)
		for _, least := range append([]float32{-math.MaxFloat32, 0, 1, math.MaxFloat32}, bounds[:40]...) {
			var want []Hit
			for i := first; i < limit; i++ {
				if bounds[i] >= least {
					want = append(want, Hit{i, bounds[i]})
				}
			}
			if got := search.Hits(nil, &c, first, limit, least); !slices.Equal(got, want) {
				t.Fatalf("%v, %d dimensions, from %v: %v, not %v", s, dimension, least, got, want)
			}
		}
	}
}

// TestRecall compares searches by entries with searches of all vectors, for each similarity. The recall must be at
// least 95%, although the search reads few rows. Without centers, the recall must be 100%.
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
				t.Errorf("stored lists differ: %v", err)
			}
		}
	}
}

// TestNewer checks that only entries of later generations are newer, even if the stored generations wrap around.
func TestNewer(t *testing.T) {
	v := []float32{1, 2, 3, 4}
	of := func(generation uint32) *Lists {
		l := NewLists(Euclidean, 4)
		l.Generation = generation
		return l
	}
	for _, c := range []struct {
		lists, entry uint32
		newer        bool
	}{{0, 1, true}, {1, 1, false}, {1, 2, true}, {2, 1, false}, {254, 255, true}, {255, 254, false}, {300, 301, true},
		{300, 299, false}} {
		if got := of(c.lists).Newer(of(c.entry).AppendEntry(nil, v, 7)); got != c.newer {
			t.Errorf("entry of generation %d by lists of %d: newer %v", c.entry, c.lists, got)
		}
	}
	if of(1).Newer(nil) || of(1).Newer([]byte{3}) {
		t.Error("bytes that are not an entry count as newer")
	}
}
