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
	unit    float32
	centres []byte
	lacks   []float32
	groups  []group
	squares []float64
	once    sync.Once
}

// group is a run of lists, with the middle of their centres.
type group struct {
	end    int // of its lists
	centre []byte
	lack   float32
	square float64
}

// NewLists are those that an index begins with: none.
func NewLists(s Similarity, dimension int) *Lists { return &Lists{Similarity: s, Dimension: dimension} }

// None reports whether vectors have no entries, so that a search looks at the rows themselves.
func (l *Lists) None() bool { return l.Generation == 0 }

// Len is the number of lists.
func (l *Lists) Len() int { return max(1, len(l.lacks)) }

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
	if len(l.lacks) == 0 {
		return 0
	}
	image := l.Similarity.image(nil, v)
	return l.assign(image)
}

// assign is the list of an image: the nearest centre of those in the groups that are the nearest.
func (l *Lists) assign(image []float32) int {
	l.prepare()
	w, lack := weigh(image), l.lack(image)
	type near struct {
		group    int
		distance float64
	}
	var room [groupsLooked + 1]near
	best := room[:0]
	for i := range l.groups {
		g := &l.groups[i]
		n := near{i, l.distance(&w, lack, g.centre, g.lack, g.square)}
		at, _ := slices.BinarySearchFunc(best, n, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
		if best = slices.Insert(best, at, n); len(best) > groupsLooked {
			best = best[:groupsLooked]
		}
	}
	list, least := 0, math.Inf(1)
	for _, n := range best {
		for i := l.begin(n.group); i < l.groups[n.group].end; i++ {
			if d := l.distance(&w, lack, l.centre(i), l.lacks[i], l.squares[i]); d < least {
				list, least = i, d
			}
		}
	}
	return list
}

func (l *Lists) begin(group int) int {
	if group == 0 {
		return 0
	}
	return l.groups[group-1].end
}

func (l *Lists) centre(i int) []byte { return l.centres[i*l.Dimension : (i+1)*l.Dimension] }

// distance is the square of the distance to a centre, less the square of the image's length.
func (l *Lists) distance(w *weights, lack float64, centre []byte, lacks float32, square float64) float64 {
	product := float64(w.unit * float64(l.unit) * float64(w.dot(centre)))
	return square - 2*float64(product+float64(lack*float64(lacks)))
}

// prepare computes what is not stored.
func (l *Lists) prepare() {
	l.once.Do(func() {
		l.squares = make([]float64, len(l.lacks))
		for i := range l.squares {
			l.squares[i] = l.square(l.centre(i), l.lacks[i])
		}
		for i := range l.groups {
			g, first := &l.groups[i], l.begin(i)
			sums, lack := make([]int, l.Dimension), 0.0
			for j := first; j < g.end; j++ {
				for k, b := range l.centre(j) {
					sums[k] += int(b) - 128
				}
				lack += float64(l.lacks[j])
			}
			n := max(1, g.end-first)
			g.centre = make([]byte, l.Dimension)
			for k, sum := range sums {
				g.centre[k] = byte(sum/n + 128)
			}
			g.lack = float32(lack / float64(n))
			g.square = l.square(g.centre, g.lack)
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

// ranked is a list, and how far its centre is from what is looked for, as distance has it.
type ranked struct {
	list     int
	distance float64
}

// rank lists all lists: of those whose centres are nearest to what is looked for the first ones, in order, and behind
// them the others in any order.
func (l *Lists) rank(w *weights, first int) []ranked {
	if len(l.lacks) == 0 {
		return []ranked{{}}
	}
	l.prepare()
	if l.Similarity == DotProduct && w.length > 0 { // its length makes no difference to what is the nearest
		longer := *w
		longer.unit *= float64(l.Most) / w.length
		w = &longer
	}
	all := make([]ranked, len(l.lacks))
	for i := range all {
		all[i] = ranked{i, l.distance(w, 0, l.centre(i), l.lacks[i], l.squares[i])}
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
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.list, b.list))
	})
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
	w.Uint(uint64(len(l.groups)))
	for i := range l.groups {
		w.Uint(uint64(l.groups[i].end))
	}
	for _, f := range l.lacks {
		w.Uint(uint64(math.Float32bits(f)))
	}
	w.Bytes(l.centres)
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
		if end < l.begin(len(l.groups)) {
			return nil, errLists
		}
		l.groups = append(l.groups, group{end: end})
	}
	for range l.begin(len(l.groups)) {
		l.lacks = append(l.lacks, math.Float32frombits(uint32(r.UpTo(math.MaxUint32))))
	}
	l.centres = slices.Clone(r.Bytes())
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		return nil, errLists
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if l.Similarity > Euclidean || len(l.centres) != len(l.lacks)*l.Dimension {
		return nil, errLists
	}
	return l, nil
}
