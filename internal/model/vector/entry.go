// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bytes"
	"math"
)

// The value of an entry of an index is where its code stands, and the code. No byte of it is zero:
//
//	generation of the lists, modulo 255, plus 1
//	list, two bytes of 255 values each
//	the first 14 bits of the row's place on the ring, so that those of one span are together
//	code
const entryHead = 5

// EntryLen is the length of the value of an entry, in bytes.
func EntryLen(dimension int) int { return entryHead + CodeLen(dimension) }

func (l *Lists) appendHead(dst []byte, list int, ring uint64) []byte {
	return append(dst, byte(l.Generation%255)+1, byte(list/255)+1, byte(list%255)+1, byte(ring>>57)|0x80,
		byte(ring>>50)|0x80)
}

// AppendEntry appends the value of the entry of a vector whose row stands at a place on the ring.
func (l *Lists) AppendEntry(dst []byte, v []float32, ring uint64) []byte {
	image := l.Similarity.image(make([]float32, 0, len(v)), v)
	list := 0
	if len(l.places.lacks) > 0 {
		list = l.assign(image)
	}
	return appendCode(l.appendHead(dst, list, ring), image)
}

// Of reports whether the value of an entry is of these lists.
func (l *Lists) Of(entry []byte) bool {
	return len(entry) == EntryLen(l.Dimension) && entry[0] == byte(l.Generation%255)+1
}

// Newer reports whether the value of an entry is of a later generation than these lists. Generations are compared in
// the cycle of 255 that entries store.
func (l *Lists) Newer(entry []byte) bool {
	if len(entry) != EntryLen(l.Dimension) || entry[0] == 0 {
		return false
	}
	ahead := (int(entry[0]) - 1 - int(l.Generation%255) + 255) % 255
	return ahead > 0 && ahead <= 127
}

// Holds reports whether the value of an entry is that of a vector, wherever its row stands.
func (l *Lists) Holds(entry []byte, v []float32) bool {
	if !l.Of(entry) || len(v) != l.Dimension || l.Similarity.Check(v) != nil {
		return false
	}
	image := l.Similarity.image(make([]float32, 0, len(v)), v)
	if !bytes.Equal(appendCode(make([]byte, 0, CodeLen(len(v))), image), entry[entryHead:]) {
		return false
	}
	var head [entryHead]byte
	list := 0
	if len(l.places.lacks) > 0 {
		list = l.assign(image)
	}
	return bytes.Equal(l.appendHead(head[:0], list, 0)[:3], entry[:3])
}

// Search is a search for what is near to a vector. It is not safe for concurrent use.
type Search struct {
	lists *Lists
	w     weights
	// order are the lists, those first that are to be looked at first; looked is how many were.
	order  []ranked
	looked int
	// sorted says that all of order is in order, and not its first ones only.
	sorted bool
	// square is that of the length of what is looked for.
	square float64
	code   []byte
	image  []float32
}

// NewSearch searches lists for what is near to a vector.
func (l *Lists) NewSearch(target []float32) *Search {
	s := &Search{lists: l, w: weigh(l.Similarity.image(nil, target))}
	s.square = s.w.length * s.w.length
	return s
}

// The lists that are looked at first are at least firstLeast, and at most firstRoots times the root of the number of
// lists: those whose centres are not further than firstFar times as far as the last one wanted of the nearest that were
// seen, by the squares of distances. So few are looked at where vectors are in clouds, and many where there is none.
const (
	firstLeast = 16
	firstRoots = 6
	firstFar   = 1.8
)

// firstMost is how many lists are looked at first, at most.
func (l *Lists) firstMost() int { return max(firstLeast, firstRoots*isqrt(l.Len())) }

// Next returns the lists to be looked at next, the nearest first; none if all were. At first those are a choice, of
// which Far leaves out the last ones, and then as many again as were looked at.
func (s *Search) Next() []int {
	n := s.lists.firstMost()
	if s.order == nil {
		s.order = s.lists.rank(&s.w, n)
	} else if n = s.looked; s.looked < len(s.order) && !s.sorted {
		s.sorted = true
		sortRanked(s.order[s.looked:])
	}
	next := make([]int, min(n, len(s.order)-s.looked))
	for i := range next {
		next[i] = s.order[s.looked+i].list
	}
	return next
}

// Looked notes that so many of those that Next has returned were looked at. It is at least one.
func (s *Search) Looked(n int) { s.looked += n }

// Far reports whether those that Next has returned are too far, from one on, to be looked at before others are wanted:
// bound is that of the last one wanted of the nearest seen so far, 0 or less if there are not enough.
func (s *Search) Far(i int, bound float32) bool {
	return s.looked == 0 && i >= firstLeast && bound > 0 && s.order[i].distance+s.by() > firstFar*s.squareBy(bound)
}

// by is what distances of rank are too small by.
func (s *Search) by() float64 {
	if s.lists.Similarity == DotProduct {
		return float64(s.lists.Most) * float64(s.lists.Most) // as long as it was made
	}
	return s.square
}

// squareBy is the square of the distance at which a bound is met, measured as those to centres are.
func (s *Search) squareBy(bound float32) float64 {
	switch product := 2*float64(bound) - 1; s.lists.Similarity {
	case Euclidean:
		return 1/float64(bound) - 1
	case DotProduct:
		return 2 * (s.by() - product*float64(s.lists.Most)/s.w.length)
	default:
		return 2 * (1 - product)
	}
}

// Stretch is a range of values of entries: from From on, below Limit.
type Stretch struct{ From, Limit []byte }

// Stretch is where the entries of a list are, of rows between two places on the ring, both included.
func (s *Search) Stretch(list int, begin, last uint64) Stretch {
	// No code begins with the byte behind the limit: see appendFloat.
	return Stretch{s.lists.appendHead(nil, list, begin), append(s.lists.appendHead(nil, list, last), 0xff)}
}

// Of reports whether bytes may be the value of an entry of the lists that are searched.
func (s *Search) Of(entry []byte) bool { return s.lists.Of(entry) }

// Bound is how near at most the vector is that an entry is of, by the measure of Similarity.Of.
func (s *Search) Bound(entry []byte) float32 { return s.bound(entry[entryHead:]) }

// BoundOf is Bound of the entry of a vector.
func (s *Search) BoundOf(v []float32) float32 {
	return s.bound(s.CodeOf(v))
}

func (s *Search) bound(code []byte) float32 {
	h := readHead(code)
	return s.boundBy(s.w.dot(code[codeHead:]), &h)
}

// boundBy is the bound of a code by its product with the weights.
func (s *Search) boundBy(product int64, h *head) float32 {
	dot := s.w.unit * float64(h.scale) * float64(product)
	square, lost := float64(h.square), float64(h.lost)
	size := math.Sqrt(square)
	if s.lists.Similarity == Euclidean {
		d := s.square - 2*dot + square
		d -= 2*s.w.lost*size + (s.square+square)*roundUp
		d = math.Sqrt(max(0, d)) - lost
		if d = max(0, d); d != d {
			d = 0
		}
		return float32(1/(1+d*d)) * (1 + roundUp)
	}
	most := dot + s.w.lost*size + s.w.length*lost
	most += (s.w.length*size + 1) * roundUp
	if s.lists.Similarity == Cosine {
		most = min(most, 1)
	}
	if most != most {
		return math.MaxFloat32
	}
	return float32((1 + most) / 2)
}

// Code is the code in the value of an entry.
func (s *Search) Code(entry []byte) []byte { return entry[entryHead:] }

// CodeOf is the code of a vector, which is valid until the next call.
func (s *Search) CodeOf(v []float32) []byte {
	s.image = s.lists.Similarity.image(s.image[:0], v)
	s.code = appendCode(s.code[:0], s.image)
	return s.code
}
