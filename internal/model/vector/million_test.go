// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vector

import (
	"cmp"
	"encoding/binary"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"
)

var vectorsFile = flag.String("vectors-file", "", "little-endian floats, 128 a vector, that TestMany takes instead")

var vectors = flag.Int("vectors", 0, "how many vectors of 128 dimensions TestMany measures with, 0: it is skipped")

// used returns the processor time used by the process.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestMany measures the processor time and recall of lists with very many vectors. The test measures four operations:
// computing the centers, assigning a vector, ranking the lists, and comparing packed codes. The test reports the
// recall for several numbers of searched lists, and for the number that a search chooses.
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
	began := used()
	n := min(len(all), ListsFor(int64(len(all)), dimension)*SampleRows)
	l := NewLists(Cosine, dimension).Train(all[:n], int64(len(all)))
	t.Logf("%d lists by %d vectors: %v", l.Len(), n, used()-began)
	began = used()
	rows, codes := make([][]int32, l.Len()), make([]Codes, l.Len())
	var entry []byte
	for i, v := range all {
		entry = l.AppendEntry(entry[:0], v, 0)
		list := int(entry[1]-1)*255 + int(entry[2]) - 1
		rows[list] = append(rows[list], int32(i))
		codes[list].Add(entry)
	}
	t.Logf("an entry: %v", (used()-began)/time.Duration(len(all)))
	for i := range codes {
		codes[i] = codes[i].Clone()
	}
	hits, seen := make([]int, l.firstSetMax()+1), make([]int, l.firstSetMax()+1)
	chosenHits, chosenSeen, chosenLists := 0, 0, 0
	order, nearest := make([][]int, searches), make([]map[int32]bool, searches)
	exact := make([]float32, len(all))
	for i, target := range targets {
		for j, v := range all {
			exact[j] = fastDot(target, v) / float32(length(v))
		}
		top := slices.Clone(exact)
		slices.SortFunc(top, func(a, b float32) int { return cmp.Compare(b, a) })
		order[i], nearest[i] = l.NewSearch(target).Next(), map[int32]bool{}
		for j, x := range exact {
			if x >= top[limit-1] {
				nearest[i][int32(j)] = true
			}
		}
	}
	found := func(i, list int) (n int) {
		for _, row := range rows[list] {
			if nearest[i][row] {
				n++
			}
		}
		return n
	}
	for i := range targets {
		nearer, looked := 0, 0
		for j, list := range order[i] {
			nearer, looked = nearer+found(i, list), looked+len(rows[list])
			hits[j+1] += nearer
			seen[j+1] += looked
		}
	}
	var room []Hit
	looked := make([]int, searches)
	began = used()
	for i, target := range targets {
		s := l.NewSearch(target)
		bound, best := float32(0), []float32{}
		for j, list := range s.Next() {
			if s.TooFar(j, bound) {
				break
			}
			looked[i]++
			room = s.Hits(room[:0], &codes[list], 0, codes[list].Len(), bound)
			for _, h := range room {
				best = append(best, h.Bound)
			}
			slices.SortFunc(best, func(a, b float32) int { return cmp.Compare(b, a) })
			if best = best[:min(len(best), limit)]; len(best) == limit {
				bound = best[limit-1]
			}
		}
	}
	took := used() - began
	began = used()
	for _, target := range targets {
		l.NewSearch(target).Next()
	}
	ranking := used() - began
	for i, n := range looked {
		for _, list := range order[i][:n] {
			chosenHits, chosenSeen = chosenHits+found(i, list), chosenSeen+len(rows[list])
		}
		chosenLists += n
	}
	t.Logf("a search: recall %.3f, %d entries of %d lists; %v, of which %v to rank lists, an entry %v",
		float64(chosenHits)/(searches*limit), chosenSeen/searches, chosenLists/searches, took/searches,
		ranking/searches, (took-ranking)/time.Duration(chosenSeen))
	for p := 1; p < len(order[0])+1; p *= 2 {
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
