// SPDX-License-Identifier: Apache-2.0

package vector

import "math"

// Codes holds codes in a layout in which many codes can be compared with a search target at the same time.
type Codes struct {
	heads []head
	// elements holds the elements of all codes consecutively.
	elements []byte
	// lost is the maximum compression error of the codes. size is their maximum length.
	lost, size float64
}

// head is the part of a code before its elements.
type head struct{ scale, lost, square float32 }

func readHead(code []byte) head {
	return head{readFloat(code), readFloat(code[floatLen:]), readFloat(code[2*floatLen:])}
}

// Add adds the code in the value of an index entry. All codes must have the same dimension.
func (c *Codes) Add(entry []byte) {
	code := entry[entryHead:]
	h := readHead(code)
	c.heads, c.elements = append(c.heads, h), append(c.elements, code[codeHead:]...)
	c.lost, c.size = max(c.lost, float64(h.lost)), max(c.size, math.Sqrt(float64(h.square)))
}

// Len returns the number of codes.
func (c *Codes) Len() int { return len(c.heads) }

// Size returns the memory that the codes use, in bytes.
func (c *Codes) Size() int64 { return int64(12*cap(c.heads) + cap(c.elements)) }

// Clone returns a copy without unused capacity.
func (c *Codes) Clone() Codes {
	out := *c
	out.heads = append(make([]head, 0, len(c.heads)), c.heads...)
	out.elements = append(make([]byte, 0, len(c.elements)), c.elements...)
	return out
}

// Reset removes all codes and keeps the capacity.
func (c *Codes) Reset() { *c = Codes{heads: c.heads[:0], elements: c.elements[:0]} }

// AppendCode appends a code in the format of index entries.
func (c *Codes) AppendCode(dst []byte, i int) []byte {
	h, each := c.heads[i], len(c.elements)/len(c.heads)
	dst = appendFloat(appendFloat(appendFloat(dst, h.scale), h.lost), h.square)
	return append(dst, c.elements[i*each:(i+1)*each]...)
}

// Hit is the index of a code in Codes and the code's bound.
type Hit struct {
	At    int
	Bound float32
}

// Hits appends, in order, the codes whose bounds are greater than or equal to least. It examines the codes with
// indexes from first up to limit.
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
			if b := s.boundOfProduct(dots[i], h); b >= least {
				dst = append(dst, Hit{from + i, b})
			}
		}
	}
	return dst
}

// cut returns a threshold and the factor half. Consider the dot product of the weights and a code, minus half times
// the squared length of the code. If this value is below the threshold, the bound of the code is below least. The
// computation inverts boundOfProduct with the maximum slack of all codes.
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
