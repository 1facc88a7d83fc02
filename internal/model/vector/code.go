// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"encoding/binary"
	"math"
)

// codeHead is the length of a code before the elements. A code is a compressed vector in an index entry. It consists
// of the size of the compression error and one byte for each element. A code contains no zero byte. The code
// represents the image of the vector. For the cosine similarity, the image is the vector scaled to length 1.
//
//	scale  of one unit of the elements, a float of 5 bytes
//	lost   the distance between image and code, rounded up
//	square of the code's length
//	128 + element / scale, a byte each
const codeHead = 3 * floatLen

// CodeLen returns the length of the code of a vector, in bytes.
func CodeLen(dimension int) int { return codeHead + dimension }

const floatLen = 5

// appendFloat appends the bits of a float, seven bits per byte.
func appendFloat(dst []byte, f float32) []byte {
	b := math.Float32bits(f)
	return append(dst, byte(b>>28)|0x80, byte(b>>21)|0x80, byte(b>>14)|0x80, byte(b>>7)|0x80, byte(b)|0x80)
}

func readFloat(b []byte) float32 {
	_ = b[4]
	const low = 0x7f
	return math.Float32frombits(uint32(b[0]&low)<<28 | uint32(b[1]&low)<<21 | uint32(b[2]&low)<<14 |
		uint32(b[3]&low)<<7 | uint32(b[4]&low))
}

// image appends the image of a vector, which a code represents. The computation of the length of a vector uses exact
// products.
func (s Similarity) image(dst, v []float32) []float32 {
	if s != Cosine {
		return append(dst, v...)
	}
	inv := 1 / length(v)
	for _, x := range v {
		dst = append(dst, float32(float64(x)*inv))
	}
	return dst
}

// length returns the length of a vector.
func length(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

func largest(v []float32) (most float32) {
	for _, x := range v {
		most = max(most, x, -x)
	}
	return most
}

// codeMax is the maximum element of a code.
const codeMax = 127

// appendCode appends the code of an image.
func appendCode(dst []byte, image []float32) []byte {
	start := len(dst)
	for range codeHead {
		dst = append(dst, 0)
	}
	scale := largest(image) / codeMax
	lost, square := 0.0, 0
	for _, x := range image {
		n := 0
		if scale > 0 {
			n = int(max(-codeMax, min(codeMax, math.RoundToEven(float64(x)/float64(scale)))))
		}
		d := float64(x) - float64(float64(scale)*float64(n))
		lost += float64(d * d)
		square += n * n
		dst = append(dst, byte(n+128))
	}
	head := appendFloat(dst[start:start], scale)
	head = appendFloat(head, float32(math.Sqrt(lost)*(1+roundUp)))
	appendFloat(head, float32(float64(scale)*float64(scale)*float64(square)))
	return dst
}

// roundUp is added to values that rounding errors of floats must not make too small.
const roundUp = 1e-5

// AppendVector appends the wire form of a vector.
func AppendVector(dst []byte, v []float32) []byte {
	for _, x := range v {
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}

// ReadVector appends the elements of a vector in wire form to dst.
func ReadVector(dst []float32, wire []byte) []float32 {
	for ; len(wire) >= 4; wire = wire[4:] {
		dst = append(dst, math.Float32frombits(binary.BigEndian.Uint32(wire)))
	}
	return dst
}

// weights is an image in a form that can be multiplied with many codes. Its elements are integer multiples of a common
// unit.
type weights struct {
	n    []int16
	sum  int64
	unit float64
	// lost is the distance between the image and the weights. length is the length of the image.
	lost, length float64
}

// weightMax is the maximum weight.
const weightMax = 1<<15 - 1

func newWeights(image []float32) weights {
	w := weights{n: make([]int16, len(image)), unit: float64(largest(image)) / weightMax, length: length(image)}
	if w.unit == 0 {
		return w
	}
	lost := 0.0
	for i, x := range image {
		n := max(-weightMax, min(weightMax, math.RoundToEven(float64(x)/w.unit)))
		w.n[i] = int16(n)
		w.sum += int64(n)
		d := float64(x) - float64(w.unit*n)
		lost += float64(d * d)
	}
	w.lost = math.Sqrt(lost)
	return w
}

// dot returns the dot product of the weights and the elements of a code, in multiples of both units. The result is
// exact.
func (w *weights) dot(code []byte) int64 {
	code = code[:len(w.n)]
	sum, rest := dotWhole(w.n, code)
	from := len(w.n) - rest
	return sum + dotPlain(w.n[from:], code[from:]) - 128*w.sum
}

// dots sets each element of dst to the dot product of the weights and one of the concatenated codes. Each code must
// consist only of its elements.
func (w *weights) dots(dst []int64, codes []byte) {
	each := len(w.n)
	for ; len(dst) >= 4; dst, codes = dst[4:], codes[4*each:] {
		clear(dst[:4])
		rest := dotFour(w.n, codes, dst)
		for i := range dst[:4] {
			if rest > 0 {
				dst[i] += dotPlain(w.n[each-rest:], codes[(i+1)*each-rest:(i+1)*each])
			}
			dst[i] -= 128 * w.sum
		}
	}
	for i := range dst {
		dst[i] = w.dot(codes[i*each:])
	}
}

func dotPlain(n []int16, code []byte) int64 {
	var a, b, c, d int64
	for len(n) >= 4 && len(code) >= 4 {
		a += int64(n[0]) * int64(code[0])
		b += int64(n[1]) * int64(code[1])
		c += int64(n[2]) * int64(code[2])
		d += int64(n[3]) * int64(code[3])
		n, code = n[4:], code[4:]
	}
	for i, x := range n {
		a += int64(x) * int64(code[i])
	}
	return a + b + c + d
}
