// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

const (
	// listRows is the desired number of vectors per list.
	listRows = 120
	// SampleRows is the approximate number of sample vectors per list.
	SampleRows = 32
	// rounds is the number of k-means iterations.
	rounds = 6
	// refineRounds is the number of iterations that move the centers of all lists to the mean of their assigned
	// vectors.
	refineRounds = 4
)

// ListsFor returns the desired number of lists for the given number of vectors. If the vectors need no lists, the
// number is 1.
func ListsFor(rows int64, dimension int) int {
	n := min(rows/listRows, ListsMax, int64(CentersBytes/max(1, dimension)))
	return int(max(1, n))
}

// Train computes lists for the given number of vectors from a sample of the vectors. Similarity.Check must accept
// every sample vector. The generation of the result is the generation after l.Generation.
func (l *Lists) Train(sample [][]float32, rows int64) *Lists {
	out := &Lists{Generation: l.Generation + 1, Similarity: l.Similarity, Dimension: l.Dimension, Rows: rows}
	n := min(ListsFor(rows, l.Dimension), len(sample)/4)
	if n < 2 {
		return out
	}
	lengths := make([]float64, len(sample))
	for i, v := range sample {
		lengths[i] = length(v)
	}
	out.MaxLength = float32(slices.Max(lengths))
	points := make([][]float32, len(sample))
	for i, v := range sample {
		points[i] = l.Similarity.image(make([]float32, 0, l.Dimension+1), v)
		points[i] = append(points[i], float32(out.missingLength(points[i])))
	}
	t := trainer{rnd: rand.New(rand.NewPCG(uint64(rows), uint64(out.Generation)))}
	t.lists(out, points, n)
	return out
}

// trainer computes centers by k-means. It is deterministic.
type trainer struct{ rnd *rand.Rand }

// lists computes n centers. It first computes a few centers from some of the points. It then computes more centers
// from the points assigned to each of these centers.
func (t *trainer) lists(out *Lists, points [][]float32, n int) {
	coarse := t.computeCenters(t.sample(points, 200*isqrt(n)), isqrt(n))
	parts := make([][][]float32, len(coarse))
	squares := squaresOf(coarse)
	for _, p := range points {
		c := closest(p, coarse, squares)
		parts[c] = append(parts[c], p)
	}
	var fine [][]float32
	given := 0
	for i, part := range parts {
		given += len(part)
		k := min(n*given/len(points)-len(fine), len(part))
		if k > 0 {
			fine = append(fine, t.computeCenters(t.sample(part, 200*k), k)...)
		}
		if i == len(parts)-1 || len(fine) > out.begin(len(out.ends)) {
			out.ends = append(out.ends, len(fine))
		}
	}
	out.store(fine)
	for range refineRounds {
		out.refine(points, fine)
	}
}

// refine moves centers to the mean of the points assigned to them. Such points may come from groups other than the
// center's group. Each center remains in its group.
func (l *Lists) refine(points, fine [][]float32) {
	sums, counts := make([][]float64, len(fine)), make([]int, len(fine))
	for _, p := range points {
		c := l.assign(p[:l.Dimension])
		if counts[c]++; sums[c] == nil {
			sums[c] = make([]float64, l.Dimension+1)
		}
		for j, x := range p {
			sums[c][j] += float64(x)
		}
	}
	for c, sum := range sums {
		for j, x := range sum {
			fine[c][j] = float32(x / float64(counts[c]))
		}
	}
	l.unit, l.centers, l.groupCenters, l.once = 0, centers{}, centers{}, sync.Once{}
	l.store(fine)
}

func isqrt(n int) int { return max(1, int(math.Sqrt(float64(n)))) }

// store stores centers as codes with a common unit.
func (l *Lists) store(centres [][]float32) {
	for _, c := range centres {
		l.unit = max(l.unit, largest(c[:l.Dimension])/codeMax)
	}
	for _, c := range centres {
		for _, x := range c[:l.Dimension] {
			b := 0.0
			if l.unit > 0 {
				b = math.RoundToEven(float64(x) / float64(l.unit))
			}
			l.centers.codes = append(l.centers.codes, byte(int(max(-codeMax, min(codeMax, b)))+128))
		}
		l.centers.missing = append(l.centers.missing, c[l.Dimension])
	}
}

// sample returns a random subset of points.
func (t *trainer) sample(points [][]float32, most int) [][]float32 {
	if len(points) <= most {
		return points
	}
	out := make([][]float32, most)
	for i, p := range t.rnd.Perm(len(points))[:most] {
		out[i] = points[p]
	}
	return out
}

// computeCenters computes k centers of points.
func (t *trainer) computeCenters(points [][]float32, k int) [][]float32 {
	dimension := len(points[0])
	out := make([][]float32, k)
	for i, p := range t.rnd.Perm(len(points))[:min(k, len(points))] {
		out[i] = slices.Clone(points[p])
	}
	out = out[:min(k, len(points))]
	near := make([]int, len(points))
	for range rounds {
		squares := squaresOf(out)
		sums, counts := make([][]float64, len(out)), make([]int, len(out))
		for i, p := range points {
			c := closest(p, out, squares)
			near[i] = c
			if counts[c]++; sums[c] == nil {
				sums[c] = make([]float64, dimension)
			}
			for j, x := range p {
				sums[c][j] += float64(x)
			}
		}
		for c, sum := range sums {
			if counts[c] == 0 { // the cluster is empty, so move its center to the largest cluster
				most := slices.MaxFunc(near, func(a, b int) int { return cmp.Compare(counts[a], counts[b]) })
				i := slices.Index(near, most)
				copy(out[c], points[i])
				near[i] = c
				continue
			}
			for j, x := range sum {
				out[c][j] = float32(x / float64(counts[c]))
			}
		}
	}
	return out
}

func squaresOf(centres [][]float32) []float32 {
	out := make([]float32, len(centres))
	for i, c := range centres {
		out[i] = dot(c, c)
	}
	return out
}

func closest(p []float32, centres [][]float32, squares []float32) int {
	best, least := 0, float32(math.Inf(1))
	for i, c := range centres {
		if d := squares[i] - 2*fastDot(p, c); d < least {
			best, least = i, d
		}
	}
	return best
}

// fastDot works like dot, but uses an order of operations that allows instruction-level parallelism.
func fastDot(a, b []float32) float32 {
	var s, t, u, v float32
	for len(a) >= 4 && len(b) >= 4 {
		s += a[0] * b[0]
		t += a[1] * b[1]
		u += a[2] * b[2]
		v += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s += a[i] * b[i]
	}
	return s + t + u + v
}
