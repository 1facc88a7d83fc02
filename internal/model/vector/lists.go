// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// Lists partition vectors into lists of similar vectors. Each vector belongs to the list whose center is nearest to the
// vector's image. Centers are grouped with nearby centers. Lists is immutable.
//
// If Lists has no centers, all vectors belong to one list.
type Lists struct {
	// Generation counts the versions of an index's lists. Entries of different generations are stored separately. In
	// generation 0, the index has no lists, and its vectors have no entries.
	Generation uint32
	Similarity Similarity
	Dimension  int
	// Rows is the estimated number of vectors in the table at the time when the centers were computed.
	Rows int64
	// MaxLength is the approximate maximum length of a vector for the dot product similarity. A search finds a vector
	// by its direction and by the difference between its length and MaxLength.
	MaxLength float32

	// unit is the unit of the elements of all centers. The centers have the format of codes without their heads.
	unit    float32
	centers centers
	// ends holds, as list numbers, the ends of the groups. groupCenters holds the centers of the groups.
	ends         []int
	groupCenters centers
	once         sync.Once
}

// centers holds centers. It stores their elements in the format of codes without heads, and the differences between
// their lengths and MaxLength. It also stores the squares of their lengths, including these differences.
type centers struct {
	codes   []byte
	missing []float32
	squares []float64
}

// NewLists returns the initial Lists of an index, which contain no lists.
func NewLists(s Similarity, dimension int) *Lists { return &Lists{Similarity: s, Dimension: dimension} }

// None reports whether vectors have no entries. If vectors have no entries, a search must examine the rows.
func (l *Lists) None() bool { return l.Generation == 0 }

// Len returns the number of lists.
func (l *Lists) Len() int { return max(1, len(l.centers.missing)) }

// missingLength returns the difference between MaxLength and the length of an image. For similarities other than the
// dot product, it is 0.
func (l *Lists) missingLength(image []float32) float64 {
	if l.Similarity != DotProduct {
		return 0
	}
	n := length(image)
	return math.Sqrt(max(0, float64(float64(l.MaxLength)*float64(l.MaxLength))-float64(n*n)))
}

// groupsSearched is the number of groups that are searched for the nearest center.
const groupsSearched = 8

// Assign returns the list of a vector.
func (l *Lists) Assign(v []float32) int {
	if len(l.centers.missing) == 0 {
		return 0
	}
	image := l.Similarity.image(nil, v)
	return l.assign(image)
}

// assign returns the list of an image. In the nearest groups, it selects the list with the nearest center.
func (l *Lists) assign(image []float32) int {
	l.prepare()
	w, lack := newWeights(image), l.missingLength(image)
	var room [distancesAtOnce]float64
	var near [groupsSearched + 1]ranked
	best := near[:0]
	for i := 0; i < len(l.ends); i += len(room) {
		for j, d := range l.distances(&room, &w, lack, &l.groupCenters, i, len(l.ends)) {
			if len(best) == groupsSearched && d > best[groupsSearched-1].distance {
				continue
			}
			n := ranked{i + j, d}
			at, _ := slices.BinarySearchFunc(best, n, compareRanked)
			if best = slices.Insert(best, at, n); len(best) > groupsSearched {
				best = best[:groupsSearched]
			}
		}
	}
	list, least := 0, math.Inf(1)
	for _, n := range best {
		for i := l.begin(n.list); i < l.ends[n.list]; i += len(room) {
			for j, d := range l.distances(&room, &w, lack, &l.centers, i, l.ends[n.list]) {
				if d < least {
					list, least = i+j, d
				}
			}
		}
	}
	return list
}

func (l *Lists) begin(group int) int {
	if group == 0 {
		return 0
	}
	return l.ends[group-1]
}

func (l *Lists) center(i int) []byte { return l.centers.codes[i*l.Dimension : (i+1)*l.Dimension] }

// distancesAtOnce is the maximum number of distances that one call computes.
const distancesAtOnce = 128

// distances returns the distances to consecutive centers. It starts at from. It stops before limit, or when room is
// full. Each distance is squared, and the squared length of the image is subtracted from it.
func (l *Lists) distances(room *[distancesAtOnce]float64, w *weights, lack float64, of *centers, from,
	limit int) []float64 {
	var dots [distancesAtOnce]int64
	out := room[:min(len(room), limit-from)]
	w.dots(dots[:len(out)], of.codes[from*l.Dimension:])
	unit := float64(w.unit * float64(l.unit))
	for i := range out {
		product := float64(unit * float64(dots[i]))
		out[i] = of.squares[from+i] - 2*float64(product+float64(lack*float64(of.missing[from+i])))
	}
	return out
}

// prepare computes the derived data, which is not stored.
func (l *Lists) prepare() {
	l.once.Do(func() {
		for i := range l.centers.missing {
			l.centers.squares = append(l.centers.squares, l.square(l.center(i), l.centers.missing[i]))
		}
		for i, end := range l.ends {
			sums, lack, first := make([]int, l.Dimension), 0.0, l.begin(i)
			for j := first; j < end; j++ {
				for k, b := range l.center(j) {
					sums[k] += int(b) - 128
				}
				lack += float64(l.centers.missing[j])
			}
			n, m := max(1, end-first), &l.groupCenters
			for _, sum := range sums {
				m.codes = append(m.codes, byte(sum/n+128))
			}
			m.missing = append(m.missing, float32(lack/float64(n)))
			m.squares = append(m.squares, l.square(m.codes[i*l.Dimension:], m.missing[i]))
		}
	})
}

func (l *Lists) square(centre []byte, lack float32) float64 {
	sum := 0
	for _, b := range centre {
		n := int(b) - 128
		sum += n * n
	}
	return float64(float64(l.unit)*float64(l.unit)*float64(sum)) + float64(float64(lack)*float64(lack))
}

// ranked is a list or a group, with the distance between its center and the target. The distance has the form that
// distances returns.
type ranked struct {
	list     int
	distance float64
}

func compareRanked(a, b ranked) int { return cmp.Compare(a.distance, b.distance) }

// rank returns all lists, partially sorted. The first lists, whose centers are nearest to the target, are sorted by
// distance. The other lists follow in any order.
func (l *Lists) rank(w *weights, first int) []ranked {
	if len(l.centers.missing) == 0 {
		return []ranked{{}}
	}
	l.prepare()
	if l.Similarity == DotProduct && w.length > 0 { // the length of the target does not affect the order
		longer := *w
		longer.unit *= float64(l.MaxLength) / w.length
		w = &longer
	}
	var room [distancesAtOnce]float64
	all := make([]ranked, 0, len(l.centers.missing))
	for i := 0; i < cap(all); i += len(room) {
		for j, d := range l.distances(&room, w, 0, &l.centers, i, cap(all)) {
			all = append(all, ranked{i + j, d})
		}
	}
	first = min(first, len(all))
	for i := first/2 - 1; i >= 0; i-- {
		sinkRanked(all[:first], i)
	}
	for i := first; i < len(all); i++ { // the farthest of the first lists has index 0
		if all[i].distance < all[0].distance {
			all[0], all[i] = all[i], all[0]
			sinkRanked(all[:first], 0)
		}
	}
	sortRanked(all[:first])
	return all
}

func sortRanked(list []ranked) {
	slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(compareRanked(a, b), cmp.Compare(a.list, b.list)) })
}

// sinkRanked moves a list down in a heap. In the heap, each list is farther away than its two children.
func sinkRanked(heap []ranked, i int) {
	for {
		furthest := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(heap); c++ {
			if heap[c].distance > heap[furthest].distance {
				furthest = c
			}
		}
		if furthest == i {
			return
		}
		heap[i], heap[furthest] = heap[furthest], heap[i]
		i = furthest
	}
}

// These constants are the maximum number of lists in Lists, and the maximum total size of the centers in bytes.
const (
	ListsMax     = 8192
	CentersBytes = 1 << 20
)

// errLists reports that bytes are not encoded lists.
var errLists = errors.New("malformed vector lists")

// Append appends the encoded form of the lists.
func (l *Lists) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(l.Generation))
	w.Byte(byte(l.Similarity))
	w.Uint(uint64(l.Dimension))
	w.Uint(uint64(l.Rows))
	w.Uint(uint64(math.Float32bits(l.MaxLength)))
	w.Uint(uint64(math.Float32bits(l.unit)))
	w.Uint(uint64(len(l.ends)))
	for _, end := range l.ends {
		w.Uint(uint64(end))
	}
	for _, f := range l.centers.missing {
		w.Uint(uint64(math.Float32bits(f)))
	}
	w.Bytes(l.centers.codes)
	w.EndFields()
	return w
}

// DecodeLists decodes the output of Append.
func DecodeLists(b []byte) (*Lists, error) {
	r := codec.NewReader(b, errLists)
	l := &Lists{Generation: uint32(r.UpTo(math.MaxUint32)), Similarity: Similarity(r.Byte()),
		Dimension: int(r.UpTo(math.MaxUint16)), Rows: int64(r.UpTo(math.MaxInt64)),
		MaxLength: math.Float32frombits(uint32(r.UpTo(math.MaxUint32))),
		unit:      math.Float32frombits(uint32(r.UpTo(math.MaxUint32)))}
	for range r.Count(1) {
		end := int(r.UpTo(ListsMax))
		if end < l.begin(len(l.ends)) {
			return nil, errLists
		}
		l.ends = append(l.ends, end)
	}
	for range l.begin(len(l.ends)) {
		l.centers.missing = append(l.centers.missing, math.Float32frombits(uint32(r.UpTo(math.MaxUint32))))
	}
	l.centers.codes = slices.Clone(r.Bytes())
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		return nil, errLists
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if l.Similarity > Euclidean || len(l.centers.codes) != len(l.centers.missing)*l.Dimension {
		return nil, errLists
	}
	return l, nil
}
