// SPDX-License-Identifier: Apache-2.0

package vector

import "golang.org/x/sys/cpu"

// dotAVX2 implements dotPlain for n elements. n must be a multiple of 32 and at most chunk.
//
//go:noescape
func dotAVX2(w *int16, code *byte, n int) int32

// dotFourAVX2 implements dotPlain for n elements of each of four codes, which are stride bytes apart. n must be a
// multiple of 16 and at most chunk.
//
//go:noescape
func dotFourAVX2(w *int16, codes *byte, stride, n int, out *[4]int32)

// chunk is the maximum number of elements whose sum fits into 32 bits.
const chunk = 256

// dotWhole multiplies most elements, and returns the number of remaining elements.
func dotWhole(w []int16, code []byte) (sum int64, rest int) {
	if !cpu.X86.HasAVX2 {
		return 0, len(w)
	}
	for len(w) >= 32 {
		n := min(len(w)&^31, chunk)
		_ = code[n-1]
		sum += int64(dotAVX2(&w[0], &code[0], n))
		w, code = w[n:], code[n:]
	}
	return sum, len(w)
}

// dotFour adds the products of most elements of four concatenated codes to sums. dotFour returns the number of
// remaining elements.
func dotFour(w []int16, codes []byte, sums []int64) (rest int) {
	if !cpu.X86.HasAVX2 {
		return len(w)
	}
	var out [4]int32
	stride := len(w)
	for sums = sums[:4]; len(w) >= 16; {
		_ = codes[4*stride-1]
		n := min(len(w)&^15, chunk)
		dotFourAVX2(&w[0], &codes[stride-len(w)], stride, n, &out)
		for i, x := range out {
			sums[i] += int64(x)
		}
		w = w[n:]
	}
	return len(w)
}
