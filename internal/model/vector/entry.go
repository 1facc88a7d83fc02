// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bytes"
	"math"
)

// entryHead is the length of an index entry's value before the code. The value contains no zero byte. It consists of
// the following parts:
//
//	generation of the lists, modulo 255, plus 1
//	list, two bytes of 255 values each
//	the first 14 bits of the row's ring position, so that entries of one span are adjacent
//	code
const entryHead = 5

// EntryLen returns the length of the value of an entry, in bytes.
func EntryLen(dimension int) int { return entryHead + CodeLen(dimension) }

func (l *Lists) appendHead(dst []byte, list int, ring uint64) []byte {
	return append(dst, byte(l.Generation%255)+1, byte(list/255)+1, byte(list%255)+1, byte(ring>>57)|0x80,
		byte(ring>>50)|0x80)
}

// AppendEntry appends the value of a vector's entry. ring is the ring position of the vector's row.
func (l *Lists) AppendEntry(dst []byte, v []float32, ring uint64) []byte {
	image := l.Similarity.image(make([]float32, 0, len(v)), v)
	list := 0
	if len(l.centers.missing) > 0 {
		list = l.assign(image)
	}
	return appendCode(l.appendHead(dst, list, ring), image)
}

// Of reports whether the value of an entry belongs to these lists.
func (l *Lists) Of(entry []byte) bool {
	return len(entry) == EntryLen(l.Dimension) && entry[0] == byte(l.Generation%255)+1
}

// Newer reports whether the value of an entry belongs to a later generation than the generation of these lists.
// Entries store generations modulo 255, so generations are compared modulo 255.
func (l *Lists) Newer(entry []byte) bool {
	if len(entry) != EntryLen(l.Dimension) || entry[0] == 0 {
		return false
	}
	ahead := (int(entry[0]) - 1 - int(l.Generation%255) + 255) % 255
	return ahead > 0 && ahead <= 127
}

// Holds reports whether the value of an entry matches a vector, regardless of its row's position.
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
	if len(l.centers.missing) > 0 {
		list = l.assign(image)
	}
	return bytes.Equal(l.appendHead(head[:0], list, 0)[:3], entry[:3])
}

// Search is a search for the vectors nearest to a target. Search is not safe for concurrent use.
type Search struct {
	lists *Lists
	w     weights
	// order contains the lists in search order. searched is the number of lists that have been searched.
	order    []ranked
	searched int
	// sorted means that all lists in order are sorted, and not only the first lists.
	sorted bool
	// square is the square of the length of the target.
	square float64
	code   []byte
	image  []float32
}

// NewSearch returns a search of the lists for the vectors nearest to target.
func (l *Lists) NewSearch(target []float32) *Search {
	s := &Search{lists: l, w: newWeights(l.Similarity.image(nil, target))}
	s.square = s.w.length * s.w.length
	return s
}

// These constants determine the first set of lists to search. The size of this set is between firstLeast and
// firstRoots times the square root of the number of lists. A list belongs to the set if its center is near enough. The
// maximum squared distance is firstFar times the squared distance of the worst wanted vector found so far. The set is
// small if vectors form clusters, and large otherwise.
const (
	firstLeast = 16
	firstRoots = 6
	firstFar   = 1.8
)

// firstSetMax returns the maximum size of the first set of lists.
func (l *Lists) firstSetMax() int { return max(firstLeast, firstRoots*isqrt(l.Len())) }

// Next returns the next lists to search, with the nearest list first. If all lists have been searched, Next returns no
// lists. The first call returns the first set. TooFar may exclude the last lists of this set. Each later call doubles
// the number of lists.
func (s *Search) Next() []int {
	n := s.lists.firstSetMax()
	if s.order == nil {
		s.order = s.lists.rank(&s.w, n)
	} else if n = s.searched; s.searched < len(s.order) && !s.sorted {
		s.sorted = true
		sortRanked(s.order[s.searched:])
	}
	next := make([]int, min(n, len(s.order)-s.searched))
	for i := range next {
		next[i] = s.order[s.searched+i].list
	}
	return next
}

// MarkSearched records that the first n lists that Next returned have been searched. n must be at least one.
func (s *Search) MarkSearched(n int) { s.searched += n }

// TooFar reports whether list i of the lists that Next returned, and all later lists, are too far away for the first
// set. bound is the bound of the last wanted vector among the nearest vectors found so far. bound is 0 or less if too
// few vectors have been found.
func (s *Search) TooFar(i int, bound float32) bool {
	return s.searched == 0 && i >= firstLeast && bound > 0 &&
		s.order[i].distance+s.distanceOffset() > firstFar*s.squaredDistanceAt(bound)
}

// distanceOffset returns the amount that must be added to the distances of rank.
func (s *Search) distanceOffset() float64 {
	if s.lists.Similarity == DotProduct {
		return float64(s.lists.MaxLength) * float64(s.lists.MaxLength) // the squared length of the target's image
	}
	return s.square
}

// squaredDistanceAt returns the squared distance at which a bound is reached, in the unit of the distances to centers.
func (s *Search) squaredDistanceAt(bound float32) float64 {
	switch product := 2*float64(bound) - 1; s.lists.Similarity {
	case Euclidean:
		return 1/float64(bound) - 1
	case DotProduct:
		return 2 * (s.distanceOffset() - product*float64(s.lists.MaxLength)/s.w.length)
	default:
		return 2 * (1 - product)
	}
}

// EntryRange is the range [From, Limit) of entry values.
type EntryRange struct{ From, Limit []byte }

// EntryRange returns the range of the entries of a list whose rows are between two ring positions. Both positions are
// included.
func (s *Search) EntryRange(list int, begin, last uint64) EntryRange {
	// No code starts with the byte after the limit (see appendFloat).
	return EntryRange{s.lists.appendHead(nil, list, begin), append(s.lists.appendHead(nil, list, last), 0xff)}
}

// Of reports whether entry can be the value of an entry in the searched lists.
func (s *Search) Of(entry []byte) bool { return s.lists.Of(entry) }

// Bound returns an upper bound of the similarity between the target and the vector of an entry. Similarity.Of defines
// the similarity.
func (s *Search) Bound(entry []byte) float32 { return s.bound(entry[entryHead:]) }

// BoundOf returns the Bound of the entry of a vector.
func (s *Search) BoundOf(v []float32) float32 {
	return s.bound(s.CodeOf(v))
}

func (s *Search) bound(code []byte) float32 {
	h := readHead(code)
	return s.boundOfProduct(s.w.dot(code[codeHead:]), &h)
}

// boundOfProduct returns the bound of a code, given its product with the weights.
func (s *Search) boundOfProduct(product int64, h *head) float32 {
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

// Code returns the code in the value of an entry.
func (s *Search) Code(entry []byte) []byte { return entry[entryHead:] }

// CodeOf returns the code of a vector. The result is valid until the next call of CodeOf.
func (s *Search) CodeOf(v []float32) []byte {
	s.image = s.lists.Similarity.image(s.image[:0], v)
	s.code = appendCode(s.code[:0], s.image)
	return s.code
}
