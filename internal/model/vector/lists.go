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

// Lists divide vectors into lists of those that are near to each other: each belongs to the list whose centre is the
// nearest to its image. Centres that are near to each other stand together, in groups. A value of Lists is immutable.
//
// Without centres all vectors belong to one list.
type Lists struct {
	// Generation numbers the lists that an index has had. Entries of different generations are apart. Generation 0 is
	// that of an index without lists: no vector has an entry.
	Generation uint32
	Similarity Similarity
	Dimension  int
	// Rows is of how many vectors the table was thought to have when the centres were found.
	Rows int64
	// Most is the length that no vector is longer than, nearly, where the similarity is the dot product: a vector is
	// found by its direction and by what its length lacks.
	Most float32

	// unit is that of the elements of all centres. centres are as codes have them, without what is before.
	unit   float32
	places centres
	// ends are those of the groups, as numbers of lists; middles are of their centres.
	ends    []int
	middles centres
	once    sync.Once
}

// centres are places: the elements of all, one behind another as codes have them, without what is before; what their
// lengths lack, and the squares of their lengths with that.
type centres struct {
	codes   []byte
	lacks   []float32
	squares []float64
}

// NewLists are those that an index begins with: none.
func NewLists(s Similarity, dimension int) *Lists { return &Lists{Similarity: s, Dimension: dimension} }

// None reports whether vectors have no entries, so that a search looks at the rows themselves.
func (l *Lists) None() bool { return l.Generation == 0 }

// Len is the number of lists.
func (l *Lists) Len() int { return max(1, len(l.places.lacks)) }

// lack is what the length of an image lacks to Most. It is 0 but for dot products.
func (l *Lists) lack(image []float32) float64 {
	if l.Similarity != DotProduct {
		return 0
	}
	n := length(image)
	return math.Sqrt(max(0, float64(float64(l.Most)*float64(l.Most))-float64(n*n)))
}

// groupsLooked is in how many groups the nearest centre is looked for.
const groupsLooked = 8

// Assign is the list that a vector belongs to.
func (l *Lists) Assign(v []float32) int {
	if len(l.places.lacks) == 0 {
		return 0
	}
	image := l.Similarity.image(nil, v)
	return l.assign(image)
}

// assign is the list of an image: the nearest centre of those in the groups that are the nearest.
func (l *Lists) assign(image []float32) int {
	l.prepare()
	w, lack := weigh(image), l.lack(image)
	var room [distancesAtOnce]float64
	var near [groupsLooked + 1]ranked
	best := near[:0]
	for i := 0; i < len(l.ends); i += len(room) {
		for j, d := range l.distances(&room, &w, lack, &l.middles, i, len(l.ends)) {
			if len(best) == groupsLooked && d > best[groupsLooked-1].distance {
				continue
			}
			n := ranked{i + j, d}
			at, _ := slices.BinarySearchFunc(best, n, compareRanked)
			if best = slices.Insert(best, at, n); len(best) > groupsLooked {
				best = best[:groupsLooked]
			}
		}
	}
	list, least := 0, math.Inf(1)
	for _, n := range best {
		for i := l.begin(n.list); i < l.ends[n.list]; i += len(room) {
			for j, d := range l.distances(&room, &w, lack, &l.places, i, l.ends[n.list]) {
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

func (l *Lists) centre(i int) []byte { return l.places.codes[i*l.Dimension : (i+1)*l.Dimension] }

// distancesAtOnce is how many distances are computed at once.
const distancesAtOnce = 128

// distances are those to the centres from one on, as many as there is room for below a limit: their squares, less the
// square of the image's length.
func (l *Lists) distances(room *[distancesAtOnce]float64, w *weights, lack float64, of *centres, from,
	limit int) []float64 {
	var dots [distancesAtOnce]int64
	out := room[:min(len(room), limit-from)]
	w.dots(dots[:len(out)], of.codes[from*l.Dimension:])
	unit := float64(w.unit * float64(l.unit))
	for i := range out {
		product := float64(unit * float64(dots[i]))
		out[i] = of.squares[from+i] - 2*float64(product+float64(lack*float64(of.lacks[from+i])))
	}
	return out
}

// prepare computes what is not stored.
func (l *Lists) prepare() {
	l.once.Do(func() {
		for i := range l.places.lacks {
			l.places.squares = append(l.places.squares, l.square(l.centre(i), l.places.lacks[i]))
		}
		for i, end := range l.ends {
			sums, lack, first := make([]int, l.Dimension), 0.0, l.begin(i)
			for j := first; j < end; j++ {
				for k, b := range l.centre(j) {
					sums[k] += int(b) - 128
				}
				lack += float64(l.places.lacks[j])
			}
			n, m := max(1, end-first), &l.middles
			for _, sum := range sums {
				m.codes = append(m.codes, byte(sum/n+128))
			}
			m.lacks = append(m.lacks, float32(lack/float64(n)))
			m.squares = append(m.squares, l.square(m.codes[i*l.Dimension:], m.lacks[i]))
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

// ranked is a list, or a group, and how far its centre is from what is looked for, as distances has it.
type ranked struct {
	list     int
	distance float64
}

func compareRanked(a, b ranked) int { return cmp.Compare(a.distance, b.distance) }

// rank lists all lists: of those whose centres are nearest to what is looked for the first ones, in order, and behind
// them the others in any order.
func (l *Lists) rank(w *weights, first int) []ranked {
	if len(l.places.lacks) == 0 {
		return []ranked{{}}
	}
	l.prepare()
	if l.Similarity == DotProduct && w.length > 0 { // its length makes no difference to what is the nearest
		longer := *w
		longer.unit *= float64(l.Most) / w.length
		w = &longer
	}
	var room [distancesAtOnce]float64
	all := make([]ranked, 0, len(l.places.lacks))
	for i := 0; i < cap(all); i += len(room) {
		for j, d := range l.distances(&room, w, 0, &l.places, i, cap(all)) {
			all = append(all, ranked{i + j, d})
		}
	}
	first = min(first, len(all))
	for i := first/2 - 1; i >= 0; i-- {
		sinkRanked(all[:first], i)
	}
	for i := first; i < len(all); i++ { // the furthest of the first stands in front
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

// sinkRanked moves a list behind those that are further: each is further than the two behind it, as in a heap.
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

// The bounds of lists: of how many there are, and of how many bytes their centres have.
const (
	ListsMax     = 8192
	CentresBytes = 1 << 20
)

// errLists says that bytes are no lists.
var errLists = errors.New("lists of vectors do not decode")

// Append appends the encoded form.
func (l *Lists) Append(dst []byte) []byte {
	w := codec.Writer(dst)
	w.Uint(uint64(l.Generation))
	w.Byte(byte(l.Similarity))
	w.Uint(uint64(l.Dimension))
	w.Uint(uint64(l.Rows))
	w.Uint(uint64(math.Float32bits(l.Most)))
	w.Uint(uint64(math.Float32bits(l.unit)))
	w.Uint(uint64(len(l.ends)))
	for _, end := range l.ends {
		w.Uint(uint64(end))
	}
	for _, f := range l.places.lacks {
		w.Uint(uint64(math.Float32bits(f)))
	}
	w.Bytes(l.places.codes)
	w.EndFields()
	return w
}

// DecodeLists reads what Append wrote.
func DecodeLists(b []byte) (*Lists, error) {
	r := codec.NewReader(b, errLists)
	l := &Lists{Generation: uint32(r.UpTo(math.MaxUint32)), Similarity: Similarity(r.Byte()),
		Dimension: int(r.UpTo(math.MaxUint16)), Rows: int64(r.UpTo(math.MaxInt64)),
		Most: math.Float32frombits(uint32(r.UpTo(math.MaxUint32))),
		unit: math.Float32frombits(uint32(r.UpTo(math.MaxUint32)))}
	for range r.Count(1) {
		end := int(r.UpTo(ListsMax))
		if end < l.begin(len(l.ends)) {
			return nil, errLists
		}
		l.ends = append(l.ends, end)
	}
	for range l.begin(len(l.ends)) {
		l.places.lacks = append(l.places.lacks, math.Float32frombits(uint32(r.UpTo(math.MaxUint32))))
	}
	l.places.codes = slices.Clone(r.Bytes())
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		return nil, errLists
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if l.Similarity > Euclidean || len(l.places.codes) != len(l.places.lacks)*l.Dimension {
		return nil, errLists
	}
	return l, nil
}
