// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bytes"
	"math"
	"slices"
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
	// order are the lists, those first that are to be looked at first; looked is how many were given out.
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

// Stretch is a range of values of entries: from From on, below Limit.
type Stretch struct{ From, Limit []byte }

// The lists that are looked at first are at least firstLeast, and at most firstMost: those whose centres are not
// further than firstFar times as the nearest, by the squares of distances. So few are where vectors are in clouds, and
// many where there is none.
const (
	firstLeast = 16
	firstMost  = 96
	firstFar   = 1.5
)

// firstLists is how many lists are looked at first, by their distances, the nearest first, each of which is less than
// it is by a number.
func firstLists(order []ranked, by float64) int {
	n := min(len(order), firstLeast)
	for n < min(len(order), firstMost) && order[n].distance+by <= firstFar*(order[0].distance+by) {
		n++
	}
	return n
}

// Next returns where the entries are that are to be looked at next, of rows between two places on the ring, both
// included; nil if all were. They are those of the nearest lists at first, and then of twice as many.
func (s *Search) Next(begin, last uint64) []Stretch {
	n := s.looked
	if s.order == nil {
		s.order = s.lists.rank(&s.w, firstMost)
		by := s.square
		if s.lists.Similarity == DotProduct {
			by = float64(s.lists.Most) * float64(s.lists.Most) // as long as it was made
		}
		n = firstLists(s.order, by)
	} else if s.looked < len(s.order) && !s.sorted {
		sortRanked(s.order[s.looked:])
		s.sorted = true
	}
	n = min(n, len(s.order)-s.looked)
	next := make([]int, n)
	for i := range next {
		next[i] = s.order[s.looked+i].list
	}
	s.looked += n
	slices.Sort(next)
	out := make([]Stretch, n)
	for i, list := range next {
		out[i].From = s.lists.appendHead(nil, list, begin)
		limit := s.lists.appendHead(nil, list, last)
		out[i].Limit = append(limit, 0xff) // no code begins with it: see appendFloat
	}
	return out
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
	scale, lost, square := readFloat(code), readFloat(code[floatLen:]), readFloat(code[2*floatLen:])
	dot := s.w.unit * float64(scale) * float64(s.w.dot(code[codeHead:]))
	size := math.Sqrt(float64(square))
	if s.lists.Similarity == Euclidean {
		d := s.square - 2*dot + float64(square)
		d -= 2*s.w.lost*size + (s.square+float64(square))*roundUp
		d = math.Sqrt(max(0, d)) - float64(lost)
		if d = max(0, d); d != d {
			d = 0
		}
		return float32(1/(1+d*d)) * (1 + roundUp)
	}
	most := dot + s.w.lost*size + s.w.length*float64(lost)
	most += (s.w.length*size + 1) * roundUp
	if s.lists.Similarity == Cosine {
		most = min(most, 1)
	}
	if most != most {
		return math.MaxFloat32
	}
	return float32((1 + most) / 2)
}

// EntryLen is the length of the value of an entry.
func (s *Search) EntryLen() int { return EntryLen(s.lists.Dimension) }

// Code is the code in the value of an entry.
func (s *Search) Code(entry []byte) []byte { return entry[entryHead:] }

// CodeOf is the code of a vector, which is valid until the next call.
func (s *Search) CodeOf(v []float32) []byte {
	s.image = s.lists.Similarity.image(s.image[:0], v)
	s.code = appendCode(s.code[:0], s.image)
	return s.code
}
