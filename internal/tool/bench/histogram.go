// SPDX-License-Identifier: Apache-2.0

package bench

import "math/bits"

// histogram counts durations in microseconds. The width of a bucket is at most 1/64 of its value, so quantiles are
// accurate to 1.6%. The zero histogram is empty.
type histogram struct {
	counts [(64 - subBits) << subBits]int64
	total  int64
}

const subBits = 6

func bucket(v int64) int {
	if v < 1<<subBits {
		return int(max(v, 0))
	}
	shift := bits.Len64(uint64(v)) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// middle returns the value in the middle of a bucket.
func middle(i int) float64 {
	if i < 1<<subBits {
		return float64(i)
	}
	shift := i>>subBits - 1
	low := int64(i&(1<<subBits-1)+1<<subBits) << shift
	return float64(low) + float64(int64(1)<<shift)/2
}

func (h *histogram) record(micros int64) {
	h.counts[bucket(micros)]++
	h.total++
}

func (h *histogram) add(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
}

// quantile returns the value below which the fraction q of all values lies. For an empty histogram, it returns 0.
func (h *histogram) quantile(q float64) float64 {
	rank := int64(q * float64(h.total))
	for i, n := range h.counts {
		if rank -= n; rank < 0 {
			return middle(i)
		}
	}
	return 0
}

func (h *histogram) latency() Latency {
	return Latency{P50: h.quantile(0.5), P95: h.quantile(0.95), P99: h.quantile(0.99), P999: h.quantile(0.999)}
}
