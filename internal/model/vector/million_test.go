// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"cmp"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

var vectorsFile = flag.String("vectors-file", "", "little-endian floats, 128 a vector, that TestMany takes instead")

var vectors = flag.Int("vectors", 0, "how many vectors of 128 dimensions TestMany measures with, 0: it is skipped")

// TestMany measures what lists cost and find among very many vectors: the time to find the centres, to assign a vector,
// to rank the lists and to look at an entry, and the recall by the number of lists that are looked at.
func TestMany(t *testing.T) {
	if *vectors == 0 {
		t.Skip("measures for minutes: -vectors 1000000")
	}
	const dimension, limit, searches = 128, 10, 100
	rnd := rand.New(rand.NewPCG(3, 4))
	var all [][]float32
	if *vectorsFile != "" {
		all = readVectors(t, *vectorsFile, *vectors+searches, dimension)
	} else {
		all = clouds(rnd, *vectors+searches, dimension, *vectors/200, 0.6)
	}
	targets := all[*vectors:]
	all = all[:*vectors]
	began := time.Now()
	n := min(len(all), ListsFor(int64(len(all)), dimension)*SampleRows)
	l := NewLists(Cosine, dimension).Train(all[:n], int64(len(all)))
	t.Logf("%d lists by %d vectors: %v", l.Len(), n, time.Since(began))
	began = time.Now()
	codes := make([][]byte, len(all))
	entries := make([][]int32, l.Len())
	arena := make([]byte, 0, len(all)*EntryLen(dimension))
	for i, v := range all {
		from := len(arena)
		arena = l.AppendEntry(arena, v, 0)
		codes[i] = arena[from:len(arena):len(arena)]
		list := int(codes[i][1]-1)*255 + int(codes[i][2]) - 1
		entries[list] = append(entries[list], int32(i))
	}
	t.Logf("an entry: %v", time.Since(began)/time.Duration(len(all)))
	var ranking, looking time.Duration
	hits, seen := map[int]int{}, map[int]int{}
	for _, target := range targets {
		exact := make([]float32, len(all))
		for i, v := range all {
			exact[i] = fastDot(target, v) / float32(length(v))
		}
		top := slices.Clone(exact)
		slices.SortFunc(top, func(a, b float32) int { return cmp.Compare(b, a) })
		began := time.Now()
		s := l.NewSearch(target)
		order := l.rank(&s.w, 512)
		ranking += time.Since(began)
		looked, found := 0, 0
		for i, list := range order[:min(len(order), 512)] {
			began := time.Now()
			for _, row := range entries[list.list] {
				s.Bound(codes[row])
			}
			looking += time.Since(began)
			looked += len(entries[list.list])
			for _, row := range entries[list.list] {
				if exact[row] >= top[limit-1] {
					found++
				}
			}
			if p := i + 1; p&(p-1) == 0 {
				hits[p] += found
				seen[p] += looked
			}
		}
	}
	total := seen[512]
	t.Logf("to rank the lists: %v, an entry: %v", ranking/searches, looking/time.Duration(max(1, total)))
	for p := 1; p <= 512; p *= 2 {
		t.Logf("%4d lists: recall %.3f, %d entries", p, float64(hits[p])/(searches*limit), seen[p]/searches)
	}
}

// readVectors reads vectors from a file of little-endian floats.
func readVectors(t *testing.T, name string, n, dimension int) [][]float32 {
	b, err := os.ReadFile(name)
	if err != nil || len(b) < 4*n*dimension {
		t.Fatalf("%s has %d bytes, %d are needed: %v", name, len(b), 4*n*dimension, err)
	}
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, dimension)
		for j := range out[i] {
			out[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*(i*dimension+j):]))
		}
	}
	return out
}
