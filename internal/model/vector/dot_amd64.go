// SPDX-License-Identifier: Apache-2.0

package vector

import "golang.org/x/sys/cpu"

// dotAVX2 is dotPlain of n elements, a multiple of 32, and not more than chunk.
//
//go:noescape
func dotAVX2(w *int16, code *byte, n int) int32

// chunk is of how many elements the sum fits into 32 bits.
const chunk = 256

// dotWhole multiplies most elements, and returns of how many there was no product.
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
