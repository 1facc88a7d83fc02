// SPDX-License-Identifier: Apache-2.0

package vector

import "math"

// Codes are codes of vectors that stand together, so that all are compared at once with what is looked for.
type Codes struct {
	heads []head
	// elements are those of all codes, one behind another.
	elements []byte
	// lost and size are the largest of what codes leave out, and of their lengths.
	lost, size float64
}

// head is what a code has before its elements.
type head struct{ scale, lost, square float32 }

func readHead(code []byte) head {
	return head{readFloat(code), readFloat(code[floatLen:]), readFloat(code[2*floatLen:])}
}

// Add adds the code in the value of an entry. All are of one dimension.
func (c *Codes) Add(entry []byte) {
	code := entry[entryHead:]
	h := readHead(code)
	c.heads, c.elements = append(c.heads, h), append(c.elements, code[codeHead:]...)
	c.lost, c.size = max(c.lost, float64(h.lost)), max(c.size, math.Sqrt(float64(h.square)))
}

// Len is how many codes there are.
func (c *Codes) Len() int { return len(c.heads) }

// Size is what they take, in bytes.
func (c *Codes) Size() int64 { return int64(12*cap(c.heads) + cap(c.elements)) }

// Clone copies codes to where they take no more than they need.
func (c *Codes) Clone() Codes {
	out := *c
	out.heads = append(make([]head, 0, len(c.heads)), c.heads...)
	out.elements = append(make([]byte, 0, len(c.elements)), c.elements...)
	return out
}

// Reset leaves none, and keeps the room.
func (c *Codes) Reset() { *c = Codes{heads: c.heads[:0], elements: c.elements[:0]} }

// AppendCode appends a code as entries have it.
func (c *Codes) AppendCode(dst []byte, i int) []byte {
	h, each := c.heads[i], len(c.elements)/len(c.heads)
	dst = appendFloat(appendFloat(appendFloat(dst, h.scale), h.lost), h.square)
	return append(dst, c.elements[i*each:(i+1)*each]...)
}

// Hit is a code of Codes by its number, and its bound.
type Hit struct {
	At    int
	Bound float32
}

// Hits appends those of the codes between two numbers whose bounds are not below least, in order.
func (s *Search) Hits(dst []Hit, c *Codes, first, limit int, least float32) []Hit {
	var dots [distancesAtOnce]int64
	cut, half := s.cut(c, least)
	for from := first; from < limit; from += len(dots) {
		heads := c.heads[from:min(limit, from+len(dots))]
		s.w.dots(dots[:len(heads)], c.elements[from*len(s.w.n):])
		for i := range heads {
			h := &heads[i]
			if s.w.unit*float64(h.scale)*float64(dots[i])-half*float64(h.square) < cut {
				continue
			}
			if b := s.boundBy(dots[i], h); b >= least {
				dst = append(dst, Hit{from + i, b})
			}
		}
	}
	return dst
}

// cut is what the product with a code, less half of the square of the code's length, is below only if its bound is
// below least: boundBy, solved for the product, with the largest slack that any code has.
func (s *Search) cut(c *Codes, least float32) (cut, half float64) {
	const rounding = 1e-6
	if s.lists.Similarity != Euclidean {
		slack := s.w.lost*c.size + s.w.length*c.lost + (s.w.length*c.size+1)*roundUp
		return 2*float64(least) - 1 - slack - rounding*(math.Abs(float64(least))+1), 0
	}
	if least <= 0 {
		return math.Inf(-1), 0.5
	}
	furthest := math.Sqrt(max(0, (1+roundUp)/(float64(least)*(1-rounding))-1)) + c.lost
	slack := 2*s.w.lost*c.size + (s.square+c.size*c.size)*roundUp
	return (s.square-slack-furthest*furthest)/2 - rounding*(s.square+c.size*c.size), 0.5
}
